"""The parts of the probes: what is measured, what is grave, what is said once."""

from __future__ import annotations

import random
import re
import threading
import time

import pytest
from grpo_rlvr.inspection.equality import may_name_the_same
from grpo_rlvr.inspection.probes import run_probes
from grpo_rlvr.inspection.probes.attacks import MOST
from grpo_rlvr.inspection.probes.causes import one_for_each_cause
from grpo_rlvr.inspection.probes.code import cheats, code_span, entry_point, program_mutants
from grpo_rlvr.inspection.probes.findings import LONGEST, finding, shortened
from grpo_rlvr.inspection.probes.golds import kind_of
from grpo_rlvr.inspection.probes.shape import shape_of
from grpo_rlvr.inspection.probes.subject import Subject, Trial
from grpo_rlvr.inspection.scores import score_samples
from grpo_rlvr.rewards.registry import BuiltReward

from inspection.planted import task_samples

TAG = re.compile(r"<answer>([^<]*)</answer>\s*$")


def built(function, *columns: str, name: str = "own", required: bool = True, weight: float = 1.0) -> BuiltReward:
    return BuiltReward(name, function, weight, required, columns or ("answer",))


def last_tag(completion: str) -> str:
    found = TAG.search(completion.rpartition("</reasoning>")[2])
    return found[1].strip() if found else ""


def right(completions, answer, **columns):
    return [float(last_tag(c) == gold) for c, gold in zip(completions, answer, strict=True)]


def samples_of(pairs: list[tuple[str, str]]) -> list[dict]:
    return [
        {
            "sample_id": f"s{i}", "prompt_index": i, "prompt": f"q{i}?", "completion": f"<reasoning>w</reasoning>\n<answer>{said}</answer>",
            "columns": {"row_id": f"train:{i}", "answer": gold}, "finish": "stop",
        }
        for i, (said, gold) in enumerate(pairs)
    ]  # fmt: skip


def found(rewards, samples, threshold: float = 0.5) -> dict[str, dict]:
    rewards = rewards if isinstance(rewards, list) else [rewards]
    scores, _ = score_samples(rewards, samples, threshold)
    return {f["probe"]: f for f in run_probes(rewards, samples, scores, threshold)}


def grave(findings: dict[str, dict], *of: str) -> dict[str, str]:
    return {name: f["severity"] for name, f in findings.items() if f["severity"] in (of or ("error",))}


WORDS = [(w, w) for w in ("Oslo", "Lima", "Quito", "Cairo", "Delhi", "Tunis", "Accra", "Baku", "Seoul", "Sofia", "Minsk", "Dakar", "Rome", "Bern")]


# Names of one thing


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("U.S.", "USA", True), ("USA", "United States of America", True), ("Newton", "Isaac Newton", True), ("Jan", "January", True),
        ("colour", "color", True), ("São Paulo", "Sao Paulo", True), ("New York", "NYC", True), ("The Hague", "Hague", True),
        ("Oslo", "Lima", False), ("A", "B", False), ("A", "AB", False), ("yes", "no", False), ("red", "blue", False), ("12", "13", False),
        ("positive", "negative", False), ("Rome", "Bern", False),
    ],
)  # fmt: skip
def test_names_of_one_thing(a, b, same):
    assert may_name_the_same(a, b) is may_name_the_same(b, a) is same


def with_names(*groups: set[str]):
    def aliases(completions, answer, **columns):
        pairs = [(last_tag(c), gold) for c, gold in zip(completions, answer, strict=True)]
        return [float(bool(a) and (a == gold or any({a, gold} <= group for group in groups))) for a, gold in pairs]

    return aliases


def test_another_rows_gold_that_is_a_second_name_is_no_error():
    known = found(built(with_names({"U.S.", "USA"})), samples_of([*WORDS, ("U.S.", "U.S."), ("USA", "USA")]))
    assert known["mutated_answer"]["severity"] == "ok"  # told by their letters
    samples = samples_of([("Holland", "Holland"), ("Netherlands", "Netherlands"), *WORDS])
    unknown = found(built(with_names({"Holland", "Netherlands"})), samples)
    assert unknown["mutated_answer"]["severity"] == "warning" and "two names of one thing?" in unknown["mutated_answer"]["message"]
    assert grave(unknown) == {}


