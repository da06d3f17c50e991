"""What a machine has, what fits together, and what one config needs of it."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import check_environment
import pytest
from conftest import ROOT
from grpo_rlvr.config import load_config
from grpo_rlvr.environment import machine, needs, places, survey, versions
from grpo_rlvr.environment.check import BLOCKED, OK, WARNING, Check, exit_code, verdict

H100 = machine.Card("NVIDIA H100 80GB HBM3", 79.65, 0.5, "570.86", 9.0)
SIGHTED = {"version": "2.13.0", "cuda": "12.9", "hip": None, "available": True, "gpus": [], "other": None}
BLIND = {**SIGHTED, "version": "2.13.0+cpu", "cuda": None, "available": False}


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


# ---- verdict


@pytest.mark.parametrize(
    ("statuses", "whole", "code", "strict"),
    [((OK, OK), "ready", 0, 0), ((OK, WARNING), "ready-with-warnings", 0, 1), ((WARNING, BLOCKED), "blocked", 3, 3)],
)
def test_the_verdict_and_its_exit_code(statuses, whole, code, strict):
    checks = [Check("x", status, "") for status in statuses]
    assert (verdict(checks), exit_code(checks, False), exit_code(checks, True)) == (whole, code, strict)


def test_a_run_that_does_not_fit_is_a_no_and_nothing_is_missing():
    no = Check("gpu-memory", BLOCKED, "", no=True)
    assert exit_code([no], False) == 1 and exit_code([no, Check("model", BLOCKED, "")], False) == 3


def test_what_a_program_prints_does_not_act_on_the_terminal():
    assert "\x1b" not in Check("gpu", WARNING, "\x1b[31mred\x07").found


# ---- the machine


def driver(tmp_path: Path, monkeypatch, text: str, code: int = 0) -> None:
    """An nvidia-smi that prints `text`."""
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_the_driver_is_read(tmp_path, monkeypatch):
    driver(tmp_path, monkeypatch, "NVIDIA H200, 143771, 4, 570.86.15, 9.0\nNVIDIA GB10, [N/A], [N/A], 580.95, 12.1\nnonsense")
    cards, said = machine.ask_driver()
    assert said is None and [c.name for c in cards] == ["NVIDIA H200", "NVIDIA GB10"]
    assert cards[0].total_gib == pytest.approx(140.4, abs=0.1) and cards[0].driver == "570.86.15" and cards[1].total_gib is None
    assert machine.platform_name(cards) == "dgx-spark" and machine.platform_name(cards[:1]) == "generic-nvidia"


def test_a_driver_that_does_not_answer(tmp_path, monkeypatch):
    driver(tmp_path, monkeypatch, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9)
    cards, said = machine.ask_driver()
    (check,) = machine.gpu_checks(cards, said, None)
    assert check.status == WARNING and "couldn't communicate" in check.found and "reload" in check.fix


@pytest.mark.parametrize(
    ("cards", "torch", "names", "status", "words"),
    [
        ([], BLIND, ["gpu"], WARNING, "no GPU"),
        ([H100], SIGHTED, ["gpu"], OK, "1 x NVIDIA H100 80GB HBM3, 79.7 GiB; driver 570.86"),
        ([H100], BLIND, ["gpu", "torch-cuda"], BLOCKED, "is a CPU build"),
        ([H100], {**BLIND, "cuda": "13.0"}, ["gpu", "torch-cuda"], BLOCKED, "CUDA 13.0 and cannot use this driver"),
        ([machine.Card("Tesla T4", 14.7, 0.0, "535", 7.5)], SIGHTED, ["gpu"], WARNING, "no bfloat16"),
        ([machine.Card("L4", 22.0, 9.0, "535", 8.9)], SIGHTED, ["gpu"], WARNING, "9.0 GiB of it already in use"),
        ([H100, machine.Card("L4", 22.0)], SIGHTED, ["gpu"], WARNING, "2 x L4, NVIDIA H100"),
        ([], {**SIGHTED, "gpus": [{"name": "AMD MI300X", "total_gib": 191.7, "capability": [9, 4]}]}, ["gpu"], OK, "1 x AMD MI300X"),
        ([], {**BLIND, "other": "mps"}, ["gpu"], WARNING, "kind mps"),
    ],
)  # fmt: skip
def test_gpus(cards, torch, names, status, words):
    checks = machine.gpu_checks(cards, None, torch)
    assert [c.name for c in checks] == names and checks[-1].status == status and words in checks[-1].found


def test_torch_is_asked_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(machine, "ASK_TORCH", "raise ImportError('libcudart.so.13: cannot open shared object file')")
    assert "libcudart.so.13" in machine.ask_torch()
    monkeypatch.setattr(machine, "ASK_TORCH", "print('a notice'); print('{\"version\": \"2\"}')")
    assert machine.ask_torch() == {"version": "2"}


# ---- packages


@pytest.mark.parametrize(
    ("specifier", "version", "holds"),
    [
        (">=5.10,<5.18", "5.17.0", True), (">=5.10,<5.18", "5.18.0", False), (">=5.10,<5.18", "5.9.3", False), ("==2.13.0", "2.13.0+cu129", True),
        ("~=1.16.0", "1.16.4", True), ("~=1.16.0", "1.17.0", False), ("==2.*", "2.9", True), ("!=1.2", "1.2.0", False), (">1.0", "1.0.0", False),
        (">=2.9", "2.13.0a0", True), ("", "1", True),
    ],
)  # fmt: skip
def test_versions_within_a_range(specifier, version, holds):
    assert versions.allows(specifier, version) is holds


def test_the_ranges_are_those_of_the_project_and_the_installed_set_is_within_them():
    ranges, tested = versions.own_ranges(), versions.tested_versions()
    assert ranges["trl"] == ">=1.16,<1.17" and ranges["vllm"] == ">=0.22,<=0.31.0" and tested["trl"].startswith("1.16")
    assert all(versions.allows(spec, tested[name]) for name, spec in ranges.items() if name in tested)
    assert [c for c in versions.package_checks() if c.name.startswith("version-")] == []


def test_packages_that_do_not_fit_together(monkeypatch):
    asks = {"vllm": ["torch==2.13.0", "transformers<5.18,>=4.56", "ray[cgraph]>=2.48; extra == 'ray'", "numpy<2.5"],
            "trl": ["accelerate>=1.4", 'vllm<=0.31.0,>=0.22; extra == "vllm"', 'tiny>=9; platform_system == "Plan9"']}  # fmt: skip
    here = {"vllm": "0.32.0", "torch": "2.14.0", "transformers": "5.17.0", "trl": "1.16.0", "accelerate": "1.15.0", "numpy": "2.6.0"}
    monkeypatch.setattr(versions.importlib.metadata, "requires", lambda name: asks.get(name))
    monkeypatch.setattr(versions, "installed", here.get)
    found = by_name(versions.conflicts({k: v for k, v in here.items() if k != "numpy"}))
    assert {name: c.status for name, c in found.items()} == {"vllm-torch": BLOCKED, "vllm-numpy": WARNING, "trl-vllm": WARNING}
    assert "vllm 0.32.0 asks for torch ==2.13.0; 2.14.0 is here" in found["vllm-torch"].found and "constraints.txt" in found["vllm-torch"].fix


def test_missing_and_wrong_packages(monkeypatch):
    here = {"pyyaml": "6.0", "jsonschema": "4.26", "rich": "15", "math-verify": "0.9", "torch": "2.13.0", "transformers": "5.20.0", "trl": "1.16.0"}
    monkeypatch.setattr(versions, "installed", here.get)
    monkeypatch.setattr(versions, "conflicts", lambda found: [])
    found = by_name(versions.package_checks())
    assert found["packages"].status == BLOCKED and "missing: datasets, accelerate" in found["packages"].found
    assert found["version-transformers"].status == BLOCKED and "5.20.0 is outside >=5.10,<5.18" in found["version-transformers"].found


# ---- places


@pytest.fixture
def hub(monkeypatch):
    """A hub on this machine that answers with `answer[0]`."""
    answer = [200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(answer[0])
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://user:secret@127.0.0.1:{server.server_port}")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "answers", lambda place, ask=places.answers: ask(place.replace("user:secret@", "")))
    yield answer
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_mirror_that_answers_is_fine_whatever_it_says_of_the_page(hub):
    for code in (200, 401, 404):
        hub[0] = code
        check = places.hub_check()
        assert check.status == OK and "HF_ENDPOINT" in check.found and "secret" not in check.found + json.dumps(check.data)
    hub[0] = 503
    assert places.hub_check().status == WARNING


def test_no_hub_is_a_warning_and_blocks_only_what_must_be_fetched(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(places, "answers", lambda place: "timed out")
    warned, blocked = places.hub_check(), places.hub_check(["Qwen/Qwen3-4B"])
    assert warned.status == WARNING and "HF_HUB_OFFLINE=1" in warned.fix and "HF_ENDPOINT" in warned.fix
    assert blocked.status == BLOCKED and "needed for Qwen/Qwen3-4B" in blocked.found
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert places.hub_check().status == OK and places.hub_check(["Qwen/Qwen3-4B"]).status == BLOCKED


def test_an_address_that_is_none(monkeypatch):
    assert places.answers("file:///etc") == "not an http address"


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "not" / "yet"))
    assert places.cache_check().status == OK and list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file"))
    check = places.cache_check()
    assert check.status == WARNING and "HF_HOME" in check.fix


def test_isolation_blocks_only_where_the_config_needs_it(monkeypatch):
    from grpo_rlvr.errors import MissingError, Problem
    from grpo_rlvr.sandbox import opening

    def none(*args):
        raise MissingError("sandbox", [Problem("bubblewrap", "there is no bwrap on this machine", "apt install bubblewrap")])

    monkeypatch.setattr(opening, "find_backend", none)
    assert places.isolation_check().status == WARNING and places.isolation_check(needed=True).status == BLOCKED
    assert "apt install" in places.isolation_check().fix


# ---- a config


@pytest.fixture
def ready(project: Path) -> Path:
    """The small project with a model's folder; what is in the weights, nobody reads here."""
    shape = {"model_type": "qwen2", "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 96, "vocab_size": 128, "tie_word_embeddings": True, "max_position_embeddings": 256}  # fmt: skip
    (project / "model").mkdir()
    (project / "model/config.json").write_text(json.dumps(shape), encoding="utf-8")
    (project / "model/model.safetensors").write_bytes(b"")
    return project


def edited(project: Path, old: str, new: str):
    path = project / "config.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return load_config(path)


def test_model_and_data(ready, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    config = load_config(ready / "config.yaml")
    assert needs.model_check(config)[0].status == OK and [c.status for c in needs.data_checks(config)[0]] == [OK, OK]
    (ready / "model/model.safetensors").unlink()
    assert "no weights" in needs.model_check(config)[0].found
    (ready / "eval.jsonl").unlink()
    assert needs.data_checks(config)[0][1].status == BLOCKED
    check, fetch = needs.model_check(edited(ready, "model: {name_or_path: model}", "model: {name_or_path: Qwen/Qwen3-4B}"))
    assert check.status == WARNING and fetch and "hf download Qwen/Qwen3-4B" in check.fix
    snapshot = tmp_path / "hub/models--Qwen--Qwen3-4B/snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_text("")
    assert needs.model_check(load_config(ready / "config.yaml"))[1] is False


@pytest.mark.parametrize(
    ("reward", "sandbox"),
    [
        ("{use: exact}", None), ("{use: code}", "auto"), ("{use: code, args: {sandbox: docker}}", "docker"),
        ("{use: length, args: {use: code, target_tokens: 9, args: {sandbox: podman}}}", "podman"), ("{use: 'mine.py:wraps'}", "podman"),
        ("{use: length, args: {use: 'mine.py:wraps', target_tokens: 9}}", "podman"), ("{use: 'mine.py:other'}", None), ("{use: 'gone.py:f'}", None),
    ],
)  # fmt: skip
def test_a_code_reward_is_found_wherever_it_is(ready, reward, sandbox):
    (ready / "mine.py").write_text(
        "from grpo_rlvr.rewards import make_code_reward\ncode = make_code_reward(sandbox='podman')\n"
        "def wraps(completions, tests):\n    return code(completions, tests=tests)\ndef other(completions):\n    return [0.0] * len(completions)\n"
    )
    assert needs.sandbox_of(edited(ready, "{use: exact}", reward)) == sandbox


def test_packages_of_the_settings(ready, monkeypatch):
    from grpo_rlvr.training import settings

    for module in (settings, needs):
        monkeypatch.setattr(module.importlib.util if module is settings else needs, "find_spec", lambda name: None)
    four = "{quantization_config: {load_in_4bit: true}}"
    config = edited(ready, "grpo:\n", f"hardware: {{gpu: t4}}\ngrpo:\n  use_vllm: true\n  report_to: wandb\n  model_init_kwargs: {four}\n")
    found = " ".join(c.found for c in needs.settings_check(config, 0))
    assert all(word in found for word in ("vLLM", "wandb", "torch sees no GPU", "bitsandbytes"))


def test_the_plan_is_for_the_gpu_that_is_here(ready):
    config = edited(ready, "model: {name_or_path: model}", "model: {name_or_path: Qwen/Qwen2.5-7B-Instruct}\nhardware: {gpu: h200}")
    here, w = needs.memory_check(config, [machine.Card("NVIDIA GeForce RTX 4090", 23.99, 0.0, "570", 8.9)])
    assert here.status == BLOCKED and here.no and "of 23.5 on RTX 4090" in here.found and "--fit" in here.fix and w.gpu.name == "rtx-4090"
    own, _ = needs.memory_check(config, [machine.Card("A Card Of Tomorrow", 500.0)])
    assert own.status == OK and "of 492.5" in own.found
    absent, _ = needs.memory_check(config, [])
    assert absent.status == OK and "h200, which is not here" in absent.found
    unknown, w = needs.memory_check(edited(ready, "Qwen/Qwen2.5-7B-Instruct", "nobody/knows"), [H100])
    assert unknown.status == WARNING and w is None


def test_gpus_that_are_not_there(ready):
    config = edited(ready, "model: {name_or_path: model}", "model: {name_or_path: model}\nhardware: {gpu: h100-80gb, count: 8}")
    (check,) = needs.count_check(config, [H100, H100])
    assert check.status == BLOCKED and "8 GPUs" in check.found and "hardware.count: 2" in check.fix
    assert needs.count_check(config, [H100] * 8) == []


def test_room_for_checkpoints(ready, monkeypatch):
    config = load_config(ready / "config.yaml")
    _, w = needs.memory_check(config, [])
    assert needs.disk_check(config, w).status == OK
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10, 9, 1))
    check = needs.disk_check(config, w)
    assert check.status == BLOCKED and "checkpoint" in check.found and "save_total_limit" in check.fix


