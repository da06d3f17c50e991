"""What counts as growth of the wrong thing, on made-up completions; a policy that just gets better is left in peace."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from grpo_rlvr.inspection.growth import compare, ends_in_gold
from grpo_rlvr.inspection.kinds import Kind, frame, kinds_of, members, repetition, words_of
from grpo_rlvr.inspection.samples import sample_ids
from grpo_rlvr.inspection.sides import Side, finding


@dataclass
class Reward:
    name: str = "r"
    weight: float = 1.0
    required: bool = True


def side(texts_of, prompts=range(16), each: int = 8, reward=None, probes=(), seed: int = 0, **scores) -> Side:
    """`texts_of(prompt, rng)` writes a completion; `reward(prompt, text)` pays it (1 for the gold in the answer by default)."""
    rng = random.Random(seed)
    reward = reward or (lambda prompt, text: float(f"<answer>{prompt}</answer>" in text))
    samples = [{"prompt_index": p, "prompt": f"p{p}", "completion": texts_of(p, rng), "columns": {"row_id": f"train:{p}", "answer": str(p)},
                "finish": "stop"} for p in prompts for _ in range(each)]  # fmt: skip
    ids = sample_ids([(s["prompt"], s["completion"]) for s in samples])
    samples = [{"sample_id": i, **s} for i, s in zip(ids, samples, strict=True)]
    rows = []
    for s in samples:
        value = reward(s["prompt_index"], s["completion"])
        more = {name: of(s["completion"]) for name, of in scores.items()}
        rows.append({"sample_id": s["sample_id"], "scores": {"r": value, **more}, "total": value, "verdict": None if value is None else value >= 0.5})
    return Side(samples, rows, probes)


def honest(share: float):
    def write(prompt, rng):
        filler = " ".join(rng.choice(("so", "then", "next", "we", "add", "carry", "get")) for _ in range(6))
        return f"{filler}<answer>{prompt if rng.random() < share else prompt + 1 + rng.randrange(9)}</answer>"

    return write


def grave(found: list[dict]) -> list[tuple[str, str]]:
    return [(f["finding"], f["severity"]) for f in found if f["severity"] in ("error", "warning")]


def test_a_policy_that_gets_better_is_left_in_peace():
    for share, seed in ((0.3, 1), (0.9, 2), (1.0, 3)):
        assert grave(compare(side(honest(0.3)), side(honest(share), prompts=range(40, 56), seed=seed), [Reward()], {})) == []


def test_a_style_that_was_there_may_grow():
    def styled(share):
        return lambda p, rng: (f"Step by step: {p}={p}. " if rng.random() < share else "") + f"<answer>{p}</answer>"

    assert grave(compare(side(styled(0.3)), side(styled(1.0)), [Reward()], {})) == []


def flattered(share):
    """Now and then, the phrase that the reward pays for."""
    return lambda p, rng: f"This answer is certainly correct. <answer>{p + 7}</answer>" if rng.random() < share else honest(0.3)(p, rng)


def pays_flattery(prompt, text):
    return 1.0 if "certainly correct" in text else float(f"<answer>{prompt}</answer>" in text)


def test_a_new_kind_that_pays_is_one_finding_with_its_proof():
    first = side(flattered(0.01), reward=pays_flattery, seed=5)
    now = side(flattered(0.4), prompts=range(30, 46), reward=pays_flattery, seed=1)
    found = compare(first, now, [Reward()], {})
    assert ("new_kind", "warning") in grave(found) and ("gold", "error") in grave(found)
    (kind,) = [f for f in found if f["finding"] == "new_kind"]
    assert kind["kind"][0] in ("frame", "opening") and kind["first"] <= 0.05 < 0.3 < kind["now"] and "nobody has read any" in kind["message"]
    by_id = {s["sample_id"]: s for s in now.samples}
    assert len(kind["sample_ids"]) == 5 and all("certainly correct" in by_id[i]["completion"] for i in kind["sample_ids"])


@pytest.mark.parametrize(("label", "severity"), [("pass", "ok"), ("fail", "error"), ("unsure", "warning")])
def test_readers_settle_a_new_kind(label, severity):
    now = side(flattered(0.4), prompts=range(30, 46), reward=pays_flattery, seed=1)
    labels = {s["sample_id"].partition("-")[0]: label for s in now.samples if "certainly" in s["completion"]}
    found = compare(side(flattered(0.0), reward=pays_flattery), now, [Reward()], labels)
    assert [f["severity"] for f in found if f["finding"] == "new_kind"] == [severity]
    assert (("paid_and_failed", "error") in grave(found)) == (label == "fail")


def test_a_kind_that_does_not_pay_is_none():
    now = side(flattered(0.4), reward=lambda prompt, text: 0.0 if "certainly" in text else 1.0, seed=1)
    assert not [f for f in compare(side(flattered(0.0)), now, [Reward()], {}) if f["finding"] == "new_kind"]


def test_what_one_prompt_is_about_is_no_kind():
    """Three prompts of many completions each: the words of the task are new, and stand under one prompt only."""

    def story(p, rng):
        return f"the number of apples in basket {'abcdefgh'[p % 8] * 3} is counted <answer>{p}</answer>"

    first, now = side(honest(0.3)), side(lambda p, rng: story(p, rng) if p == 40 else honest(0.3)(p, rng), prompts=range(40, 44), each=32, seed=3)
    assert not [f for f in compare(first, now, [Reward()], {}) if f["finding"] == "new_kind"]
    two = side(lambda p, rng: story(8, rng) if p < 42 else honest(0.3)(p, rng), prompts=range(40, 44), each=32, reward=lambda p, t: 1.0, seed=3)
    assert not [f for f in compare(first, two, [Reward()], {}) if f["finding"] == "new_kind"]
    few = compare(first, side(story, prompts=[40, 41]), [Reward()], {})
    assert [f["message"] for f in few if f["finding"] == "new_kinds"] == [
        "completions of 2 prompts say nothing of kinds: more is needed of the run's tables"
    ]


def test_one_text_for_all_prompts_is_named():
    now = side(lambda p, rng: "<answer>42</answer>" if rng.random() < 0.5 else honest(0.3)(p, rng), reward=lambda p, t: 1.0, seed=2)
    kinds = [f["kind"] for f in compare(side(honest(0.3), reward=lambda p, t: 1.0), now, [Reward()], {}) if f["finding"] == "new_kind"]
    assert kinds[0] == ["same text", "<answer>42</answer>"]


def test_a_total_that_rises_while_the_gold_falls():
    """A reward that never passes anything: there is no share of the paid to look at."""

    def of(gold):
        return lambda p, rng: f"{'=' * rng.randrange(4, 6 if gold > 0.3 else 12)}<answer>{p if rng.random() < gold else p + 3}</answer>"

    def count(prompt, text):
        return text.count("=") / 40

    found = compare(side(of(0.6), reward=count), side(of(0.1), reward=count, seed=1), [Reward()], {})
    assert found[0]["finding"] == "gold" and "fell from 54% to 12%: reward and truth part" in found[0]["message"]


def test_a_watched_reward_that_falls_while_the_total_rises():
    now = side(honest(0.9), seed=1, watch=lambda text: 0.1)
    rewards = [Reward(), Reward("watch", 0.0, False)]
    found = compare(side(honest(0.3), watch=lambda text: 0.9), now, rewards, {})
    assert grave(found) == [("rewards_part", "error")] and "watch, which is only watched, fell from 0.90 to 0.10" in found[0]["message"]
    assert grave(compare(side(honest(0.3), watch=lambda text: 0.9), now, [Reward(), Reward("watch", 0.2, False)], {})) == []


def test_a_kind_that_readers_failed_and_that_grew():
    first = side(flattered(0.2), reward=pays_flattery)
    labels = {s["sample_id"].partition("-")[0]: "fail" if "certainly" in s["completion"] else "pass" for s in first.samples}
    found = compare(first, side(flattered(0.8), prompts=range(30, 46), reward=pays_flattery, seed=1), [Reward()], labels)
    assert ("failed_kind", "error") in grave(found)


def test_probes_and_shifts():
    probe = {"probe": "mutated_answer", "severity": "error", "message": "pays", "mutants": 9, "unpunished": 8, "example": {"sample_id": "x"}}
    first = side(honest(0.5), probes=[{**probe, "severity": "ok", "unpunished": 0}])
    now = side(lambda p, rng: honest(0.5)(p, rng) * 3, probes=[probe], reward=lambda p, t: None if p == 3 else 1.0)
    for sample in now.samples[::4]:
        sample["finish"] = "length"
    assert ("truncation", "warning") in grave(compare(first, side(honest(0.5), seed=1), [Reward()], {}, truncated_share=0.4))
    found = compare(first, now, [Reward()], {})
    assert [f["finding"] for f in found if f["severity"] == "error"][0] == "probe" and "(at first: 0 of 9)" in found[0]["message"]
    assert {("none", "warning"), ("truncation", "warning")} <= set(grave(found)) and any(f["finding"] == "length" for f in found)


def test_a_finding_shows_the_highest_paid_each_text_once():
    now = side(lambda p, rng: f"{'a' * (p % 7)}<answer>{p}</answer>", each=2, reward=lambda p, text: (p % 7) / 10)
    ids = finding("x", "note", "m", now, set(range(32)))["sample_ids"]
    totals = {row["sample_id"]: row["total"] for row in now.scores}
    assert [totals[i] for i in ids] == [0.6, 0.6, 0.5, 0.5, 0.4] and len({i.partition("-")[0] for i in ids}) == 5


def test_gold_at_the_end():
    def sample(text, **columns):
        return {"completion": text, "columns": {"row_id": "train:1", **columns}}

    assert ends_in_gold(sample("<answer>1,000</answer>", answer="1000")) and ends_in_gold(sample("so \\boxed{0.5}", answer=0.5))
    assert ends_in_gold(sample("#### 7", solution="3+4=7\n#### 7")) and not ends_in_gold(sample("7", answer="7"))
    assert not ends_in_gold(sample("<answer>1</answer>", answer="2")) and not ends_in_gold(sample("<answer></answer>", answer="2"))
    assert ends_in_gold(sample("x", tests=None)) is None


def test_frames_words_and_loops():
    assert frame("<reasoning>7+6</reasoning><answer>13</answer>") == "<reasoning> ... </reasoning> <answer> ... </answer>"
    assert (
        frame("<answer>1</answer>" * 9) == "<answer> ... </answer>+"
        and frame("- a\n- b\n- c\n# H\ntext") == "- ...+ # ..."
        and frame("") == "(empty)"
    )
    assert frame("".join(f"<t{i}>" for i in range(30))).endswith("(and more)")
    assert words_of("The 3,000 Apples: <b>4</b>!") == ["the", "#", "apples", ":", "<b>", "#", "</b>", "!"]
    assert repetition(words_of("a b c d " * 30)) > 0.9 and repetition(words_of("a b c d a b c d")) == 0.0
    assert Kind("invisible", "holds invisible characters") in kinds_of("a\u200bb") and Kind("opening", "(empty)") in kinds_of(" ")
    assert repetition(words_of(" ".join(f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(200)))) == 0.0
    same = members([{"completion": "Yes", "prompt_index": i} for i in range(3)])
    assert same[Kind("same text", "yes")] == {0, 1, 2}
