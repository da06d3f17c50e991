"""The data check: sound data gives nothing, each fault is named with its rows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from grpo_rlvr.rewards import BuiltReward, build_rewards
from grpo_rlvr.rewards.answers import ExactReward
from grpo_rlvr.rewards.choices import ChoiceReward
from grpo_rlvr.rewards.dataset_check import check_dataset
from grpo_rlvr.rewards.mathematics.reward import MathReward
from grpo_rlvr.rewards.registry import make_builtin
from grpo_rlvr.rewards.schema_instance import NOTHING, minimal_instance
from grpo_rlvr.rewards.schemas import compile_schema

SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"enum": ["x"]}, "c": {"type": "string"}}, "required": ["a", "b"]},
    {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 2, "uniqueItems": True, "$defs": {"n": {"type": "integer", "exclusiveMinimum": 4}}},
    {"type": "object", "required": ["at"], "properties": {"at": {"type": "string", "format": "date-time"}}, "additionalProperties": False},
    {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string"}]}}}]},
    {"type": "number", "minimum": 0.25, "maximum": 0.75},
    {"type": "integer", "maximum": -5, "multipleOf": 3},
    {"type": ["string", "null"], "minLength": 12},
    {"const": None},
]


def built(use: str, /, **args) -> BuiltReward:
    reward = make_builtin(use, args)
    return BuiltReward(use, reward, 1.0, reward.correctness, reward.columns)


def rows(*golds, column: str = "answer", prompt="?") -> list[dict]:
    return [{"row_id": f"train:{i}", "prompt": prompt, column: gold} for i, gold in enumerate(golds)]


GOOD_MATH = ["42", "12345", "-1/8", "0.5", r"\frac{3}{7}", r"3\sqrt{2}", "$x^2+1$", "(1, 2]", r"\{1, 2\}", "Monday", "12 cm", "35%", "#### 7", "x=5"]


@pytest.mark.parametrize(
    ("use", "golds", "column"),
    [("exact", ["42", "yes", " two  words ", 7, "é"], "answer"), ("math", GOOD_MATH, "answer"), ("schema", SCHEMAS, "output_schema")],
)
@pytest.mark.parametrize("prompt", ["?", [{"role": "user", "content": "?"}]], ids=["text", "chat"])
def test_sound_data_gives_no_finding(use, golds, column, prompt):
    assert check_dataset([built(use)], rows(*golds, column=column, prompt=prompt)) == []


def test_numbers_are_tried_in_every_equal_spelling():
    reward = make_builtin("math", {})
    assert reward.honest_forms(reward.read_gold("12345"))[-1] == r"\boxed{12\,345}"
    assert reward.honest_forms(reward.read_gold("-1/8"))[-2:] == [r"\boxed{-\frac{1}{8}}", r"\boxed{-0.125}"]
    assert len(reward.honest_forms(reward.read_gold("1/3"))) == 4  # 0.333 is not a third


class Broken(MathReward):
    """Refuses thin spaces, and one gold in every form."""

    def score_texts(self, texts, golds):
        scores = super().score_texts(texts, golds)
        return [None if gold.text == "13" else 0.0 if "\\," in text else score for text, gold, score in zip(texts, golds, scores, strict=True)]


def test_own_golds_that_are_refused_are_listed_with_row_and_form():
    never, some = check_dataset([BuiltReward("m", Broken("m"), columns=("answer",))], rows("1", "13", "2000", "13"))
    assert (never["check"], never["severity"], never["rows"]) == ("own_gold", "error", [1, 3])
    assert never["message"].startswith("rows 1, 3: ") and never["examples"][0] == {"row": 1, "kind": "honest", "text": r"\boxed{13}", "score": None}
    assert (some["check"], some["severity"], some["rows"], some["examples"][0]["text"]) == ("form", "warning", [2], r"\boxed{2\,000}")


class Substring(ExactReward):
    """Pays wherever the gold stands."""

    def score_one(self, text, gold):
        return float(gold in text)


def test_decoys_that_are_accepted_are_errors():
    findings = check_dataset([BuiltReward("s", Substring("s"), columns=("answer",))], rows("left", "right"))
    assert {f["message"].partition("accepted: ")[2].partition(";")[0] for f in findings} == {
        "the right answer in the reasoning only",
        "the right answer, then another one",
    }
    assert all((f["check"], f["severity"], f["rows"]) == ("decoy", "error", [0, 1]) for f in findings)


class Lenient(ExactReward):
    def score_one(self, text, gold):
        return 1.0


def test_a_reward_that_pays_for_anything_fails_every_decoy():
    findings = check_dataset([BuiltReward("l", Lenient("l"), columns=("answer",))], rows("1", "2", "2"))
    assert [f["message"].partition("accepted: ")[2].partition(";")[0] for f in findings] == [
        "no answer", "the right answer in the reasoning only", "another row's answer", "the right answer, then another one",
    ]  # fmt: skip


def test_a_gold_that_no_answer_can_hold_is_an_error():
    (finding,) = check_dataset([built("exact")], rows("1", "a<answer>b"))
    assert (finding["check"], finding["rows"]) == ("own_gold", [1])


def test_schemas_without_a_known_value_are_counted():
    (finding,) = check_dataset([built("schema")], rows({"type": "string", "pattern": "^[A-Z]{3}$"}, {"type": "null"}, column="output_schema"))
    assert (finding["check"], finding["severity"], finding["rows"]) == ("skipped", "note", [0]) and "1 of 2 rows" in finding["message"]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_minimal_instances_validate(schema):
    assert compile_schema(json.dumps(schema)).is_valid(minimal_instance(schema))


@pytest.mark.parametrize(
    "schema", [False, {"$ref": "#"}, {"$ref": "#/$defs/none"}, {"$ref": "http://x"}, {"enum": []}, {"type": "string", "pattern": "a"}]
)
def test_no_instance_is_made_up(schema):
    assert minimal_instance(schema) is NOTHING


def test_many_rows_are_sampled_evenly_and_it_says_so():
    golds = [str(i) for i in range(1000)]
    golds[500] = "a<answer>b"
    finding, sampled = check_dataset([built("exact")], rows(*golds), limit=10)
    assert finding["rows"] == [500] and sampled["severity"] == "note" and "10 of 1000 rows" in sampled["message"]


def test_unreadable_golds_and_other_rewards_are_left_to_others():
    assert check_dataset([built("math"), built("format")], rows("", None, "3")) == []
    assert check_dataset([built("exact")], []) == []


USER = """
def yes_no(completions, answer):
    return [float(c == a) for c, a in zip(completions, answer)]

