"""The code reward: which code is taken, how tests are read and values compared, and test code against a candidate."""

# ruff: noqa: E501

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from conftest import ROOT
from grpo_rlvr.code_blocks import choose, fenced_blocks
from grpo_rlvr.rewards import check_dataset, make_code_reward, with_length_penalty
from grpo_rlvr.rewards.code_compare import same_output, same_value
from grpo_rlvr.rewards.code_tests import SourceTests, read_tests
from grpo_rlvr.rewards.registry import BuiltReward
from hypothesis import given
from hypothesis import strategies as st

COMPLETIONS = [json.loads(line) for line in (Path(ROOT) / "tests" / "data" / "code_completions.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def reward(sandbox_here):
    return make_code_reward(timeout_s=4)


def score(reward, code: str, tests) -> float | None:
    return reward([code], tests=[tests])[0]


# ---- which code is taken
def test_completions_with_code_in_every_kind_of_fence(reward):
    got = reward([row["completion"] for row in COMPLETIONS], tests=[row["tests"] for row in COMPLETIONS])
    assert [(row["id"], value) for row, value in zip(COMPLETIONS, got, strict=True) if value != row["expect"]] == []


@given(st.text(alphabet="`~ \n\tpython{}=x1():'\"#", max_size=200))
def test_any_text_gives_blocks_and_a_choice(text):
    blocks = fenced_blocks(text)
    assert all(block.closed for block in blocks[:-1])
    chosen = choose(text, ["f"])
    assert chosen is None or isinstance(chosen, str)


@pytest.mark.parametrize(
    "text", ["```\n" * 200_000, "~~~python\n" + "`" * 900_000, " " * 900_000 + "```", "```python\n" * 100_000, "```a\n```\n" * 60_000]
)
def test_long_text_stays_linear(text):
    fenced_blocks(text)  # quadratic work on these would take minutes, and the test's time limit


# ---- values
@pytest.mark.parametrize(
    ("expected", "got", "json_says", "python_says"),
    [
        (29, 29.0, True, True), (29.0, 29, True, True), (1, True, False, True), (True, 1, False, True), (True, True, True, True), (0, False, False, True),
        (0.2, 0.1 + 0.1, True, True), (0.2, 0.21, False, False), (1e-3, 1.0000001e-3, True, True), (float("nan"), float("nan"), True, True), (1, float("nan"), False, False),
        ([1, 2], (1, 2), True, False), ((1, 2), (1, 2), True, True), ([1, 2], [2, 1], False, False), ([1], [1, 2], False, False), ("1", 1, False, False), (None, None, True, True),
        (None, 0, False, False), ({"1": 2}, {1: 2}, True, False), ({"a": [1.0]}, {"a": [1]}, True, True), ({"a": 1}, {"a": 1, "b": 2}, False, False), ({1, 2}, {2, 1}, True, True),
        ([], {}, False, False), ("a", b"a", False, False), (float("inf"), float("inf"), True, True), (10**30, 10.0**30, False, False), ([True], [1], False, True), ("", None, False, False),
    ],
)  # fmt: skip
def test_values_are_compared_by_type(expected, got, json_says, python_says):
    assert same_value(expected, got) is json_says
    assert same_value(expected, got, literal=True) is python_says


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("1\n2\n", "1\n2", True),
        ("1\n2", "1  \n2\t\n\n\n", True),
        ("1\n2", "1\n\n2", False),
        ("1", "1\n2", False),
        (" 1", "1", False),
        ("a\r\nb", "a\nb", True),
        ("A", "a", False),
    ],
)
def test_outputs_are_compared_by_line(expected, got, same):
    assert same_output(expected, got) is same


def test_a_share_of_the_tests_is_paid_only_when_asked_for(reward):
    tests = {"entry_point": "f", "cases": [{"args": [n], "expected": n * n} for n in (1, 2, 3, 0)]}
    half = "def f(n):\n    return n"  # right for 0 and 1
    assert score(reward, half, tests) == 0.0 and score(make_code_reward(timeout_s=4, partial=True), half, tests) == 0.5
    loops_at_last = "def f(n):\n    while n == 0:\n        pass\n    return n * n"
    assert score(make_code_reward(timeout_s=0.5, partial=True), loops_at_last, tests) == 0.75