# ---- the command


@pytest.fixture
def quick(monkeypatch):
    """Without starting torch or a sandbox, which have their own tests."""
    monkeypatch.setattr(machine, "ask_driver", lambda: ([], None))
    monkeypatch.setattr(machine, "ask_torch", lambda: BLIND)
    monkeypatch.setattr(places, "isolation_check", lambda *args, **kwargs: Check("isolation", OK, "bubblewrap"))


def run(capsys, *args: str) -> tuple[int, str, str]:
    code = check_environment.main([str(a) for a in args])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_with_a_config_the_report_is_in_the_run_folder(quick, ready, capsys):
    code, out, _ = run(capsys, ready / "config.yaml", "--json")
    report = json.loads((ready / "run/env-report.json").read_text(encoding="utf-8"))
    answer = json.loads(out)
    assert code == 0 and len(out.splitlines()) == 1 and answer["verdict"] == "ready-with-warnings"
    assert (report["schema"], report["verdict"], report["platform"]) == ("grpo-rlvr/env-report/1", "ready-with-warnings", "cpu")
    assert report["environment"]["checks"] == answer["checks"]
    assert {"python", "memory", "disk", "gpu", "packages", "model", "data.train", "gpu-memory", "checkpoints", "isolation", "cache", "hub"} <= {
        c["name"] for c in answer["checks"]
    }
    assert run(capsys, ready / "config.yaml", "--strict")[0] == 1


