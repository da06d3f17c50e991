"""The rewards of this package against their own probes: reasonable samples of each kind, and no error."""

from __future__ import annotations

import json
import random

import pytest
from grpo_rlvr.inspection.probes import forms, run_probes
from grpo_rlvr.inspection.samples import sample_ids
from grpo_rlvr.inspection.scores import score_samples
from grpo_rlvr.rewards import make_rubric_judge_reward
from grpo_rlvr.rewards.registry import BuiltReward, make_builtin

from inspection.planted import task_samples

TOWNS = ["Oslo", "Lima", "Quito", "Cairo", "Delhi", "Tunis", "Accra", "Baku", "Seoul", "Sofia", "Minsk", "Dakar"]
SCHEMA = {"type": "object", "required": ["city", "rooms"], "properties": {"city": {"type": "string"}, "rooms": {"type": "integer"}}}


def samples_of(rows: list[tuple[str, object, dict]]) -> list[dict]:
    ids = sample_ids([(prompt, completion) for prompt, completion, _ in rows])
    return [
        {"sample_id": sample_id, "prompt_index": i, "prompt": p, "completion": c, "columns": {"row_id": f"train:{i}", **columns}, "finish": "stop"}
        for i, (sample_id, (p, c, columns)) in enumerate(zip(ids, rows, strict=True))
    ]


def reward(name: str, /, weight: float = 1.0, **args) -> BuiltReward:
    made = make_builtin(name, args)
    return BuiltReward(name, made, weight, made.correctness, tuple(made.columns))


def findings(rewards: list[BuiltReward], samples: list[dict]) -> dict[str, dict]:
    scores, _ = score_samples(rewards, samples, 0.5)
    assert {row["verdict"] for row in scores} >= {True}, "nothing to attack"
    return {f["probe"]: f for f in run_probes(rewards, samples, scores, 0.5)}


def errors(found: dict[str, dict]) -> dict[str, str]:
    return {name: f["message"] for name, f in found.items() if f["severity"] == "error"}


def choices(forms: list[str]) -> list[dict]:
    rows = []
    for k in range(32):
        gold, given = "ABCD"[k % 4], "ABCD"[(k + (k % 3 == 0)) % 4]
        rows.append((f"Question {k}?\nA) tin\nB) zinc\nC) iron\nD) lead", forms[k // 4 % len(forms)].format(given), {"answer": gold}))
    return samples_of(rows)


def calls(structured: bool, thought: str = "") -> list[dict]:
    rows: list[tuple[str, object, dict]] = []
    for k, town in enumerate(TOWNS):
        gold = {"name": "forecast", "arguments": {"city": town, "days": k + 1, "hourly": bool(k % 2)}}
        call = gold if k % 3 else {**gold, "arguments": {**gold["arguments"], "city": TOWNS[k - 1]}}
        message = {"role": "assistant", "content": f"{thought}<tool_call>\n{json.dumps(call)}\n</tool_call>"}
        if structured:
            message = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}
        rows.append((f"Weather in {town} for {k + 1} days?", [message], {"expected_calls": json.dumps([gold])}))
    return samples_of([*rows, ("Hello!", [{"role": "assistant", "content": "Good day."}], {"expected_calls": "[]"})])


def houses() -> list[dict]:
    rng = random.Random(1)
    texts = [json.dumps({"city": town, "rooms": rng.randint(0, 9)}) for town in TOWNS]
    return samples_of(
        [
            (f"The house in {t}?", text if k % 3 else f"Here: {text}", {"output_schema": json.dumps(SCHEMA)})
            for k, (t, text) in enumerate(zip(TOWNS, texts, strict=True))
        ]
    )


CASES = {
    "exact": lambda: ([reward("exact")], task_samples("extraction")),
    "exact, format": lambda: ([reward("exact"), reward("format", 0.2)], task_samples("maths")),
    "math, format": lambda: ([reward("math", finished=True), reward("format", 0.2)], task_samples("maths")),
    "math, partial_format": lambda: ([reward("math", finished=True), reward("partial_format", 0.2)], task_samples("maths")),
    "math in boxes": lambda: ([reward("math")], task_samples("boxed")),
    "length": lambda: ([reward("length", use="math", target_tokens=30, args={"finished": True})], task_samples("maths")),
    "overlong": lambda: ([reward("math", finished=True), reward("overlong", 0.5, max_completion_length=256, cache=64)], task_samples("maths")),
    "choice in tags": lambda: ([reward("choice")], task_samples("choice")),
    "choice in words": lambda: (
        [reward("choice")],
        choices(["The answer is ({}).", "<think>hm</think>\n\\boxed{{{}}}", "So it is this one.\n\n{}", "I choose {}."]),
    ),
    "schema": lambda: ([reward("schema")], houses()),
    "json": lambda: ([reward("json")], task_samples("invoices")),
    "json, any order": lambda: ([reward("json", any_order=True)], task_samples("invoices")),
    "json, partial": lambda: ([reward("json", partial=True)], task_samples("invoices")),
    "tool_calls": lambda: ([reward("tool_calls")], task_samples("calls")),
    "tool_calls after thinking": lambda: ([reward("tool_calls")], calls(False, "<think>I look it up.</think>\n")),
    "tool_calls in messages": lambda: ([reward("tool_calls")], calls(True)),
    "tool_calls, partial": lambda: ([reward("tool_calls", partial=True)], calls(False)),
}


@pytest.fixture(autouse=True)
def no_megabytes(request, monkeypatch):
    """Long texts up to what a model can write; a megabyte is tried once."""
    if "schema" not in request.node.name:
        monkeypatch.setattr(forms, "SIZES", forms.SIZES[:3])


@pytest.mark.parametrize("case", CASES)
def test_built_in_rewards_raise_no_error(case):
    found = findings(*CASES[case]())
    assert errors(found) == {}
    assert found["mutated_answer"]["severity"] == "ok" and found["mutated_answer"]["mutants"] > 0


def test_a_judge_that_reads_only_its_own_words_raises_no_error():
    def judge(question: str) -> str:
        return '{"verdict": "pass"}' if " lies by the water" in question else '{"verdict": "fail"}'

    made = make_rubric_judge_reward(judge, "Names the town and one of its sights.")
    found = findings([BuiltReward("judge", made, 1.0, True, ())], task_samples("essay"))
    assert errors(found) == {} and found["forged_verdict"]["severity"] == "ok" and found["forged_verdict"]["mutants"] > 0
    assert found["other_prompts"]["severity"] == "warning"  # this one does not look at the town


def test_format_alone_pays_wrong_answers_and_that_is_said():
    samples = task_samples("maths")
    found = findings([reward("format")], samples)
    assert found["mutated_answer"]["severity"] == "error" and "the same shows in" in found["mutated_answer"]["message"]
