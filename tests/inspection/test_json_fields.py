"""Each field of a JSON gold is tried, and a gold that no reward reads is named."""

from __future__ import annotations

import json

import pytest
from grpo_rlvr.inspection.json_fields import field_changes, same_json
from grpo_rlvr.inspection.probes import forms, run_probes
from grpo_rlvr.inspection.scores import score_samples
from grpo_rlvr.rewards.registry import BuiltReward

from inspection.planted import PLANTED, findings_of, task_samples
from inspection.test_probes_builtin import findings, reward, samples_of

GOLD = {"number": "A1", "total": 70, "items": [{"name": "paper", "count": 8}, {"name": "lamps", "count": 2}], "paid": False, "note": None}
FORM = {"type": "object", "required": ["city", "rooms"], "properties": {"city": {"type": "string"}, "rooms": {"type": "integer"}}}
TOWNS = ["Oslo", "Lima", "Quito", "Cairo", "Delhi", "Tunis", "Accra", "Baku"]


@pytest.fixture(autouse=True)
def short_texts(monkeypatch):
    monkeypatch.setattr(forms, "SIZES", forms.SIZES[:2])


def changes(value, gold=None, others=None) -> dict[tuple[str, str], object]:
    return {(c.path, c.what): c for c in field_changes(value, value if gold is None else gold, others or {})}


def test_every_kind_of_leaf_key_and_item_is_changed():
    got = changes(GOLD)
    assert got["paid", "the opposite"].applied(GOLD)["paid"] is True
    assert got["total", "another number"].applied(GOLD)["total"] == 1070
    assert got["number", "a made-up word"].applied(GOLD)["number"] == "Aqxv1"
    assert not got["note", "a value for null"].sure and not got["note", "a key left out"].sure
    assert got["items[].count", "another number"].applied(GOLD)["items"][1] == {"name": "lamps", "count": 1002}
    assert got["items", "an item left out"].applied(GOLD)["items"] == GOLD["items"][:1]
    assert "count" not in got["items[].count", "a key left out"].applied(GOLD)["items"][1]
    assert not got["(top)", "a key more"].sure and len(got["(top)", "a key more"].applied(GOLD)) == 6
    assert all(not same_json(c.applied(GOLD), GOLD) for c in field_changes(GOLD, GOLD, {})), "none of them is the gold"
    assert GOLD["paid"] is False and len(GOLD["items"]) == 2, "the original is untouched"


def test_values_of_other_rows_are_put_in_where_they_are_far_and_no_second_name():
    got = changes({"n": 100, "who": "St. Paul"}, others={"n": [101, 250], "who": ["St Paul", "Lima"]})
    assert got["n", "another row's value"].new == 250 and got["who", "another row's value"].new == "Lima"
    assert got["who", "another row's value"].name


def test_only_what_the_gold_says_in_the_same_place_is_made_wrong():
    got = changes({"answer": 15, "confidence": 0.9}, {"answer": 15})
    assert {path for path, _ in got} == {"answer"}
    assert changes({"answer": 16}, {"answer": 15}).keys() == {("(top)", "a key more")}
    assert changes([1, 2], {"answer": 15}) == {}
    deep: list = []
    for _ in range(500):
        deep = [deep]
    assert list(field_changes(deep, deep, {})) is not None


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("json_without_the_boolean", "`paid` (the opposite)"),
        ("json_without_the_counts", "`items[].count` ("),
        ("json_form_only", "`items[].name` ("),
        ("items_as_a_set", "an item twice in items"),
    ],
)
def test_the_path_that_is_paid_though_wrong_is_named(name, path, tmp_path):
    found = findings_of(next(e for e in PLANTED["flawed"] if e["name"] == name), tmp_path)
    message = next(f["message"] for f in found if f["severity"] == "error" and path in f["message"])
    assert "`number`" not in message or name == "json_form_only"