# ---- test code against the candidate
STACK = """
class Empty(LookupError):
    pass

class Stack:
    def __init__(self, items=()):
        self.items = list(items)
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        if not self.items:
            raise Empty("nothing here")
        return self.items.pop()
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)
    def __contains__(self, item):
        return item in self.items
    def __getitem__(self, place):
        return self.items[place]
    def __add__(self, other):
        return Stack([*self.items, *other.items])
    def __str__(self):
        return "Stack" + str(self.items)
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        self.items.clear()
    @property
    def top(self):
        return self.items[-1]

def sort(xs):
    xs.sort()

def count(n):
    for i in range(n):
        yield i
"""


@pytest.mark.parametrize(
    "source",
    [
        "s = Stack()\ns.push(3).push(5)\nassert s.pop() == 5 and len(s) == 1 and 3 in s and list(s) == [3] and s[0] == 3 and s.top == 3",
        "assert str(Stack([1])) == 'Stack[1]' and len(Stack([1]) + Stack([2])) == 2 and isinstance(Stack(), Stack)",
        "from candidate import *\ntry:\n    Stack().pop()\nexcept Empty as exc:\n    assert str(exc) == 'nothing here'\nelse:\n    assert False",
        "import candidate\nimport pytest\ndef test_it():\n    with pytest.raises(LookupError, match='nothing'):\n        candidate.Stack().pop()",
        "import pytest\n@pytest.mark.parametrize('n, want', [(0, []), (2, [0, 1])])\ndef test_count(n, want):\n    assert list(count(n)) == want",
        "import unittest\nclass TestIt(unittest.TestCase):\n    def test_sort(self):\n        xs = [3, 1]\n        sort(xs)\n        self.assertEqual(xs, [1, 3])",
        "class TestIt:\n    def setup_method(self):\n        self.s = Stack([1])\n    def test_len(self):\n        assert len(self.s) == 1",
        "with Stack([1]) as s:\n    assert len(s) == 1\nassert len(s) == 0",
        "from solution import Stack\ns = Stack()\ns.items = [4]\nassert s.pop() == 4\nassert s is s and s != Stack()",
        "import math\nassert math.isclose(sum(count(4)) / 4, 1.5)\nassert sorted(count(3), reverse=True) == [2, 1, 0]",
    ],
)
def test_test_code_sees_the_candidate_as_if_it_were_there(reward, source):
    assert score(reward, STACK, {"asserts": source}) == 1.0
    assert score(reward, STACK.replace("return self.items.pop()", "return None").replace("range(n)", "range(n + 1)").replace("xs.sort()", "pass").replace("list(items)", "[]")
                 .replace("[-1]", "[0]").replace("nothing here", "full").replace("clear()", "append(1)").replace("append(item)", "clear()"), {"asserts": source}) == 0.0  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "class Any:\n    __eq__ = __gt__ = __lt__ = __contains__ = lambda *a: True\n    __len__ = lambda s: 2\n    __iter__ = lambda s: iter([1, 2])\ndef f(x): return Any()",
        "import os\ndef f(x): os._exit(0)",
        "def f(x): raise SystemExit(0)",
        "import sys\ndef f(x): sys.exit()",
        "class E(Exception): pass\ndef f(x): raise E",
        "def f(x):\n    while True: pass",
        "import builtins\nbuiltins.AssertionError = ValueError\ndef f(x): raise builtins.AssertionError",
        "def f(x): return NotImplemented",
        "class Same:\n    __sub__ = __rsub__ = __mod__ = __xor__ = __truediv__ = lambda *a: 0\n    __abs__ = __float__ = lambda s: 0.0\n    __getattr__ = lambda s, n: lambda *a: True\ndef f(x): return Same()",
        "class f:\n    __init__ = lambda s, x: None\n    __contains__ = lambda *a: True\n    __sub__ = __rsub__ = lambda s, o: f(o)\n    __abs__ = __round__ = __neg__ = lambda *a: 0\n    __bool__ = lambda s: False",
        "def f(x): raise StopIteration",
    ],
)
@pytest.mark.parametrize("source", ["assert f(2) > 3 and f(2) < 5", "for want in (4,):\n    assert f(2) == want", "import pytest\ndef test_f():\n    assert f(2) == pytest.approx(4)",
                                    "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(2), 4)", "assert 4 in [f(2)]",
                                    "assert abs(f(2) - 4) < 1e-6", "assert not 4 - f(2)", "assert f(2) % 4 == 0 and not f(2) ^ 4", "assert all(map(lambda n: f(n) == n * n, range(3)))",
                                    "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertAlmostEqual(f(2), 4.0)", "import math\nassert math.isclose(f(2) / 4, 1)"])  # fmt: skip
