"""What a reader's machine may lack or have otherwise: no network, no torch, no POSIX, another encoding, other line ends."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import venv

import pytest
from conftest import ROOT
from grpo_rlvr.errors import MissingError
from grpo_rlvr.inspection.labels import append_label, load_labels
from grpo_rlvr.sandbox import find_backend
from packaging.requirements import Requirement

SCRIPTS = ROOT / "scripts"
# Callbacks of transformers' trainer.
TRAINING = {f"grpo_rlvr.training.{name}" for name in ("callbacks", "dry_step", "stop_on")}
# What lies in `inside` runs in the sandbox only, on Linux.
ALL = sorted(
    str(path.relative_to(SCRIPTS).with_suffix("")).replace(os.sep, ".").removesuffix(".__init__")
    for path in (SCRIPTS / "grpo_rlvr").rglob("*.py")
    if "inside" not in path.parts
)
LIGHT = [name for name in ALL if name not in TRAINING]

IMPORT_ALL = """
import importlib
failed = []
for name in {names!r}:
    try:
        importlib.import_module(name)
    except BaseException as exc:
        failed.append(f"{{name}}: {{type(exc).__name__}}: {{exc}}")
print("\\n".join(failed), file=sys.stderr)
sys.exit(bool(failed))
"""

# Nothing may be asked of the network, and nothing heavy imported.
BARE = """
import socket, sys
def refused(*_, **__):
    raise RuntimeError("the network was asked")
socket.socket.connect = socket.socket.bind = socket.create_connection = socket.getaddrinfo = refused
for name in ("torch", "transformers", "trl", "datasets", "accelerate", "peft", "vllm", "numpy", "pandas", "pyarrow", "matplotlib"):
    sys.modules[name] = None
"""

# As near to Windows as Linux can come: without the modules and calls that it lacks. `os.name` stays, since pathlib could make no path, and
# SIGKILL, with which subprocess kills here.
WINDOWS = """
import asyncio, os, select, shutil, signal, subprocess, sys, sysconfig, tempfile, threading, types
import rich.console, rich.progress, rich.table
sysconfig.get_paths()
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog"):
    sys.modules[name] = None
for module, names in (
    (os, "fork forkpty register_at_fork getuid geteuid getgid getegid getpgid killpg setsid setpgid sched_getaffinity sysconf uname mkfifo"),
    (signal, "SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGVTALRM SIGPROF SIGPIPE SIGCHLD setitimer ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF alarm"),
    (select, "poll epoll"),
):
    for name in names.split():
        delattr(module, name)
