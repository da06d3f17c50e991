"""The column `tests` of the code reward: the forms that are read, and what is refused because it cannot tell right from wrong."""

# ruff: noqa: E501

from __future__ import annotations

import json

import pytest
from grpo_rlvr.data import check_rows
from grpo_rlvr.errors import GoldError
from grpo_rlvr.rewards import make_code_reward
from grpo_rlvr.rewards.code_asserts import compile_asserts
from grpo_rlvr.rewards.code_tests import CallTests, ProgramTests, read_tests
from grpo_rlvr.rewards.registry import BuiltReward


@pytest.fixture(scope="module")
def reward(sandbox_here):
    return make_code_reward(timeout_s=4)


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (None, "missing"), ("{", "not JSON"), ([1], "list"), ({"checks": []}, "checks"), ({}, "none of the kinds"), ({"entry_point": "f"}, "none of the kinds"),
        ({"cases": [{"args": [1], "expected": 1}]}, "no entry_point"), ({"entry_point": "f", "cases": []}, "empty"),
        ({"entry_point": "f()", "cases": [{"args": [], "expected": 1}]}, "entry_point"), ({"entry_point": "a.b.c", "cases": [{"expected": 1}]}, "entry_point"),
        ({"entry_point": "f", "cases": [{"args": [1]}]}, "case 0 has no 'expected'"), ({"entry_point": "f", "cases": [{"args": "ab", "expected": 1}]}, "args"),
        ({"entry_point": "f", "cases": [{"args": [1], "expected": None}] * 3}, "does nothing would pass"), ({"entry_point": "f", "cases": 3}, "list of objects"),
        ({"stdin_stdout": []}, "empty"), ({"stdin_stdout": [{"stdin": "1", "stdout": " \n"}]}, "does nothing would pass"),
        ({"stdin_stdout": [{"stdin": 1, "stdout": "2"}]}, "text"), ({"asserts": ""}, "empty"), ({"asserts": "f(1)"}, "no assert"),
        ({"asserts": "assert f(1) == = 2"}, "not Python"), ({"asserts": "assert 1 == 1"}, "nothing of the candidate"), ({"asserts": 3}, "int"),
        ({"asserts": "def check(candidate):\n    assert candidate(1) == 2"}, "entry_point"),
        ({"asserts": "assert f(1) == 1", "stdin_stdout": [{"stdin": "", "stdout": "1"}]}, "exactly one"),
        ({"entry_point": "f", "cases": [{"args": json.loads("[" * 150 + "]" * 150), "expected": 1}]}, "case 0: its arguments are nested too deeply"),
        ({"stdin_stdout": [{"stdin": "\ud800", "stdout": "1"}]}, "test 0: stdin holds half"),
        ({"entry_point": "f", "cases": [{"input": [1], "expected": 2}]}, "case 0 has the key 'input' and none of args, kwargs"),
        ({"stdin_stdout": [{"input": "1", "stdout": "2"}]}, "test 0 has the key 'input' and none of stdin"),
        ({"asserts": "def test_it(capsys):\n    f()\n    assert capsys"}, "fixture 'capsys'"), ({"asserts": []}, "empty"), ({"asserts": [1]}, "list"),
    ],
)  # fmt: skip
def test_tests_that_cannot_tell_right_from_wrong_are_refused(tests, said):
    with pytest.raises(ValueError, match=said):
        read_tests(tests)
    with pytest.raises(GoldError, match="row 1"):
        make_code_reward()(["x", "y"], tests=[{"stdin_stdout": [{"stdin": "", "stdout": "1"}]}, tests])


BARE = {
    "asserts": "assert f(2) == 4\nassert f(-3) == 9\n",
    "comments": "# doubles\nassert f(2) == 4  # once\nassert f(-3) == 9, 'message'",
    "imports": "import math\nfrom candidate import f\n\nassert math.isclose(f(2), 4)\nassert f(-3) == 9",
    "assignments": "given = [2, -3]\nassert f(given[0]) == 4\nassert f(given[1]) == 9",
    "helper": "def same(got, want):\n    return got == want\n\nassert same(f(2), 4)\nassert same(f(-3), 9)",
    "test functions": "def test_it():\n    assert f(2) == 4\n    assert f(-3) == 9",
    "a list": ["assert f(2) == 4", "assert f(-3) == 9"],
    "a list as JSON text": '["assert f(2) == 4", "assert f(-3) == 9"]',
    "a text as JSON text": json.dumps("assert f(2) == 4\nassert f(-3) == 9"),
}