def test_test_code_cannot_be_talked_into_a_pass(sandbox_here, code, source):
    reward = make_code_reward(timeout_s=0.5)
    assert score(reward, code, {"asserts": source}) == 0.0
    assert score(reward, "def f(x): return x * x", {"asserts": source}) == 1.0


@pytest.mark.parametrize("entry", ["Solution().twice", "Solution.twice", "twice"])
def test_a_check_function_is_given_a_method_of_class_solution(reward, entry):
    code = "class Solution:\n    def twice(self, n: int) -> int:\n        return 2 * n"
    tests = {"asserts": "def check(candidate):\n    for n in range(3):\n        assert candidate(n=n) == 2 * n\n", "entry_point": entry}
    assert score(reward, code, tests) == 1.0 and score(reward, code.replace("2", "3"), tests) == 0.0
    assert score(reward, code, {"entry_point": entry, "cases": [{"args": [4], "expected": 8}]}) == 1.0


def test_asserts_may_be_a_list_and_unittest_may_be_started_by_the_tests(reward):
    cases = "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(2), 4)\nunittest.main()"
    for asserts in (["assert f(2) == 4", "assert f(3) == 6"], cases, "n = f(2)\nn += f(1)\nassert n == 6"):
        assert score(reward, "def f(n): return 2 * n", {"asserts": asserts}) == 1.0
        assert score(reward, "def f(n): return 3 * n", {"asserts": asserts}) == 0.0
    adder = "class V:\n    def __init__(self, n): self.n = n\n    def __iadd__(self, other):\n        self.n += other.n\n        return self"
    assert score(reward, adder, {"asserts": "v = w = V(1)\nv += V(2)\nassert v.n == 3 and w is v"}) == 1.0


def test_no_value_that_is_returned_makes_the_judge_fail_or_wait(reward):
    """Each raised in the trainer's own thread, or kept it busy for ever."""
    values = [
        "10**5000",
        "{10**5000: 1}",
        "Decimal('sNaN')",
        "Decimal('1e999999999')",
        "[Decimal('1e-999999999')]",
        "Fraction(10**9000, 7)",
        "complex('nan')",
    ]
    code = "from decimal import Decimal\nfrom fractions import Fraction\ndef f(x): return {}"
    columns = [{"entry_point": "f", "cases": [{"args": [1], "expected": want}]} for want in (1, 1.5, True, {"a": 1}, [1])]
    columns += [{"asserts": f"assert f(1) == {want}"} for want in ("1", "True", "{'a': 1}", "(1,)")]
    rows = [(code.format(value), tests) for value in values for tests in columns]
    assert reward([row[0] for row in rows], tests=[row[1] for row in rows]) == [0.0] * len(rows)


def test_whole_decimals_and_fractions_are_the_numbers_they_stand_for():
    assert same_value(3, Decimal("3.0")) and same_value(0.5, Fraction(1, 2)) and same_value(1.5, Decimal("1.5"))
    assert not same_value(3, Decimal("3.1")) and not same_value(3, Decimal("NaN")) and not same_value(3, Decimal("1e999999"))


def test_names_of_typing_are_there_for_a_class_solution_alone(reward):
    tests = {"entry_point": "f", "cases": [{"args": [[1, 2]], "expected": 3}]}
    assert score(reward, "class Solution:\n    def f(self, xs: List[int]) -> Optional[int]:\n        return sum(xs)", tests) == 1.0
    assert score(reward, "def f(xs: List[int]):\n    return sum(xs)", tests) == 0.0


