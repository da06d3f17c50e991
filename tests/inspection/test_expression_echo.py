"""The expression of a question as its answer: found where it is one, paid where only the value counts, and what cures it."""

from __future__ import annotations

import re

import pytest
from grpo_rlvr.inspection.probes import run_probes
from grpo_rlvr.inspection.probes.expressions import MOST, expression_trials, expressions, unworked
from grpo_rlvr.inspection.probes.subject import Subject
from grpo_rlvr.inspection.run import _next_step
from grpo_rlvr.inspection.scores import score_samples
from grpo_rlvr.rewards.registry import BuiltReward, make_builtin

TAG, BOX = "<reasoning>w</reasoning>\n<answer>{}</answer>", "So it is \\boxed{{{}}}."


def reward(use: str, /, **args) -> BuiltReward:
    made = make_builtin(use, args)
    return BuiltReward(use, made, 1.0, True, tuple(made.columns))


def own(completions, answer, **columns):
    """Computes what stands in the tag, as careless users do."""
    said = [re.search(r"<answer>([-+*/ ().\d]+)</answer>$", c) for c in completions]
    return [float(m is not None and _value(m[1]) == float(gold)) for m, gold in zip(said, answer, strict=True)]


def _value(text: str) -> float | None:
    try:
        return eval(text, {"__builtins__": {}})
    except (SyntaxError, TypeError, ZeroDivisionError):
        return None


def samples_of(rows: list[tuple[str, str]], form: str = TAG, said: str | None = None) -> list[dict]:
    return [
        {
            "sample_id": f"s{i}", "prompt_index": i, "prompt": prompt, "completion": form.format(gold if said is None else said),
            "columns": {"row_id": f"train:{i}", "answer": gold}, "finish": "stop",
        }
        for i, (prompt, gold) in enumerate(rows)
    ]  # fmt: skip


def trials(built: BuiltReward, samples: list[dict]) -> tuple[Subject, list]:
    subject = Subject([built], samples, score_samples([built], samples, 0.5)[0], 0.5)
    return subject, expression_trials(subject)


def echo(built: BuiltReward, samples: list[dict]) -> dict | None:
    scores, _ = score_samples([built], samples, 0.5)
    return next((f for f in run_probes([built], samples, scores, 0.5) if f["probe"] == "expression_echo"), None)


@pytest.mark.parametrize(
    ("prompt", "gold", "found"),
    [
        ("10 + 10 = ?", "20", "10 + 10"),
        ("10 + 10 = ___", "20", "10 + 10"),
        ("Compute $1 + 5/3$.", r"\frac{8}{3}", "1 + 5/3"),
        (r"Compute \(1 + \frac{5}{3}\).", "8/3", r"1 + \frac{5}{3}"),
        ("Simplify sqrt(98)", r"7\sqrt{2}", "sqrt(98)"),
        (r"Simplify \sqrt{98}.", r"7\sqrt2", r"\sqrt{98}"),
        ("Simplify √98.", r"7\sqrt2", "√98"),
        ("What is the square root of 98?", r"7\sqrt2", r"\sqrt{98}"),
        ("What is the cube root of 54?", r"3\sqrt[3]{2}", r"\sqrt[3]{54}"),
        ("What is 53 plus 30?", "83", "53 + 30"),
        ("What is 12 squared?", "144", "12^2"),
        ("1) What is (3+4)*2?", "14", "(3+4)*2"),
        ("(a) 3 + 4 (b) 5 + 5", "7", "3 + 4"),
        ("Simplify 2x + 3x.", "5x", "2x + 3x"),
        (r"Evaluate $\log_2 8$.", "3", r"\log_2 8"),
        ("If y = 3+4, what is y?", "7", "3+4"),
        ("Write 4/6 in lowest terms.", "2/3", "4/6"),
        ("Q: 3+4=? A: 7\nQ: 5+6=? A:", "11", "5+6"),
    ],
)
def test_the_expression_is_taken_out_of_the_prompt(prompt, gold, found):
    assert [e for e in expressions(prompt) if unworked(e, gold)] == [found]


@pytest.mark.parametrize(
    ("prompt", "gold"),
    [
        ("Solve 2x = 10.", "5"),
        ("Is 3+4 = 7?", "yes"),
        ("A box holds 804 screws. How many do 3 boxes hold?", "2412"),
        ("Read pages 10-12 until 2024-01-31, call 555-1234.", "12"),
        ("A book costs $5, a pen costs $6. What do both cost?", "11"),
        ("Compute $1 + 5/3$.", "$1 + 5/3$"),  # the gold leaves it open
        ("Factor $x^2-1$.", "(x-1)(x+1)"),  # another form, nothing to compute
        ("Where is Oslo?", "Norway"),
        ("3 + 4 " * 5000, "7"),
        ("", "7"),
    ],
)
def test_other_prompts_have_none(prompt, gold):
    assert not any(unworked(e, gold) for e in expressions(prompt))
    assert trials(reward("exact"), samples_of([(prompt, gold)]))[1] == []


@pytest.mark.parametrize("form", [TAG, BOX])
def test_the_math_reward_pays_it_and_finished_cures_it(form):
    samples = samples_of([(f"Compute {a} + {a + 3}.", str(2 * a + 3)) for a in range(10, 14)] + [("Simplify sqrt(98).", r"7\sqrt{2}")], form)
    got = echo(reward("math"), samples)
    assert got["severity"] == "error" and (got["mutants"], got["unpunished"]) == (5, 5)
    assert got["example"]["mutant"]["completion"] == form.format("10 + 13")  # the smallest
    assert got["message"].endswith("set `finished: true` in the args of math") and got["fix"] in _next_step({}, [got], [])
    cured = echo(reward("math", finished=True), samples)
    assert cured["severity"] == "ok" and cured["mutants"] == 5
    assert echo(reward("length", use="math", target_tokens=90), samples)["fix"] == "set `finished: true` in the args of the math reward inside length"


def test_a_function_of_ones_own_is_told_what_to_do():
    got = echo(BuiltReward("own", own, 1.0, True, ("answer",)), samples_of([("10 + 10 = ?", "20"), ("5 * 7 = ?", "35")]))
    assert got["severity"] == "error" and got["unpunished"] == 2 and got["fix"].startswith("let the reward refuse")
    assert echo(reward("exact"), samples_of([("10 + 10 = ?", "20")]))["severity"] == "ok"


def test_where_nothing_is_to_be_worked_out_it_is_a_warning():
    samples = samples_of([(f"Type the sum of {a} + {a}, as a numeral, in Roman or Arabic script.", str(2 * a)) for a in (10, 20)])
    assert echo(reward("math"), samples)["severity"] == "warning"


def test_without_an_accepted_completion_tag_and_box_are_tried():
    samples = samples_of([("10 + 10 = ?", "20")], said="3")
    subject, made = trials(reward("math"), samples)
    assert [t.completion for t in made] == ["<answer>10 + 10</answer>", r"\boxed{10 + 10}"]
    assert all(subject.paid(t, row) for t, row in zip(made, subject.score(made), strict=True))


def test_each_prompt_is_tried_once_and_not_too_many():
    samples = samples_of([(f"{a} + 1 = ?", str(a + 1)) for a in range(3 * MOST)])
    again = [{**s, "sample_id": s["sample_id"] + "b"} for s in samples]
    made = trials(reward("math"), samples + again)[1]
    assert len(made) == MOST and len({t.of for t in made}) == MOST