def test_all_names_paid_are_an_error_however_they_sound():
    anything = {w for w, _ in WORDS}
    assert found(built(with_names(anything)), samples_of(WORDS))["mutated_answer"]["severity"] == "error"


def test_two_other_rows_answers_paid_for_one_gold_are_no_names_of_it():
    def city(completions, answer, **columns):
        cities = {w for w, _ in WORDS}
        return [float(last_tag(c) == gold or (gold == "Oslo" and last_tag(c) in cities)) for c, gold in zip(completions, answer, strict=True)]

    got = found(built(city), samples_of(WORDS))["mutated_answer"]
    assert got["severity"] == "error" and got["unpunished"] == 2 and got["example"]["original"]["answer"] == "Oslo"


def test_a_few_labels_are_never_names_of_each_other():
    samples = samples_of([("positive", "positive"), ("negative", "negative")] * 3)
    loose = found(built(lambda completions, **k: [float(last_tag(c) in ("positive", "negative")) for c in completions]), samples)
    assert loose["mutated_answer"]["severity"] == "error"


# Random, or looking at the neighbours


def test_a_little_noise_is_a_warning_and_attacks_go_on():
    rng = random.Random(0)

    def noisy(completions, answer, **columns):
        return [min(1.0, max(0.0, 0.9 * s + 0.01 * rng.random())) for s in right(completions, answer)]

    got = found(built(noisy), samples_of([(str(k), str(k)) for k in range(10, 30)]))
    assert got["determinism"]["severity"] == "warning" and "it is random" in got["determinism"]["message"]
    assert "batch_independence" not in got and got["mutated_answer"]["severity"] == "ok" and grave(got) == {}
    assert set(got["determinism"]["example"]["pair"]) == {"first", "again"}


def test_a_lottery_is_an_error_and_nothing_else_is_said_of_it():
    rng = random.Random(0)
    got = found(built(lambda completions, **k: [rng.random() for _ in completions]), samples_of([(str(k), str(k)) for k in range(10, 30)]))
    assert got["determinism"]["severity"] == "error" and "mutated_answer" not in got and set(grave(got)) == {"determinism"}


def test_looking_at_neighbours_is_told_from_remembering_and_from_lots():
    pairs = [(str(k), str(k)) for k in range(10, 30)]
    ranks = found(built(lambda completions, answer, **k: [s / (1 + i) for i, s in enumerate(right(completions, answer))]), samples_of(pairs))
    assert "looks at its neighbours" in ranks["batch_independence"]["message"] and ranks["determinism"]["severity"] == "ok"
    calls = []

    def tired(completions, answer, **columns):
        calls.append(1)
        return [s / len(calls) for s in right(completions, answer)]

    assert "it is random" in found(built(tired), samples_of(pairs))["determinism"]["message"]  # three calls, three scores
    seen: set[str] = set()

    def news(completions, answer, **columns):
        scores = [s * (c not in seen) for s, c in zip(right(completions, answer), completions, strict=True)]
        seen.update(completions)
        return scores

    assert "it remembers earlier calls" in found(built(news), samples_of(pairs))["determinism"]["message"]


def test_threads_that_share_something_are_found():
    shared: list = [None, None]

    def careless(completions, answer, **columns):
        shared[0] = list(answer)
        if len(completions) < 20 and threading.active_count() > 3:
            time.sleep(0.002)  # lets the others in
        return [float(last_tag(c) == gold) for c, gold in zip(completions, shared[0], strict=False)] + [0.0] * (len(completions) - len(shared[0]))

    got = found(built(careless), samples_of([(str(k), str(k)) for k in range(10, 35)]))
    assert got["threads"]["severity"] == "error" and got["batch_independence"]["severity"] == "ok"
    assert found(built(right), samples_of([("10", "10")]))["threads"]["severity"] == "ok"


