"""A built-in reward inside a user's own is looked after like one that the config names."""

from __future__ import annotations

import pytest
from conftest import build
from grpo_rlvr.data import check_rows
from grpo_rlvr.errors import MissingError, UserError

WRAPS = """
from functools import partial
from grpo_rlvr.rewards import Reward, make_code_reward, math_reward, with_length_penalty

code = make_code_reward(sandbox=["/no/such/box"])
ALL = {"code": code}

def by_name(completions, tests):
    return code(completions, tests=tests)

def by_helper(completions, tests):
    return _scores(completions, tests)

def _scores(completions, tests):
    return [s for s in map(lambda c: ALL["code"]([c], tests=tests)[0], completions)]

def by_closure(inner):
    def reward(completions, tests):
        return inner(completions, tests=tests)
    return reward

in_closure = by_closure(code)

bound = partial(by_helper)

def asked(completions, tests):
    raise NotImplementedError
asked.prepare = code.prepare

class Own(Reward):
    columns = ("tests",)
    def __init__(self, inner):
        super().__init__("own")
        self.inner = inner
    def read_gold(self, tests):
        return self.inner.read_gold(tests)

own = Own(code)
shorter = Own(with_length_penalty(code, 10))

class Plain:
    __name__ = "plain"
    def __call__(self, completions, tests):
        return code(completions, tests=tests)

plain = Plain()

def other(completions, tests):
    return math_reward(completions, answer=tests)

def broken(completions, tests):
    return [0.0] * len(completions)
broken.prepare = lambda: 1 / 0
"""


@pytest.mark.parametrize("name", ["by_name", "by_helper", "in_closure", "bound", "asked", "own", "shorter", "plain"])
def test_a_sandbox_that_a_wrapped_code_reward_lacks_is_missed_before_training(tmp_path, name):
    (tmp_path / "wraps.py").write_text(WRAPS)
    rows = [{"prompt": "p", "tests": "assert f(1) == 2"}]
    with pytest.raises(MissingError, match="/no/such/box"):
        check_rows(build(tmp_path, {"use": f"wraps.py:{name}"}), rows)
    with pytest.raises(MissingError, match="/no/such/box"):
        check_rows(build(tmp_path, {"use": "length", "args": {"use": f"wraps.py:{name}", "target_tokens": 9}}), rows)


def test_what_needs_no_sandbox_opens_none_and_a_prepare_that_fails_is_named(tmp_path):
    (tmp_path / "wraps.py").write_text(WRAPS)
    check_rows(build(tmp_path, {"use": "wraps.py:other"}), [{"prompt": "p", "tests": "3"}])
    with pytest.raises(UserError, match="its prepare raises ZeroDivisionError"):
        check_rows(build(tmp_path, {"use": "wraps.py:broken"}), [{"prompt": "p", "tests": "3"}])