def test_an_item_of_a_list_that_asserts_nothing_is_named(reward):
    problem = reward.gold_problem({"tests": ["assert f(1) == 2", "f(3) == 7"]})
    assert "item 1 of the tests asserts nothing: 'f(3) == 7'" in problem
    assert reward.gold_problem({"tests": ["x = f(1)", "assert x == 2", "assert f(2) == 3"]}) is None


@pytest.mark.parametrize("tests", BARE.values(), ids=BARE)
def test_bare_asserts_are_read_as_under_the_key_asserts(reward, tests):
    plain = tests if isinstance(tests, list) or tests[0] not in '["' else json.loads(tests)
    assert read_tests(tests) == read_tests({"asserts": plain})
    assert reward(["def f(x): return x * x", "def f(x): return 4", "import os\nos._exit(0)"], tests=[tests] * 3) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "tests",
    [
        "", " \n", "Write a function that squares.", "f(2) == 4", "print(f(2))", "def f(x):\n    return x * x", "{'asserts': ['assert f(2) == 4']}", "7", 7, True,
        "assert f(2) == = 4", '["assert f(2) == 4"', '{"asserts": "assert f(2) == 4",}', [], "[]", [["assert f(2) == 4"]], [{"args": [2], "expected": 4}], ["f(2)"],
        ["assert f(2) == 4", 3], "def check(candidate):\n    assert candidate(2) == 4", "assert 1 == 1",
    ],
)  # fmt: skip
def test_a_wrong_form_names_all_that_are_read(tests):
    with pytest.raises(ValueError) as error:
        read_tests(tests)
    for form in ("stdin_stdout", "entry_point with cases", "asserts", "a text of Python asserts", "a list of them"):
        assert form in str(error.value), error.value


def test_rows_of_one_wrong_form_are_one_problem():
    words = ["Write a function.", "x = (", "it's all: right", "f(", "Sort [1, 2", "def"]
    rows = [{"prompt": f"p{i}", "tests": f"{words[i % 6]} {i}"} for i in range(60)]
    with pytest.raises(GoldError) as error:
        check_rows([BuiltReward("code", make_code_reward(), columns=("tests",))], rows)
    (problem,) = error.value.problems
    assert "rows 0, 1, 2" in problem.where and "and 50 more" in problem.where


def test_nulls_that_arrow_fills_in_are_no_keys():
    tests = {"stdin_stdout": None, "entry_point": "f", "cases": [{"args": [1], "kwargs": None, "expected": 2}], "asserts": None}
    assert isinstance(read_tests(json.dumps(tests)), CallTests)
    assert isinstance(read_tests({"stdin_stdout": [{"stdin": None, "stdout": "1"}]}), ProgramTests)


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("assert f(1, b=[2]) == 3", [(((1,), {"b": [2]}), 3, False)]),
        ("from candidate import f\nassert 3 == f(1)", [(((1,), {}), 3, False)]),
        ("assert f('a')\nassert not f('b')", [((("a",), {}), True, True), ((("b",), {}), False, True)]),
        ("assert f(1) is None\nassert f(2) is True", [(((1,), {}), None, False), (((2,), {}), True, False)]),
        ("def test_it():\n    assert f(-1) == {'a': (1, 2)}", [(((-1,), {}), {"a": (1, 2)}, False)]),
        ("assert f(1) == 2, 'message'", [(((1,), {}), 2, False)]),
    ],
)
def test_asserts_of_a_call_and_a_literal_are_compiled(source, calls):
    compiled = compile_asserts(source)
    assert compiled.function == "f" and compiled.calls == calls


@pytest.mark.parametrize(
    "source",
    ["assert f(1) == g(1)", "x = 3\nassert f(x) == 3", "assert f(1) > 2", "assert len(f(1)) == 2", "assert f(1) is 3", "assert f(*[1]) == 2", "assert f(1) == 1\nassert g(1) == 1",
     "assert f.g(1) == 2", "from candidate import f as h\nassert h(1) == 2", "for i in [1]:\n    assert f(i) == i", "def test_it(x=1):\n    assert f(1) == 1", "assert f(1) is None",
     "assert f(g) == 1", "assert not f(1)"],
)  # fmt: skip
def test_other_asserts_are_run_against_the_candidate(source):
    compiled = compile_asserts(source)
    assert compiled.function is None and compiled.names


def test_names_that_test_code_takes_from_the_candidate():
    source = "import math\nfrom candidate import a\nimport candidate as c\ndef helper(x):\n    return x + b + math.pi\nfor i in range(3):\n    assert helper(i) == c.d(sorted([i]))\n"
    assert set(compile_asserts(source).names) == {"a", "b", "d"}