# Costly rewards


def test_a_slow_reward_is_tried_less_and_every_family_still_has_its_turn():
    samples = samples_of([(str(k), str(k)) for k in range(10, 60)])
    subject = Subject([built(right)], samples, score_samples([built(right)], samples, 0.5)[0], 0.5)
    trials = [Trial(i, "x", probe, what) for i in range(50) for probe in ("a", "b", "c") for what in ("one", "two")]
    assert subject.affordable(trials) == trials
    subject.seconds = 10.0
    fewer = subject.affordable(trials)
    assert len(fewer) == 60 and {(t.probe, t.what) for t in fewer} == {(p, w) for p in "abc" for w in ("one", "two")}


def test_long_texts_are_kept_from_a_reward_that_is_slow_on_them(monkeypatch):
    from grpo_rlvr.inspection.probes import forms

    monkeypatch.setattr(forms, "SLOW_S", 0.05)
    lengths = []

    def slow(completions, answer, **columns):
        lengths.append(max(map(len, completions)))
        if len(completions) == 1 and len(completions[0]) > 2000:
            time.sleep(0.06)
        return right(completions, answer)

    got = found(built(slow), samples_of([("10", "10"), ("11", "11")]))
    assert got["odd_input"]["severity"] == "warning" and "characters of the letter a" in got["odd_input"]["message"]
    assert "repetition" not in got and max(lengths[-3:]) < 2000


# Attacks, controls, rewritings


def test_the_control_says_the_numbers():
    samples = samples_of([(str(k), str(k)) for k in range(10, 40)])
    got = found(built(right), samples)["shuffled_golds"]
    assert (got["severity"], got["honest"], got["control"], got["mutants"]) == ("ok", 1.0, 0.0, 30)
    assert "mean total 1.00 honest, 0.00 so; 0 of 30 pass" in got["message"]
    deaf = built(lambda completions, answer, **k: [float(last_tag(c).isdigit() and len(last_tag(c)) == 2) for c in completions])
    folded = found(deaf, samples)["mutated_answer"]
    assert folded["severity"] == "error" or "shuffled_golds" in found(deaf, samples)
    assert found(deaf, samples)["shuffled_golds"]["severity"] == "error" and found(deaf, samples)["constant_completion"]["severity"] == "error"


def test_a_score_that_grows_with_length_among_equals_is_a_warning():
    samples = samples_of([(str(k), str(k) if k % 2 else "0") for k in range(10, 70)])
    for i, sample in enumerate(samples):
        sample["completion"] = sample["completion"].replace("w<", "w" * (1 + 3 * i) + "<")
    rewards = [built(right), built(lambda completions, **k: [min(1.0, len(c) / 400) for c in completions], name="long", required=False)]
    got = found(rewards, samples)["length_only"]
    assert got["severity"] == "warning" and got["r"]["right"] > 0.9 and got["judged_by"] == "reward"
    assert found([built(right)], samples)["length_only"]["message"].endswith("right all alike, wrong all alike")


def test_rewritings_are_graded_by_how_sure_they_are():
    samples = samples_of([("10", "10"), ("-11", "-11")])
    strict = built(
        lambda completions, answer, **k: [float(c.endswith(f"</reasoning>\n<answer>{g}</answer>")) for c, g in zip(completions, answer, strict=True)]
    )
    got = found(strict, samples)["honest_rewriting"]
    assert got["severity"] == "warning" and got["message"].index("a line feed at the end (2 of 2)") < got["message"].index(
        "a typographic minus (1 of 1)"
    )
    assert got["message"].endswith("honest completions are punished")
    tokens = built(
        lambda completions, answer, **k: [
            float(s and "<|" not in c) for s, c in zip(right([c.replace("−", "-") for c in completions], answer), completions, strict=True)
        ]
    )
    assert found(tokens, samples)["honest_rewriting"]["severity"] == "ok"  # a trainer drops special tokens


