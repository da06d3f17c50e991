"""The worker behind the math reward: bounded, restarted, reaped, safe after a fork, and under any main program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from grpo_rlvr.rewards import make_math_reward, math_reward
from grpo_rlvr.rewards.mathematics.algebra_process import ALGEBRA, AlgebraProcess, Question

SCRIPTS = Path(__file__).parents[2] / "scripts"


def boxed(*answers: str) -> list[str]:
    return [f"\\boxed{{{a}}}" for a in answers]


def question(gold: str, answer: str) -> Question:
    return Question(gold, answer, "fraction", False)


def run_python(program: str, *options: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    return subprocess.run([sys.executable, *options, "-"], input=program, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def worker():
    process = AlgebraProcess()
    yield process
    process.stop()


def test_a_hostile_answer_costs_one_bounded_wait_and_the_rest_is_scored(worker):
    hostile = [f"(10^{{9}}+{k})!" for k in range(6)]
    start = time.perf_counter()
    assert worker.ask([question("3", h) for h in hostile] + [question("x+1", "1+x"), question("x+1", "2+x")], cpu_s=1) == [False] * 6 + [True, False]
    assert time.perf_counter() - start < 60
    known = time.perf_counter()
    assert worker.ask([question("3", h) for h in hostile], cpu_s=1) == [False] * 6
    assert time.perf_counter() - known < 0.5


def test_in_a_thread_a_tower_is_zero_and_the_interpreter_goes_on():
    result: list = []
    math = make_math_reward(cpu_s=1)
    thread = threading.Thread(target=lambda: result.extend(math(completions=boxed("(10^{9}+7)!", "\\ln x+1"), answer=["3", "1+\\ln x"])))
    thread.start()
    thread.join(60)
    assert result == [0.0, 1.0]


def test_nested_towers_are_refused_without_the_worker():
    start = time.perf_counter()
    assert math_reward(completions=boxed(*(f"9^{{9^{{9^{{9^{k}}}}}}}" for k in range(200))), answer=["3"] * 200) == [0.0] * 200
    assert time.perf_counter() - start < 5


def test_a_gold_that_cannot_be_computed_is_none_for_all_its_answers(worker):
    assert worker.ask([question("(10^{9})!", "x+1"), question("(10^{9})!", "x+2"), question("x+3", "3+x")], cpu_s=0.5) == [None, None, True]


def test_a_killed_worker_is_replaced_and_reaped(worker):
    assert worker.ask([question("x+1", "1+x")], 3) == [True]
    old = worker.pid
    os.kill(old, signal.SIGKILL)
    time.sleep(0.1)
    assert worker.ask([question("x+2", "2+x")], 3) == [True]
    assert worker.pid != old
    with pytest.raises(ChildProcessError):
        os.waitpid(old, os.WNOHANG)
    last = worker.pid
    worker.stop()
    assert worker.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


def test_the_worker_is_shared_between_calls():
    math_reward(completions=boxed("\\ln a+1"), answer=["1+\\ln a"])
    pid = ALGEBRA.pid
    math_reward(completions=boxed("\\ln b+1"), answer=["1+\\ln b"])
    assert pid is not None and ALGEBRA.pid == pid


def test_after_a_fork_both_sides_work_under_a_bare_main():
    program = """
        import os
        from grpo_rlvr.rewards import math_reward
        def score(letter):
            return math_reward(completions=["\\\\boxed{\\\\ln %s+1}" % letter], answer=["1+\\\\ln %s" % letter])
        assert score("a") == [1.0]
        child = os.fork()
        if child == 0:
            os._exit(0 if score("b") == [1.0] else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code == 0 and score("c") == [1.0]
        print("fine")
    """
    done = run_python(textwrap.dedent(program), "-W", "error")
    assert (done.stdout.strip(), done.stderr) == ("fine", "")


def test_the_worker_ends_with_its_parent():
    done = run_python(
        """
import os, signal
from grpo_rlvr.rewards.mathematics.algebra_process import ALGEBRA, Question
ALGEBRA.ask([Question("x+1", "1+x", "fraction", False)], 3)
print(ALGEBRA.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    pid = int(done.stdout)
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":  # an orphan is for init to collect
            return
        time.sleep(0.1)
    pytest.fail("the worker outlived its parent")


def test_importing_rewards_loads_nothing_heavy():
    heavy = ("torch", "sympy", "trl", "transformers", "datasets", "jsonschema", "math_verify")
    assert run_python(f"import sys, grpo_rlvr.rewards; print([m for m in {heavy} if m in sys.modules])").stdout.strip() == "[]"
