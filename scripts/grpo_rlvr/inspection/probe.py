"""Attacks on the rewards before the policy finds them.

A reward that correlates perfectly with correctness in honest samples can still pay for something else: what tells is whether it stops
paying when only the answer becomes wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.inspection.agreement import correlation
from grpo_rlvr.inspection.mutate import invalid_json, mutants, replaced
from grpo_rlvr.inspection.scores import score_samples

KEEPS = 1e-9
NOT_GOLD = ("row_id", "prompt")


def run_probes(
    rewards: Sequence, samples: Sequence[dict], scores: Sequence[dict], threshold: float, labels: Mapping[str, str] | None = None
) -> list[dict]:
    """All probes' findings.

    Args:
        scores: score rows aligned with `samples`.
        labels: sample_id -> pass, fail or unsure, as far as someone has read.
    """
    return [mutated_answer(rewards, samples, scores, threshold, labels or {}), value_range(rewards, scores)]


def has_error(findings: Sequence[dict]) -> bool:
    return any(f["severity"] == "error" for f in findings)


def value_range(rewards: Sequence, scores: Sequence[dict]) -> dict:
    """Whether each reward stays in [0, 1], or [-1, 0] for shaping terms; outside, weights and the pass threshold mean something else."""
    finding = {"probe": "value_range", "severity": "ok", "message": "all values are between -1 and 1", "mutants": 0, "unpunished": 0, "example": None}
    odd = []
    for reward in rewards:
        values = [row["scores"][reward.name] for row in scores if row["scores"][reward.name] is not None]
        if values and (min(values) < -1 or max(values) > 1):
            odd.append(f"{reward.name} gives {min(values):g} to {max(values):g}")
    if not odd:
        return finding
    message = f"{'; '.join(odd)}: scale it to [0, 1] and put its importance into weight, or inspection.pass_threshold does not mean what it says"
    return {**finding, "severity": "warning", "message": message}


def mutated_answer(rewards: Sequence, samples: Sequence[dict], scores: Sequence[dict], threshold: float, labels: Mapping[str, str]) -> dict:
    """Take completions the reward accepts, make only the final answer wrong, and see whether the reward notices.

    Samples that a reader passed go before those that only the reward accepts. A mutant is unpunished if its verdict is still a pass or its
    total is not below the original's.

    Returns:
        A finding: `severity` (error if a mutant is unpunished, warning if nothing could be mutated, ok), `message`, `originals`, `mutants`,
        `unpunished`, `unscored` (mutants without a total), `example` (the smallest unpunished pair) and `correlation` (for information).
    """
    accepted = [i for i, row in enumerate(scores) if row["verdict"] is True]
    passed = [i for i in accepted if labels.get(samples[i]["sample_id"]) == "pass"]
    accepted = passed or accepted
    names = _gold_names(rewards, samples)
    others = list(dict.fromkeys(text for sample in samples for text in _texts(sample["columns"], names)))
    attacked = [attack for i in _distinct(accepted, samples) for attack in _attacks(rewards, samples[i], i, others)]
    finding: dict[str, Any] = {
        "probe": "mutated_answer",
        "originals": len({i for i, *_ in attacked}),
        "mutants": len(attacked),
        "unpunished": 0,
        "unscored": 0,
    }
    finding["source"] = "label pass" if passed else "verdict pass"
    finding["correlation"] = _score_correlation(samples, scores, labels)
    if not attacked:
        why = (
            "no sample is accepted by the reward"
            if not accepted
            else f"none of the {len(accepted)} accepted samples has an answer that could be replaced"
        )
        return {**finding, "severity": "warning", "message": f"{why}: whether the reward punishes wrong answers is unknown", "example": None}
    wrong = [{**samples[i], "completion": mutant} for i, mutant, *_ in attacked]
    rescored, _ = score_samples(rewards, wrong, threshold)
    unpunished = [k for k, row in enumerate(rescored) if row["verdict"] is True or _keeps(row["total"], scores[attacked[k][0]]["total"])]
    finding["unpunished"] = len(unpunished)
    finding["unscored"] = sum(row["total"] is None for row in rescored)
    if not unpunished:
        message = f"all {len(attacked)} wrong answers put into {finding['originals']} accepted completions lose reward"
        return {**finding, "severity": "ok", "message": message, "example": None}
    smallest = min(unpunished, key=lambda k: (len(completion_text(wrong[k]["completion"])), str(attacked[k][2:]), k))
    message = f"{len(unpunished)} of {len(attacked)} completions keep their reward after the answer was made wrong: being right is not what is paid"
    example = _example(samples, scores, attacked[smallest], rescored[smallest])
    return {**finding, "severity": "error", "message": message, "example": example}


def _attacks(rewards: Sequence, sample: Mapping, i: int, others: Sequence[str]) -> list[tuple[int, Any, str, str]]:
    """(sample number, mutant, old answer, new answer) for one sample; `others` are golds of all rows."""
    completion, columns = sample["completion"], sample["columns"]
    if {c for r in rewards if r.required for c in r.columns} == {"output_schema"}:
        old = completion_text(completion)
        return [(i, replaced(completion, new), old, new) for new in invalid_json(columns.get("output_schema"))]
    # Any column may hold the truth, whether the reward reads it or not; a mutant that equals one proves nothing.
    golds = _texts(columns, [name for name in columns if name not in NOT_GOLD])
    return [(i, *mutant) for mutant in mutants(completion, golds, others)]


def _texts(columns: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The scalars among the named columns, as text; of lists (also as JSON text) each item: any of them may be an accepted answer."""
    values = [item for name in names if name in columns for item in _items(columns[name])]
    return [str(v) for v in values if isinstance(v, str | int | float) and not isinstance(v, bool)]