shutil._winapi = types.SimpleNamespace(NeedCurrentDirectoryForExePath=lambda name: False)
sys.platform = "win32"
"""


def python(code, *flags, **more):
    command = [sys.executable, *flags, "-c", f"import sys\nsys.path.insert(0, {str(SCRIPTS)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, timeout=300, **more)


@pytest.mark.parametrize("machine", [BARE, WINDOWS], ids=["bare", "windows"])
def test_every_module_is_imported_without_network_torch_posix_and_warnings(machine):
    assert len(LIGHT) > 200
    done = python(machine + IMPORT_ALL.format(names=LIGHT), "-W", "error", "-X", "warn_default_encoding")
    assert done.stderr.decode().strip() == "" and done.returncode == 0


# ---- the light scripts, there
CONFIG = """\
model: {name_or_path: org/model}
data: {train: train.jsonl}
rewards: [{use: math}, {use: 'mine.py:größer_als_\u4e8c', weight: 0}]
inspection: {prompts: 4, samples_per_prompt: 4, min_read: 4, read: 6}
grpo: {num_generations: 4, max_completion_length: 64, max_steps: 10}
run: {folder: runs/one}
"""
REWARD = "def größer_als_\u4e8c(completions):\n    from beside import VALUE\n\n    return [VALUE for _ in completions]\n"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def windows_text(path, text):
    """As an editor on Windows saves it: a byte order mark, and its line ends."""
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())


@pytest.fixture
def foreign(tmp_path):
    """A project written on Windows, whose model tries to act on the terminal and whose names no old code page has."""
    rows = [{"prompt": f"{a}+5=? \u2264", "answer": str(a + 5)} for a in range(10, 16)]
    recorded = [
        {"prompt_index": i, "completion": f"<answer>{15 + i + off}</answer> \u2211 {ESCAPES} {k}", "finish": "stop", "tokens": 10 + k}
        for i in range(4)
        for k, off in enumerate([0, 0, 1, -1])
    ]
    log = [{"step": i, "reward": 0.5 + i / 100, "rewards/\u4e8c" + ESCAPES + "/mean": 0.5, "loss": 0.0, ESCAPES: 1.0} for i in range(1, 40)]
    lines = {"train.jsonl": rows, "recorded.jsonl": recorded, "log.jsonl": log}
    for name, objects in lines.items():
        windows_text(tmp_path / name, "".join(json.dumps(o, ensure_ascii=False) + "\n" for o in objects))
    for name, text in {"config.yaml": CONFIG, "mine.py": REWARD, "beside.py": "VALUE = 1.0\n"}.items():
        windows_text(tmp_path / name, text)
    return tmp_path


def run_script(folder, machine, environment, name, *arguments):
    path = str(SCRIPTS / name)
    code = f"import runpy\nsys.argv = {[path, *map(str, arguments)]!r}\n{machine}\nrunpy.run_path({path!r}, run_name='__main__')"
    flags = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")
    done = python(code, *flags, cwd=folder, env={**os.environ, **environment})
    said = done.stdout + done.stderr
    assert b"Traceback" not in said and done.returncode in (0, 1, 3), said.decode(errors="replace")
    return done


MACHINES = {
    "windows": (WINDOWS, {"PYTHONIOENCODING": "cp1252", "NO_COLOR": "1"}),
    "C": ("", {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_light_scripts_run_there(foreign, machine):
    def run(*arguments):
        done = run_script(foreign, *MACHINES[machine], *arguments)
        said = done.stdout + done.stderr
        assert not any(c.encode() in said for c in ESCAPES if not c.isprintable()), said
        return done.returncode, done.stdout.decode("ascii"), done.stderr.decode("ascii", "replace")

    code, out, said = run("inspect_rewards.py", "run", "config.yaml", "--completions", "recorded.jsonl", "--json")
    assert code == 0 and json.loads(out)["mean_scores"] == {"math": 0.5, "größer_als_\u4e8c": 1.0}
    assert run("inspect_rewards.py", "gate", "config.yaml")[0] == 1
    label(foreign)
    code, out, said = run("inspect_rewards.py", "gate", "config.yaml", "--labels", "labels.jsonl", "--json")
    gate = json.loads((foreign / "runs/one/inspection/gate.json").read_text(encoding="utf-8"))
    assert code == 0 and gate["counts"]["read"] == 6, said
    assert {"mine.py", "beside.py"} <= set(gate["fingerprint"]["reward_code"])
    code, _, said = run("memory_plan.py", "config.yaml", "--model", "qwen3-8b", "--gpu", "h100-80gb")
    assert code == 1 and "from the longest in the file" in " ".join(said.split())
    code, out, _ = run("diagnose.py", "log.jsonl", "--all")
    assert code == 0 and "39 lines" in out and r"\x1b]0;owned" in out
    assert run("diagnose.py", "log.jsonl", "--report", "r.html")[0] == 0
    assert not any(c in (foreign / "r.html").read_text(encoding="utf-8") for c in "\x1b\x07\x9b\u202e")
    assert run("check_environment.py", "config.yaml", "--no-hub")[0] in (0, 3)


def label(folder):
    """What the static page downloads, opened and saved again in an editor."""
    from grpo_rlvr.config import load_config
    from grpo_rlvr.inspection.select import load_selection

    said = {"schema": "grpo-rlvr/label/1", "reviewer": "me", "reviewer_kind": "human", "at": "2026-11-30T12:00:00+00:00", "note": ""}
    lines = []
    for sample in load_selection(load_config(folder / "config.yaml").inspection_folder):
        right = f"<answer>{sample['columns']['answer']}<" in sample["completion"]
        lines.append(json.dumps({**said, "sample_id": sample["sample_id"], "label": "pass" if right else "fail"}) + "\n")
    windows_text(folder / "labels.jsonl", "".join(lines))


def test_every_text_file_is_opened_with_its_encoding():
    """Else it is read in whatever the machine has: cp1252 on many a Windows."""
    found = []
    for path in [*SCRIPTS.rglob("*.py"), *(ROOT / "templates").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and lacks_encoding(call):
                found.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    assert found == []


def lacks_encoding(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    owner = getattr(getattr(call.func, "value", None), "id", "")
    given = {keyword.arg for keyword in call.keywords}
    binary = any(isinstance(a, ast.Constant) and isinstance(a.value, str) and "b" in a.value for a in call.args[:2])
    text = (
        name == "read_text"
        or (name == "write_text" and isinstance(call.func, ast.Attribute) and owner != "cli")
        or (name == "open" and isinstance(call.func, ast.Name) and not binary)
        or (name == "open" and isinstance(call.func, ast.Attribute) and not binary and owner not in ("os", "Reading") and owner)
        or (name == "fdopen" and not binary)
        or (name in ("run", "Popen", "check_output") and bool({"text", "universal_newlines"} & given))
    )
    return text and "encoding" not in given


# ---- with the packages that a light script names, and no others
INSPECTION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """Makes a fresh environment with some packages and what they ask for; returns its Python. They are those of this one, linked."""
    made = {}

    def environment(requirements):
        names = frozenset(closure(requirements))
        if names not in made:
            folder = tmp_path_factory.mktemp("light") / "venv"
            venv.create(folder, symlinks=True)
            (site,) = folder.glob("lib/python3*/site-packages")
            for name in names:
                files = [file for file in importlib.metadata.files(name) or () if ".." not in file.parts]
                for top in {file.parts[0] for file in files} - {"__pycache__"}:
                    if not (site / top).exists():
                        (site / top).symlink_to(importlib.metadata.distribution(name).locate_file(top))
            made[names] = folder / "bin" / "python"
        return made[names]

    return environment


def closure(requirements):
    """The distributions that these lines ask for on this machine, and theirs in turn, with the extras that are asked of each."""
    found, todo = {}, [Requirement(line) for line in requirements]
    while todo:
        wanted = todo.pop()
        known = found.setdefault(wanted.name, set())
        if not wanted.extras <= known or not known:
            known |= wanted.extras | {""}
            lines = map(Requirement, importlib.metadata.requires(wanted.name) or ())
            todo += [line for line in lines if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in known)]
    return found


def requirements_of(script):
    block = re.search(r"# dependencies = \[\n(.*?)# \]", (SCRIPTS / script).read_text(encoding="utf-8"), re.DOTALL)[1]
    return re.findall(r'"(.+)"', block)


def test_each_light_script_needs_no_more_than_it_names(foreign, environments):
    def run(script, *arguments, requirements=None):
        command = [environments(requirements or requirements_of(script)), SCRIPTS / script, *arguments]
        done = subprocess.run([str(part) for part in command], cwd=foreign, capture_output=True, timeout=300, encoding="utf-8")
        assert "Traceback" not in done.stderr, done.stderr
        return done

    assert "from the longest" in " ".join(run("memory_plan.py", "config.yaml", "--model", "qwen3-8b", "--gpu", "h100-80gb").stderr.split())
    assert "39 lines" in run("diagnose.py", "log.jsonl").stdout
    drawn = run("diagnose.py", "log.jsonl", "--png", "a.png")
    assert drawn.returncode == 3 and "pip install matplotlib" in drawn.stderr
    checked = run("check_environment.py", "--no-hub")
    assert checked.returncode == 3 and "missing: math-verify, torch" in " ".join(checked.stderr.split()) and "pip install -c" in checked.stderr

    inspect = functools.partial(run, "inspect_rewards.py", requirements=INSPECTION)
    drawn = inspect("run", "config.yaml")
    assert drawn.returncode == 3 and "pip install" in drawn.stderr
    done = inspect("run", "config.yaml", "--completions", "recorded.jsonl")
    assert done.returncode == 0, done.stderr
    (foreign / "recorded.parquet").write_bytes(b"PAR1")
    table = inspect("run", "config.yaml", "--completions", "recorded.parquet")
    assert table.returncode == 3 and "pip install datasets" in table.stderr
    assert inspect("gate", "config.yaml").returncode == 1
    trained = run("train.py", "config.yaml", requirements=INSPECTION)
    assert trained.returncode == 3 and "not installed: torch, transformers, trl, datasets, accelerate" in trained.stderr
    assert "pip install -c SKILL/constraints.txt torch" in trained.stderr


@pytest.mark.parametrize("sandbox", ["auto", "docker", "bubblewrap", "jail --"])
def test_on_windows_code_is_run_nowhere(monkeypatch, sandbox):
    monkeypatch.delattr("select.poll")
    with pytest.raises(MissingError, match=r"Windows has no sandbox(.|\n)*WSL2"):
        find_backend(sandbox)


def test_the_name_of_a_reader_is_no_path(tmp_path):
    folder = tmp_path / "runs" / "inspection"
    append_label(folder, "a", "pass", "../../../elsewhere\x1b", "human")
    assert {p.name for p in tmp_path.rglob("*") if p.is_file()} <= {"labels.jsonl", ".labels.lock", ".lock"}
    assert len(load_labels(folder)) == 1
