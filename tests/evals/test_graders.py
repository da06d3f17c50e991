"""Each grader passes a good answer in full, and fails bad ones where they are bad."""

from __future__ import annotations

import pytest
from graders.task import grade, tasks
from prepare import prepare

from evals.answers import BAD, GOOD
from evals.answers_rewards import code_column, invoices_const

TASKS = tasks()


def needs_sandbox(request, name: str) -> None:
    """A good answer to the task about code runs in the sandbox, which a machine may lack."""
    if name == "code-reward":
        request.getfixturevalue("sandbox_here")


@pytest.mark.parametrize(("name", "make"), [pytest.param(n, m, id=m.__name__) for n, makers in GOOD.items() for m in makers])
def test_a_good_answer_passes(request, tmp_path, name, make):
    needs_sandbox(request, name)
    prepare(TASKS[name], tmp_path, None)
    graded = grade(TASKS[name], tmp_path, make(tmp_path))
    assert [r for r in graded["assertion_results"] if not r["passed"]] == []


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [("code-reward", code_column, "passes right solutions"), ("invoices", invoices_const, "fails a constant object")],
    ids=["code", "invoices"],
)
def test_a_reward_may_read_columns_that_the_agent_added_or_changed(request, tmp_path, name, make, words):
    needs_sandbox(request, name)
    prepare(TASKS[name], tmp_path, None)
    (result,) = grade(TASKS[name], tmp_path, make(tmp_path), only=words)["assertion_results"]
    assert result["passed"], result


@pytest.mark.parametrize(("name", "make", "words"), [pytest.param(n, m, w, id=m.__name__) for n, bad in BAD.items() for m, w in bad])
def test_a_bad_answer_fails_where_it_is_bad(tmp_path, name, make, words):
    prepare(TASKS[name], tmp_path, None)
    (failed,) = grade(TASKS[name], tmp_path, make(tmp_path), only=words)["assertion_results"]
    assert not failed["passed"] and failed["evidence"], failed


@pytest.mark.parametrize("name", TASKS)
def test_an_agent_that_did_nothing_passes_in_no_task(tmp_path, name):
    graded = grade(TASKS[name], tmp_path, "")
    assert graded["summary"]["failed"] > 0


def test_each_task_has_a_good_answer_and_two_bad_ones():
    assert set(GOOD) == set(BAD) == set(TASKS) and all(len(bad) >= 2 for bad in BAD.values())