def marker(completions, answer):
    return [float(c.endswith("=> " + a)) for c, a in zip(completions, answer)]

def tagged(completions, answer):
    return [float(f"<answer>{a}</answer>" in c) for c, a in zip(completions, answer)]

def crashes(completions, answer):
    raise KeyError("x")

class Declared:
    def __call__(self, completions, answer):
        return [float(c.endswith("=> " + a)) for c, a in zip(completions, answer)]
    def honest_forms(self, gold):
        return [f"=> {gold}"] if gold != "bad" else ["= bad"]

declared = Declared()
"""


@pytest.fixture
def user(tmp_path: Path):
    (tmp_path / "mine.py").write_text(USER)

    def build(name: str, **more):
        section = SimpleNamespace(use=f"mine.py:{name}", weight=1.0, args={}, required=None, name=None)
        section.__dict__.update(more)
        return build_rewards(SimpleNamespace(rewards=(section,), base=tmp_path))

    return build


def test_a_users_reward_is_tried_in_the_plain_forms_and_only_noted(user):
    assert check_dataset(user("tagged"), rows("1", "2")) == []
    (note,) = check_dataset(user("marker"), rows(*map(str, range(100))))
    assert (note["check"], note["severity"], len(note["rows"])) == ("user_gold", "note", 32) and "32 of the 32" in note["message"]
    assert check_dataset(user("marker", required=False), rows("1")) == []
    (failed,) = check_dataset(user("crashes"), rows("1"))
    assert failed["severity"] == "warning" and "KeyError" in failed["message"]


def test_a_users_reward_that_declares_its_forms_is_checked(user):
    assert check_dataset(user("declared"), rows("1", "2")) == []
    (finding,) = check_dataset(user("declared"), rows("1", "bad"))
    assert (finding["check"], finding["severity"], finding["rows"]) == ("own_gold", "error", [1])


def test_choices_and_calls_are_tried_in_their_own_forms_and_decoys():
    letters = [chr(c) for c in range(ord("A"), ord("Z") + 1)]
    assert check_dataset([built("choice")], rows(*letters)) == []
    assert check_dataset([built("choice", multiple=True)], rows("A,C", ["B", "D"], "E", "ABD")) == []
    calls = [
        [{"name": "f", "arguments": {"a": 1, "b": {"c": "</tool_call>é"}}}],
        json.dumps([{"function": {"name": "g", "arguments": '{"x": true}'}}, {"name": "h", "parameters": None}]),
        [{"name": "f", "arguments": {"a": 2}}],
    ]
    tools = "f(a, b), g(x), h()"
    for options in ({}, {"ordered": True}, {"partial": True}):
        assert check_dataset([built("tool_calls", **options)], rows(*calls, column="expected_calls", prompt=tools)) == []
    (finding,) = check_dataset([built("tool_calls")], rows([], *calls, column="expected_calls", prompt=tools))
    assert (finding["check"], finding["rows"]) == ("skipped", [0])


class AnyLetter(ChoiceReward):
    def score_one(self, text, gold):
        return float(any(letter in text for letter in gold))


def test_a_choice_reward_that_takes_any_mention_is_found_out():
    findings = check_dataset([BuiltReward("c", AnyLetter("c"), columns=("answer",))], rows("B", "C"))
    kinds = {f["message"].partition("accepted: ")[2].partition(";")[0] for f in findings if f["check"] == "decoy"}
    assert {"the right answer in the reasoning only", "the right answer, then another one"} <= kinds


def test_what_a_length_penalty_wraps_is_checked_too():
    inside = built("length", use="exact", target_tokens=100)
    assert check_dataset([inside], rows("1", "2")) == []
    (finding,) = check_dataset([inside], rows("1", "a<answer>b"))
    assert (finding["check"], finding["rows"]) == ("own_gold", [1])


JSON_ONLY = """
import json

