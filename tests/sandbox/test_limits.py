"""Each limit is measured: what is below it works, what is above it is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from grpo_rlvr.sandbox import Calls, Program, Returned
from grpo_rlvr.sandbox.inside import jail
from grpo_rlvr.sandbox.selftest import PROBES, broken_promises


def call(pool, entry, *args, code=PROBES):
    """(value or None, why it ended) of one call."""
    (answer,) = pool.run([Calls(code, entry, [(args, {})])])
    (result,) = answer.results or (None,)
    return (result.value if isinstance(result, Returned) else None), answer.reason


def test_the_self_test_finds_nothing(any_backend):
    from grpo_rlvr.sandbox import Limits

    assert broken_promises(any_backend, Limits()) == []


@pytest.mark.parametrize("memory_mib", [128, 700])
def test_memory_of_a_process(open_one, memory_mib):
    pool = open_one(memory_mib=memory_mib)
    assert call(pool, "allocate", memory_mib - 64) == ((memory_mib - 64) << 20, "done")
    assert call(pool, "allocate", memory_mib + 1) == (0, "done")


def test_memory_of_all_processes_together(open_one):
    code = """
import os, time
def spread(count, mib):
    for _ in range(count):
        if os.fork() == 0:
            held = b"x" * (mib << 20)
            time.sleep(30)
            os._exit(0)
    time.sleep(3)
    return "all"
"""
    pool = open_one(memory_mib=128, timeout_s=4)
    assert call(pool, "spread", 3, 30, code=code) == ("all", "done")
    assert call(pool, "spread", 10, 60, code=code) == (None, "memory")


def test_processes(open_one):
    forked, reason = call(open_one(processes=12), "fork", 100)
    assert reason == "done" and 8 <= forked <= 12


def test_files(open_one):
    pool = open_one(tmp_mib=20)
    written, reason = call(pool, "fill", 200)
    assert reason == "done" and 20 <= written <= 20 + 17
    assert call(pool, "fill", 5)[0] == 6  # the next job finds it empty again


def test_output(open_one):
    pool = open_one(output_mib=1)
    assert call(pool, "f", code="def f():\n    return 'x' * 900_000")[1] == "done"
    assert call(pool, "f", code="def f():\n    return 'x' * 1_200_000") == (None, "output")
    fine, flood = pool.run([Program("print('x' * 900_000)", [""]), Program("while True: print('x' * 9999)", [""])])
    assert fine.reason == "done" and flood.reason == "output"


def test_time_is_processor_time_or_sleep(open_one):
    pool = open_one(timeout_s=0.5)
    for body in ("while True: pass", "import time; time.sleep(60)"):
        start = time.monotonic()
        assert call(pool, "f", code=f"def f():\n    {body}") == (None, "time")
        assert time.monotonic() - start < 0.5 * 3 + 1 + 5  # the bound, and a busy machine
    assert call(pool, "f", code="import time\ndef f():\n    time.sleep(0.1)\n    return 1") == (1, "done")


def test_many_busy_processes_leave_the_neighbour_its_share(open_one):
    """Else a completion that starts them would make those beside it run out of time."""
    crowd = """
import contextlib, os
def f(x):
    for _ in range(28):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.setsid()
            while True:
                pass
    while True:
        pass
"""
    work = "import time\ndef f(x):\n    start = time.process_time()\n    while time.process_time() - start < 0.4:\n        pass\n    return x"
    pool = open_one(workers=2, timeout_s=1.0)
    answers = pool.run([Calls(text, "f", [((1,), {})]) for text in (crowd, work, crowd, work)])
    assert [answer.reason for answer in answers] == ["time", "done"] * 2


@pytest.mark.parametrize("way", ["thread", "process"])
def test_waiting_for_a_processor_is_no_time_whoever_waits(open_one, way):
    """Of code whose first thread only waits for another, as with a thread made for deep recursion."""
    code = f"""
import os, threading, time
def burn():
    start = time.process_time()
    while time.process_time() - start < 0.4:
        pass
def f():
    if "{way}" == "thread":
        thread = threading.Thread(target=burn)
        thread.start()
        thread.join()
    else:
        child = os.fork()
        if child == 0:
            burn()
            os._exit(0)
        os.waitpid(child, 0)
    return 1
"""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        (answer,) = open_one(timeout_s=0.7).run([Calls(code, "f", [((), {})])])
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert answer.reason == "done" and answer.results[0].value == 1


def test_a_program_that_never_stops_printing_has_no_more_time_than_others(open_one):
    """Little by little, so that its output is far from the limit when its time is up."""
    for pause in ("", "\n    time.sleep(0.0001)"):
        (answer,) = open_one(timeout_s=0.5).run([Program(f"import time\nwhile True:\n    print('x', flush=True){pause}", [""])])
        assert (answer.reason, answer.results) == ("time", ())


def test_each_call_has_its_own_time_and_all_have_a_bound(open_one):
    code = "import time\ndef f(s):\n    time.sleep(s)\n    return s"
    pool = open_one(timeout_s=0.3)
    (answer,) = pool.run([Calls(code, "f", [((0.1,), {})] * 6)])
    assert answer.reason == "done" and len(answer.results) == 6
    (answer,) = pool.run([Calls(code, "f", [((0.2,), {})] * 60)])
    assert answer.reason == "time" and len(answer.results) < 60


def test_the_network_the_host_and_the_environment_are_not_there(open_one, monkeypatch):
    monkeypatch.setenv("PLANTED", "planted-secret-0815")
    pool = open_one()
    assert call(pool, "connect", 1)[0] != 0
    assert "planted-secret" not in call(pool, "environment")[0]
    assert call(pool, "files", ["/etc/passwd", "/home", "/root", "/var", str(Path.cwd()), __file__])[0] == []
    seen = call(pool, "f", code="import os\ndef f():\n    return sorted(int(p) for p in os.listdir('/proc') if p.isdigit())")[0]
    assert seen == [1]  # it sees no process but itself


def test_system_calls_are_denied(open_one):
    """Each denied call fails with EPERM before the kernel looks at its arguments; a permitted one does not."""
    code = """
import ctypes
def f(numbers):
    libc = ctypes.CDLL(None, use_errno=True)
    found = {}
    for name, number in numbers.items():
        ctypes.set_errno(0)
        libc.syscall(number, -1, -1, -1, -1, -1, -1)
        found[name] = ctypes.get_errno()
    return found
"""
    place = jail.MACHINES[os.uname().machine][3]
    numbers = {name: pair[place] for name, pair in jail.DENIED.items() if pair[place] is not None}
    found = call(open_one(), "f", numbers, code=code)[0]
    assert found == dict.fromkeys(numbers, 1)


def test_the_numbers_of_system_calls_are_those_of_the_headers():
    """x86_64, where the kernel's headers are installed; aarch64's are those of the generic table."""
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    known = dict(line.split()[1:3] for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    wrong = {name: pair[0] for name, pair in jail.DENIED.items() if str(pair[0]) != known.get(f"__NR_{name}", str(pair[0]))}
    assert wrong == {}