def test_the_whole_prompt_is_no_answer_but_in_an_echo_task():
    samples = samples_of([("10", "10"), ("11", "11")])
    for sample in samples:
        sample["prompt"] = "Say it after me"
    echo = built(
        lambda completions, answer, **k: [float(s or c == "Say it after me") for s, c in zip(right(completions, answer), completions, strict=True)]
    )
    assert found(echo, samples)["prompt_echo"]["severity"] == "error"
    for sample in samples:
        sample["columns"]["answer"], sample["completion"] = "Say it after me", "Say it after me"
    same = built(lambda completions, answer, **k: [float(c.strip() == g) for c, g in zip(completions, answer, strict=True)])
    assert "prompt_echo" not in found(same, samples)


def test_a_tool_task_where_nothing_is_to_be_called_may_pay_an_answer_without_calls():
    samples = task_samples("calls")
    for sample in samples:
        sample["columns"]["expected_calls"], sample["completion"] = "[]", [{"role": "assistant", "content": "Good day."}]
    none = built(lambda completions, **k: [float("tool_call" not in c[-1]["content"]) for c in completions], "expected_calls")
    assert grave(found(none, samples)) == {}


def test_a_reward_of_two_parts_is_attacked_through_both():
    """The second part pays back what being wrong costs: no verdict changes, the totals say it."""
    samples = samples_of([(str(k), str(k)) for k in range(10, 14)])
    back = built(lambda completions, answer, **k: [1.0 - s for s in right(completions, answer)], name="back", required=False)
    assert found([built(right), back], samples)["mutated_answer"]["severity"] == "error"


def test_one_finding_for_each_cause():
    findings = [
        finding("mutated_answer", "error", "m", shows=["ignored"]), finding("reasoning_only", "error", "r"),
        finding("shuffled_golds", "warning", "s"), finding("speed", "warning", "slow"), finding("truncated", "ok", "t"),
    ]  # fmt: skip
    left = one_for_each_cause(findings)
    assert [f["probe"] for f in left] == ["mutated_answer", "speed", "truncated"] and left[0]["also"] == ["reasoning_only", "shuffled_golds"]
    assert left[0]["message"] == "m; the same shows in reasoning_only, shuffled_golds"
    assert one_for_each_cause(findings[1:]) == findings[1:]


# Kinds and shapes


def test_kinds_are_told_by_columns_and_what_stands_in_them():
    def kind(columns: dict, *read: str) -> str:
        return kind_of([built(right, *read)], [{"columns": columns}])

    assert kind({"tests": "assert f(1) == 2"}, "tests") == "code" and kind({"expected_calls": "[]"}, "expected_calls") == "calls"
    assert kind({"output_schema": "{}"}, "output_schema") == "schema" and kind({"answer": "(B)"}) == "choice"
    assert kind({"answer": "1,200"}) == kind({"answer": 3}) == "number" and kind({"answer": "Oslo"}) == "text"
    assert kind_of([BuiltReward("judge", right, 1.0, True, ())], [{"columns": {}}]) == "none"


def test_shapes_say_where_the_answer_stands():
    tag = shape_of("<reasoning>4</reasoning><answer>B) 12</answer>.", ["12"])
    assert (tag.left, tag.answer, tag.right, tag.closed) == ("<answer>B) ", "12", "</answer>", True)
    assert tag.twice("1", "2") == "<reasoning>4</reasoning><answer>B) 1</answer>\n<answer>B) 2</answer>."
    box = shape_of(r"So \boxed{\frac{1}{2}} it is", [r"\frac{1}{2}"])
    assert (box.head, box.left, box.right, box.tail) == ("So ", r"\boxed{", "}", " it is")
    line = shape_of("Well.\nIt is 5.\nBye", ["5"])
    assert (line.left, line.answer, line.right, line.closed) == ("It is ", "5", ".", False)
    assert shape_of("no number", ["5"]) is None and shape_of("#### 7", ["7"]).text("8") == "#### 8"