def value(text):
    try:
        return json.loads(text)
    except ValueError:
        return None

def strict(completions, answer, **columns):
    return [float(value(c) == json.loads(a)) for c, a in zip(completions, answer)]

class Whole:
    __name__ = "whole"
    def __call__(self, completions, answer):
        return strict(completions, answer)
    def honest_forms(self, gold):
        return [gold, gold + " "] if "bad" not in gold else ["{}"]
    def clearly_different(self, gold, other):
        return gold != other

class First(Whole):
    __name__ = "first"
    def __call__(self, completions, answer):
        return [float(c.strip().startswith(a)) for c, a in zip(completions, answer)]

whole, first = Whole(), First()
"""


def test_a_reward_that_wants_nothing_but_the_json_is_tried_bare(user, tmp_path):
    (tmp_path / "mine.py").write_text(JSON_ONLY)
    golds = ['{"a": 1}', '{"a": 2}']
    for name in ("strict", "whole"):
        (note,) = check_dataset(user(name), rows(*golds))
        assert (note["check"], note["severity"], note["rows"]) == ("bare_only", "note", [0, 1])
        assert "accepted bare and refused behind <reasoning>" in note["message"] and golds[0] in note["message"]
    error, note = check_dataset(user("whole"), rows(*golds, '{"bad": 1}'))
    assert (error["check"], error["severity"], error["rows"]) == ("own_gold", "error", [2]) and "'{}' scores 0" in error["message"]
    assert note["check"] == "bare_only"
    kinds = {f["message"].partition("accepted: ")[2].partition(";")[0] for f in check_dataset(user("first"), rows(*golds)) if f["check"] == "decoy"}
    assert kinds == {"the right answer, then another one"}, "decoys stand bare too"