def test_without_a_config_nothing_is_written_unless_asked(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "--no-hub")[0] == 0 and list(tmp_path.iterdir()) == []
    code, _, err = run(capsys, "--no-hub", "--out", "report.json")
    assert code == 0 and json.loads(Path("report.json").read_text(encoding="utf-8"))["verdict"] == "ready-with-warnings"
    assert "hub" not in {line.split()[0] for line in err.splitlines() if line and line[0] != " "}


def test_what_is_missing_is_exit_3_with_its_fix(quick, ready, capsys):
    edited(ready, "train: train.jsonl", "train: nowhere.jsonl")
    code, _, err = run(capsys, ready / "config.yaml", "--width", "80")
    assert code == 3 and err.startswith("blocked  (1 blocked") and "data.train" in err and "-> correct data.train" in err


def test_a_mistake_in_the_config_is_exit_2(quick, ready, capsys):
    path = ready / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("max_steps", "max_stepz"), encoding="utf-8")
    assert run(capsys, ready / "config.yaml", "--json")[0] == 2
    assert not (ready / "run").exists()


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_is_wider_than_the_terminal(quick, ready, capsys, width):
    _, _, err = run(capsys, ready / "config.yaml", "--width", str(width))
    assert [line for line in err.splitlines() if len(line) > width and str(ready) not in line] == []


def test_colour_only_where_it_is_seen():
    checks = [Check("x", status, "y" * 200, "z") for status in (OK, WARNING, BLOCKED)]
    assert "\x1b[31m" in survey.page(checks, 80, True) and "\x1b" not in survey.page(checks, 80, False)


def test_the_light_script_asks_the_real_machine_without_torch(tmp_path):
    """Nothing is faked here; torch is imported by the process that is asked, not by this one."""
    code = "import sys; sys.path.insert(0, 'scripts'); import check_environment as c\n"
    code += "code = c.main(['--no-hub', '--json', '--out', sys.argv[1]]); print(code, sorted({'torch', 'transformers', 'trl'} & set(sys.modules)))"
    env = {**os.environ, "HF_HUB_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "r.json")], capture_output=True, text=True, cwd=ROOT, env=env, timeout=300)
    assert done.stdout.splitlines()[-1] in ("0 []", "3 []"), done.stderr
    report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    packages = next(c for c in report["environment"]["checks"] if c["name"] == "packages")
    assert "trl" in packages["data"]["versions"]