def test_the_ok_line_says_what_was_tried(tmp_path):
    found = {f["probe"]: f for f in findings_of(next(e for e in PLANTED["sound"] if e["name"] == "json_of_objects"), tmp_path)}
    message = found["mutated_answer"]["message"]
    assert "5 paths of the JSON: number, total, items[].name, items[].count, paid" in message and "all " not in message
    assert "unread_gold" not in found


def test_columns_stand_for_the_fields_of_an_object():
    rows = [
        (f"The house in {town}?", json.dumps({"city": town, "open": k % 2 == 0}), {"city": town, "open": k % 2 == 0}) for k, town in enumerate(TOWNS)
    ]

    def city_only(completions, city, open, **columns):
        return [float(c.startswith('{"city": "' + t + '", "open": ')) for c, t in zip(completions, city, strict=True)]

    found = findings([BuiltReward("city_only", city_only, 1.0, True, ("city", "open"))], samples_of(rows))
    assert found["mutated_answer"]["severity"] == "error" and "`open` (the opposite" in found["mutated_answer"]["message"]


def houses(more=lambda k, gold: {"expected": json.dumps(gold)}, schema=lambda gold: FORM) -> list[dict]:
    golds = [{"city": town, "rooms": k + 1} for k, town in enumerate(TOWNS)]
    return samples_of(
        [(f"The house in {g['city']}?", json.dumps(g), {"output_schema": json.dumps(schema(g)), **more(k, g)}) for k, g in enumerate(golds)]
    )


def test_a_schema_beside_a_gold_that_nobody_reads_is_an_error_with_its_way_out():
    found = findings([reward("schema")], houses())
    constant, unread, mutated = found["constant_completion"], found["unread_gold"], found["mutated_answer"]
    assert constant["severity"] == "error" and constant["unpunished"] == constant["mutants"] == len(TOWNS) - 1
    assert "`expected`" in constant["message"] and "`const`" in constant["message"]
    assert constant["example"]["mutant"]["verdict"] is True and constant["example"]["columns"]["expected"]
    assert unread["severity"] == "warning" and "column `expected` is read by no required reward" in unread["message"]
    assert mutated["severity"] == "error" and "`rooms` (" in mutated["message"]


def test_the_gold_as_const_in_the_rows_schema_is_sound():
    found = findings([reward("schema")], houses(schema=lambda gold: {**FORM, "const": gold}))
    assert {f["probe"]: f["severity"] for f in found.values() if f["severity"] == "error"} == {} and "unread_gold" not in found
    assert found["constant_completion"]["severity"] == "ok" and "rooms" in found["mutated_answer"]["message"]


METADATA = ("id", "row_id", "source", "level", "topic", "difficulty", "url", "data_source", "example_id", "created_date")


@pytest.mark.parametrize(
    "more",
    [lambda k, gold: {}, lambda k, gold: dict.fromkeys(METADATA, f"value {k}"), lambda k, gold: {"expected": "the same"}],
    ids=["no column", "metadata", "equal golds"],
)
def test_where_only_the_form_is_asked_a_constant_stays_a_warning(more):
    found = findings([reward("schema")], houses(more))
    assert found["constant_completion"]["severity"] == "warning" and "unread_gold" not in found
    assert found["mutated_answer"]["severity"] == "ok" and "no values that are wrong and fit it" in found["mutated_answer"]["message"]


def test_a_column_is_known_for_a_gold_by_what_completions_say():
    found = findings([reward("schema")], houses(lambda k, gold: {"house": json.dumps(gold), "remark": f"seen by {k}"}))
    assert "column `house` is read" in found["unread_gold"]["message"]
    found = findings([reward("schema")], houses(lambda k, gold: {"rooms": gold["rooms"], "remark": f"seen by {k}"}))
    assert "column `rooms` is read" in found["unread_gold"]["message"]


def test_a_second_column_beside_a_gold_that_is_read_is_no_finding():
    samples = task_samples("maths")
    for k, sample in enumerate(samples):
        sample["columns"]["solution"] = f"Add them up: {k}"
    scores, _ = score_samples([reward("exact")], samples, 0.5)
    assert "unread_gold" not in {f["probe"] for f in run_probes([reward("exact")], samples, scores, 0.5)}
