"""Methods of a user's reward that fail or return the wrong thing: an error of that reward, with the method, never a fault of this package."""

from __future__ import annotations

import pickle

import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.data import check_rows
from grpo_rlvr.errors import GoldError, Problem, UserError
from grpo_rlvr.inspection.signal_gold import measure_golds
from grpo_rlvr.rewards import build_rewards
from grpo_rlvr.rewards.dataset_check import check_dataset

ROWS = [{"row_id": f"train:{i}", "prompt": "f?", "answer": str(i)} for i in range(3)]
CLASS = """
class Mine:
    def __call__(self, completions, answer, **columns):
        return [float(c.endswith(f"<answer>{a}</answer>")) for c, a in zip(completions, answer)]
    def read_gold(self, answer):
        return answer
    def honest_forms(self, gold):
        return [f"<answer>{gold}</answer>"]
    def NAME(self, *args):
        BODY
mine = Mine()
"""


def build(folder, name: str, body: str, text: str = CLASS, use: str = "mine.py:mine"):
    (folder / "mine.py").write_text(text.replace("NAME", name).replace("BODY", body))
    (folder / "config.yaml").write_text(f"model: {{name_or_path: o/m}}\ndata: {{train: t.jsonl}}\nrewards: [{{use: '{use}'}}]\n")
    return build_rewards(load_config(folder / "config.yaml"))


@pytest.mark.parametrize("name", ["read_gold", "honest_forms", "honest_forms_of_row", "test_count", "words_needed", "decoys", "clearly_different"])
@pytest.mark.parametrize(("body", "said"), [("raise KeyError('gone')", "KeyError: 'gone'"), ("import sys; sys.exit(0)", "SystemExit: 0")])
def test_what_a_method_raises_is_named_with_the_reward_and_the_line(tmp_path, name, body, said):
    with pytest.raises(UserError) as caught:
        check_dataset(build(tmp_path, name, body), ROWS)
    (problem,) = caught.value.problems
    assert caught.value.kind == "reward" and problem.where == "mine"
    assert problem.message.startswith(f"its {name} raises {said} (for ") and problem.fix == f"see {tmp_path / 'mine.py'}:10"


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("honest_forms", "return 'text'", "returns 'text' (for '0')"),
        ("honest_forms", "return None", "returns None"),
        ("honest_forms", "return [1]", "returns [1]"),
        ("honest_forms", "yield from (x / 0 for x in [1])", "that raises ZeroDivisionError: division by zero"),
        ("honest_forms_of_row", "return 5", "returns 5"),
        ("test_count", "return '3'", "returns '3'"),
        ("test_count", "return True", "returns True"),
        ("words_needed", "return 'f'", "returns 'f'"),
        ("words_needed", "return [None]", "returns [None]"),
        ("decoys", "return ['text']", "returns ['text']"),
        ("decoys", "return [('kind', 3)]", "returns [('kind', 3)]"),
        ("decoys", "return None", "returns None"),
        ("gold_problem", "return ['no']", "returns ['no']"),
    ],
)
def test_what_a_method_returns_of_a_wrong_type_is_named(tmp_path, name, body, said):
    rewards = build(tmp_path, name, body)
    with pytest.raises(UserError) as caught:
        check_rows(rewards, ROWS) if name == "gold_problem" else check_dataset(rewards, ROWS)
    (problem,) = caught.value.problems
    assert problem.where == "mine" and f"its {name} " in problem.message and said in problem.message and problem.fix.startswith("return ")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("honest_forms", "return (f'<answer>{g}</answer>' for g in args)"),  # any iterable of texts is taken
        ("decoys", "return {('none', 'I do not know')}"),
        ("test_count", "return None"),
        ("words_needed", "return ('f',)"),
        ("clearly_different", "return 1"),
    ],
)
def test_what_is_right_goes_through(tmp_path, name, body):
    assert check_dataset(build(tmp_path, name, body), ROWS) == []


def test_words_needed_of_a_user_s_reward_are_looked_for_in_the_prompts(tmp_path):
    (found,) = check_dataset(build(tmp_path, "words_needed", "return ['get_weather']"), ROWS)
    assert found["check"] == "unnamed" and "'get_weather'" in found["message"]


def test_what_is_no_method_is_none(tmp_path):
    text = CLASS + "Mine.decoys = Mine.test_count = Mine.words_needed = None\n"
    assert check_dataset(build(tmp_path, "other", "pass", text), ROWS) == []


def test_a_property_that_raises_and_a_gold_error(tmp_path):
    text = CLASS + "Mine.decoys = property(lambda self: 1 / 0)\n"
    with pytest.raises(UserError, match="mine: its decoys raises ZeroDivisionError"):
        check_dataset(build(tmp_path, "other", "pass", text), ROWS)


def test_a_gold_error_of_the_reward_stays_what_it_is(tmp_path):
    body = "from grpo_rlvr.errors import GoldError, Problem; raise GoldError(Problem('', 'odd'))"
    with pytest.raises(GoldError, match="odd"):
        check_dataset(build(tmp_path, "read_gold", body), ROWS)
    assert GoldError(Problem("", "odd")).kind == "gold"


def test_the_signal_and_a_pickled_reward_say_the_same(tmp_path):
    rewards = build(tmp_path, "honest_forms", "return 7")
    with pytest.raises(UserError, match="its honest_forms returns 7"):
        measure_golds(rewards, ROWS, len, 10)
    again = pickle.loads(pickle.dumps(rewards[0].function))
    with pytest.raises(UserError, match="its honest_forms returns 7"):
        again.honest_forms("1")