def _items(value: Any) -> list:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            inside = json.loads(value)
        except (ValueError, RecursionError):
            inside = None
        return [value, *inside] if isinstance(inside, list) else [value]
    return list(value) if isinstance(value, list | tuple) else [value]


def _gold_names(rewards: Sequence, samples: Sequence[dict]) -> list[str]:
    """The columns that the deciding rewards read; for rewards that read none, `answer` if there is one."""
    names = sorted({c for r in rewards if r.required for c in r.columns})
    return names or [c for c in ("answer",) if any(c in s["columns"] for s in samples)]


def _distinct(indices: Sequence[int], samples: Sequence[dict]) -> list[int]:
    """One of each equal completion of a prompt."""
    return list({(samples[i]["prompt_index"], samples[i]["sample_id"].partition("-")[0]): i for i in reversed(indices)}.values())[::-1]


def _keeps(mutant: float | None, original: float | None) -> bool:
    return mutant is not None and original is not None and mutant >= original - KEEPS


def _score_correlation(samples: Sequence[dict], scores: Sequence[dict], labels: Mapping[str, str]) -> dict:
    """Total against the readers' labels, or against the reward's own verdict where nobody has read."""
    read = {s["sample_id"]: labels[s["sample_id"]] == "pass" for s in samples if labels.get(s["sample_id"]) in ("pass", "fail")}
    against = "labels" if read else "verdicts"
    pairs = [
        (row["total"], read[row["sample_id"]] if read else row["verdict"])
        for row in scores
        if row["total"] is not None and row["verdict"] is not None and (not read or row["sample_id"] in read)
    ]
    r = correlation([t for t, _ in pairs], [float(v) for _, v in pairs])
    return {"against": against, "r": r, "pairs": len(pairs), "note": "agreement in honest samples proves nothing about dishonest ones"}


def _example(samples: Sequence[dict], scores: Sequence[dict], attack: tuple, rescored: dict) -> dict:
    i, mutant, old, new = attack
    sample, row = samples[i], scores[i]
    return {
        "sample_id": sample["sample_id"],
        "prompt": sample["prompt"],
        "columns": sample["columns"],
        "original": {"completion": sample["completion"], "answer": old, "scores": row["scores"], "total": row["total"], "verdict": row["verdict"]},
        "mutant": {"completion": mutant, "answer": new, "scores": rescored["scores"], "total": rescored["total"], "verdict": rescored["verdict"]},
    }