def test_test_code_may_use_threads(reward):
    source = "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool:\n    assert list(pool.map(f, range(300))) == [2 * n for n in range(300)]"
    assert score(reward, "def f(n): return 2 * n", {"asserts": source}) == 1.0


def test_a_check_function_is_given_the_entry_point(reward):
    tests = {"asserts": "METADATA = {}\n\ndef check(candidate):\n    for n in range(3):\n        assert candidate(n) == 2 * n\n", "entry_point": "f"}
    assert isinstance(read_tests(tests), SourceTests)
    assert score(reward, "def f(n): return 2 * n", tests) == 1.0 and score(reward, "def f(n): return n", tests) == 0.0


# ---- before training
def test_the_data_check_runs_the_reference_solutions_and_a_stub(reward):
    rows = [
        {"prompt": "a", "tests": {"entry_point": "f", "cases": [{"args": [2], "expected": 4}]}, "solution": "def f(x):\n    return x * x"},
        {"prompt": "b", "tests": {"entry_point": "f", "cases": [{"args": [2], "expected": 5}]}, "solution": "def f(x):\n    return x * x"},
        {"prompt": "c", "tests": {"asserts": "f(1)\nassert True"}},
    ]
    built = BuiltReward("code", reward, columns=("tests",))
    found = {f["check"]: f for f in check_dataset([built], rows) if f["severity"] == "error"}
    assert found["own_gold"]["rows"] == [1] and found["decoy"]["rows"] == [2]
    assert "does nothing" in found["decoy"]["message"]


@pytest.mark.parametrize(
    ("tests", "count"),
    [
        ({"entry_point": "f", "cases": [{"args": [i], "expected": i} for i in range(4)]}, 4), ({"stdin_stdout": [{"stdin": "1", "stdout": "2"}] * 2}, 2),
        ("assert f(1) == 1", 1), (["assert f(1) == 1", "assert f(2) == 2"], 2), ("def test_it():\n    assert f(1) == 1\n    assert f(2) == 2", 2),
        ("assert set(f(1)) == {1}\nassert set(f(2)) == {2}", 2), ("assert set(f(1)) == {1} and set(f(2)) == {2}", 2), ("assert [f(1), f(2), f(3)] == [1, 2, 3]", 3),
        ("import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(2), 4)", 1), ("if f(2) != 4:\n    raise AssertionError", 1),
        # How often these run is not known without running them.
        ("for n in range(9):\n    assert f(n) == n", None), ("assert all(f(n) == n for n in range(9))", None),
        ("def same(n):\n    assert f(n) == n\nsame(1)", None), ("import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_f(n):\n    assert f(n) == n", None),
    ],
)  # fmt: skip
def test_tests_of_a_row_are_counted_where_that_can_be_known(tests, count):
    if isinstance(tests, str) and tests.startswith("if "):
        tests = {"asserts": tests}
    assert make_code_reward().test_count(read_tests(tests)) == count


@pytest.mark.parametrize("use", ["code", "length"])
def test_rows_with_few_tests_are_noted_with_their_numbers(reward, use):
    three = ["assert f(1) == 2", "assert f(2) == 3", "assert f(3) == 4"]
    rows = [{"row_id": f"train:{100 + i}", "prompt": "f", "tests": three[: 1 + i % 3], "solution": "def f(x): return x + 1"} for i in range(9)]
    wrapped = reward if use == "code" else with_length_penalty(reward, 100)
    (note,) = check_dataset([BuiltReward(use, wrapped, columns=("tests",))], rows)
    assert (note["check"], note["severity"]) == ("few_tests", "note")
    assert "6 of 9 rows have fewer than 3 tests (rows 100, 101, 103, 104, 106, 107 (from 0))" in note["message"]
    assert note["rows"] == [100, 101, 103, 104, 106, 107]
    assert "add tests" in note["fix"] and "inspect_rewards.py run" in note["fix"]
    assert check_dataset([BuiltReward(use, wrapped, columns=("tests",))], rows[2::3]) == []
