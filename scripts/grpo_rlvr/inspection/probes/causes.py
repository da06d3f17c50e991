"""One finding a cause: what another finding has already proved is named in it and not said again."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 5
SAME = "; the same shows in "
FROM_ANSWER = (
    "no_answer", "prompt_echo", "expression_echo", "gold_anywhere", "reasoning_only", "answers_listed", "several_answers", "truncated", "after_eos",
    "length_pays", "repetition", "lookalikes", "broken_answer", "minimal_json", "typed_values", "repeated_items", "forged_verdict", "shuffled_golds",
    "other_prompts", "constant_completion",
)  # fmt: skip
# (probe, what its finding shows; "" for any error) -> findings that follow from it.
CAUSES: dict[tuple[str, str], tuple[str, ...]] = {
    ("length_pays", "shorter"): (
        "no_answer",
        "prompt_echo",
        "expression_echo",
        "truncated",
        "lookalikes",
        "broken_answer",
        "shuffled_golds",
        "constant_completion",
    ),
    ("several_answers", ""): ("answers_listed", "after_eos"),
    ("gold_anywhere", ""): ("reasoning_only", "answers_listed", "several_answers", "after_eos", "prompt_echo", "truncated"),
    ("mutated_answer", "ignored"): FROM_ANSWER,
    ("constant_completion", "unread"): ("shuffled_golds", "other_prompts", "repeated_items"),
    ("mutated_answer", "contained"): ("gold_anywhere",),
    ("mutated_answer", "blank"): ("no_answer",),
    ("mutated_answer", "listed"): ("answers_listed",),
}


def one_for_each_cause(findings: Sequence[dict]) -> list[dict]:
    """The findings without those that follow from another; its message and `also` name them."""
    left = list(findings)
    for (probe, shows), follow in CAUSES.items():
        root = next((f for f in left if f["probe"] == probe and f["severity"] == "error" and (not shows or shows in f.get("shows", ()))), None)
        if root is None:
            continue
        folded = [f for f in left if f["probe"] in follow and f["severity"] != "ok"]
        if folded:
            names = [name for f in folded for name in (f["probe"], *f.get("also", []))]
            also = [*root.get("also", []), *names]
            new = {**root, "also": also, "message": f"{root['message'].partition(SAME)[0]}{SAME}{_listed(also)}"}
            left = [new if f is root else f for f in left if not any(f is g for g in folded)]
    return left


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