def test_programs_are_replaced_inside_the_last_fence():
    text = "First:\n```\nold\n```\nThen:\n```python\ndef f(a):\n    return a\n```\nDone."
    assert text[slice(*code_span(text))] == "def f(a):\n    return a\n"
    assert "return None" in program_mutants(text)[0].completion and program_mutants(text)[0].completion.endswith("```\nDone.")
    assert (
        entry_point('{"entry_point": "g", "cases": []}', "") == "g"
        and entry_point("assert h(1) == 2", "") == "h"
        and entry_point("", "def k(): pass") == "k"
    )
    for code in cheats("f").values():
        compile(code.removesuffix("\n'''"), "cheat", "exec")


def test_a_huge_completion_is_no_part_of_a_finding():
    assert shortened("a" * LONGEST) == "a" * LONGEST
    short = shortened([{"role": "assistant", "content": "a" * 10**6}])
    assert len(short[0]["content"]) < 3000 and "998,000 characters left out" in short[0]["content"]


def test_findings_are_the_same_every_time():
    samples = samples_of([(str(k), str(k)) for k in range(10, 10 + MOST + 20)])

    def plain(findings: dict) -> dict:
        return {name: {k: v for k, v in f.items() if k not in ("seconds",)} for name, f in findings.items() if name != "speed"}

    assert plain(found(built(right), samples)) == plain(found(built(right), samples))


# The careless rewards of a tiny model that learns to cheat them


def text_of(c) -> str:
    return c[0]["content"]


CARELESS = {
    "any_number": lambda completions, answer, **k: [float(a in re.findall(r"\d+", text_of(c))) for c, a in zip(completions, answer, strict=True)],
    "format_only": lambda completions, **k: [float(bool(re.search(r"<answer>\d", text_of(c)))) for c in completions],
    "substring": lambda completions, answer, **k: [float(a in text_of(c)) for c, a in zip(completions, answer, strict=True)],
    "brevity": lambda completions, **k: [float(bool(re.search(r"<answer>\d+</answer>", text_of(c)))) - 0.002 * len(text_of(c)) for c in completions],
    "steps": lambda completions, **k: [0.5 * ("<answer>" in text_of(c)) + 0.2 * text_of(c).count("=") for c in completions],
}


def tiny_sums() -> list[dict]:
    """As the tiny model writes them: column sums in the reasoning, or the answer alone."""
    rng, samples = random.Random(3), []
    for k in range(24):
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        ones, said = a % 10 + b % 10, a + b + (rng.choice([-10, 1, 10]) if k % 3 == 0 else 0)
        work = (
            f"<reasoning>{a % 10}+{b % 10}={ones:02d};{a // 10}+{b // 10}+{ones // 10}={a // 10 + b // 10 + ones // 10:02d}</reasoning>"
            if k % 4
            else ""
        )
        samples.append(
            {
                "sample_id": f"s{k}", "prompt_index": k, "prompt": [{"role": "user", "content": f"{a}+{b}=?"}],
                "completion": [{"role": "assistant", "content": f"{work}<answer>{said}</answer>"}], "columns": {"answer": str(a + b)},
                "finish": "stop",
            }
        )  # fmt: skip
    return samples


@pytest.mark.parametrize("name", CARELESS)
def test_the_careless_rewards_of_the_tiny_model_are_caught_before_training(name):
    columns = () if name in ("format_only", "brevity", "steps") else ("answer",)
    reward = BuiltReward(name, CARELESS[name], 1.0, True, columns)
    assert found(reward, tiny_sums())["mutated_answer"]["severity"] == "error"


def test_the_honest_reward_of_the_tiny_model_is_not():
    whole = re.compile(r"(?:<reasoning>[^<]*</reasoning>)?<answer>(\d+)</answer>")
    honest = built(
        lambda completions, answer, **k: [
            float(bool(m := whole.fullmatch(text_of(c) or "")) and int(m[1]) == int(a)) for c, a in zip(completions, answer, strict=True)
        ]
    )
    assert grave(found(honest, tiny_sums())) == {}
