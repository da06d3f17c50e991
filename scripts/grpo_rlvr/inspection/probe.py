"""Attacks on the rewards before the policy finds them.

A reward that correlates perfectly with correctness in honest samples can still pay for something else: what tells is whether it stops
paying when only the answer becomes wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.completions import answer_span, completion_text
from grpo_rlvr.errors import GoldError, UserError
from grpo_rlvr.inspection.agreement import correlation
from grpo_rlvr.inspection.mutate import Mutant, invalid_json, mutants, replaced
from grpo_rlvr.inspection.scores import score_samples

KEEPS = 1e-9
MOST = 200  # completions that are attacked; more cost time and show nothing new
AGAIN, SLICE = 64, 7  # completions scored a second time, and how many at once
UNSCORED = 0.20
TOTALS_WARN, TOTALS_ERROR = 0.10, 0.50
NOT_GOLD = ("row_id", "prompt")


def run_probes(
    rewards: Sequence, samples: Sequence[dict], scores: Sequence[dict], threshold: float, labels: Mapping[str, str] | None = None
) -> list[dict]:
    """All probes' findings: each with `probe`, `severity` (error, warning, ok), `message`, `mutants`, `unpunished` and `example`.

    Args:
        scores: score rows aligned with `samples`.
        labels: sample_id -> pass, fail or unsure, as far as someone has read.
    """
    attacked = mutated_answer(rewards, samples, scores, threshold, labels or {})
    return [*attacked, value_range(rewards, scores), totals(samples, scores), batch_independence(rewards, samples, scores, threshold)]


def has_error(findings: Sequence[dict]) -> bool:
    return any(f["severity"] == "error" for f in findings)


def value_range(rewards: Sequence, scores: Sequence[dict]) -> dict:
    """Whether each reward stays in [0, 1], or [-1, 0] for shaping terms; outside, weights and the pass threshold mean something else."""
    finding = _finding("value_range", "ok", "all values are between -1 and 1")
    odd = []
    for reward in rewards:
        values = [row["scores"][reward.name] for row in scores if row["scores"][reward.name] is not None]
        if values and (min(values) < -1 or max(values) > 1):
            odd.append(f"{reward.name} gives {min(values):g} to {max(values):g}")
    # Where some completions pass and some fail, a paid reward that sees no difference at all is likely broken.
    differ = {row["verdict"] for row in scores} >= {True, False}
    flat = []
    for reward in rewards if differ else ():
        values = {row["scores"][reward.name] for row in scores}
        if reward.weight and len(values) == 1 and None not in values:
            flat.append(f"{reward.name} is {values.pop():g} in all {len(scores)} samples")
    said = []
    if odd:
        said.append(f"{'; '.join(odd)}: scale it to [0, 1] (its importance is its weight), or pass_threshold does not mean what it says")
    if flat:
        said.append(f"{'; '.join(flat)}: it teaches nothing; does it read the gold as the type it has in the data?")
    return {**finding, "severity": "warning", "message": "; ".join(said)} if said else finding


def totals(samples: Sequence[dict], scores: Sequence[dict]) -> dict:
    """Whether the sum of all rewards ever pays a completion that fails more than one of the same prompt that passes: training follows the sum."""
    by_prompt: dict[int, dict[bool, list[int]]] = {}
    for i, row in enumerate(scores):
        if row["verdict"] is not None and row["total"] is not None:
            by_prompt.setdefault(samples[i]["prompt_index"], {}).setdefault(row["verdict"], []).append(i)
    both = [
        (min(g[True], key=lambda i: scores[i]["total"]), max(g[False], key=lambda i: scores[i]["total"])) for g in by_prompt.values() if len(g) == 2
    ]
    gaps = [(scores[wrong]["total"] - scores[right]["total"], right, wrong) for right, wrong in both]
    worse = [gap for gap in gaps if gap[0] > KEEPS]
    share = len(worse) / len(both) if both else 0.0
    if not worse:
        return {**_finding("totals", "ok", "in no prompt does a completion that fails earn more than one that passes"), "share": share}
    severity = "error" if share > TOTALS_ERROR else "warning" if share > TOTALS_WARN else "ok"
    message = (
        f"in {len(worse)} of {len(both)} prompts with both, a completion that fails earns a higher total than one that passes: "
        "the other rewards outweigh being right; change their weights"
    )
    _, right, wrong = max(worse)
    pair = {word: _scored(samples[i], scores[i]) for word, i in (("passes", right), ("fails", wrong))}
    example = {"sample_id": samples[wrong]["sample_id"], "prompt": samples[wrong]["prompt"], "pair": pair}
    return {**_finding("totals", severity, message, example), "share": share}


def batch_independence(rewards: Sequence, samples: Sequence[dict], scores: Sequence[dict], threshold: float) -> dict:
    """Whether accepted completions keep their scores in another order and other batches, as training will send them."""
    accepted = _spread([i for i, row in enumerate(scores) if row["verdict"] is True], AGAIN)[::-1]
    for at in range(0, len(accepted), SLICE):
        part = accepted[at : at + SLICE]
        try:
            again, _ = score_samples(rewards, [samples[i] for i in part], threshold)
        except UserError as exc:
            return _finding("batch_independence", "error", f"in a batch of {len(part)}: {_said(exc)}")
        for i, row in zip(part, again, strict=True):
            changed = [name for name, old in scores[i]["scores"].items() if not _equal(old, row["scores"][name])]
            if changed:
                message = f"{', '.join(changed)} scores the same completion otherwise in another batch: it looks at its neighbours, or is random"
                pair = {"first": _scored(samples[i], scores[i]), "again": _scored(samples[i], row)}
                example = {"sample_id": samples[i]["sample_id"], "prompt": samples[i]["prompt"], "pair": pair}
                return _finding("batch_independence", "error", message, example)
    return _finding("batch_independence", "ok", f"{len(accepted)} accepted completions score the same in another order and other batches")


def mutated_answer(rewards: Sequence, samples: Sequence[dict], scores: Sequence[dict], threshold: float, labels: Mapping[str, str]) -> list[dict]:
    """Take completions the reward accepts, make only the final answer wrong, and see whether the reward notices.

    Samples that a reader passed go before those that only the reward accepts. A mutant is unpunished if its verdict is still a pass or its
    total is not below the original's. One that is near to the right answer may be paid by a tolerance, and is a warning alone.

    Returns:
        A finding: `severity` (error if a mutant that is not near is unpunished or none could be scored, warning if only near ones are, many
        could not be scored or nothing could be mutated, else ok), `originals`, `mutants`, `unpunished`, `unscored` (mutants without a total),
        `example` (the smallest unpunished pair) and `correlation` (for information). And a second one, if the reward raised on a mutant.
    """
    accepted = [i for i, row in enumerate(scores) if row["verdict"] is True]
    passed = [i for i in accepted if labels.get(samples[i]["sample_id"]) == "pass"]
    accepted = passed or accepted
    names = _gold_names(rewards, samples)
    others = list(dict.fromkeys(_last_answer(text) for sample in samples for text in _texts(sample["columns"], names)))
    distinct = _distinct(accepted, samples)
    chosen = _spread(distinct, MOST)
    attacked = [(i, mutant) for i in chosen for mutant in _attacks(rewards, samples[i], others, names)]
    finding: dict[str, Any] = {
        **_finding("mutated_answer", "ok", ""),
        "originals": len({i for i, _ in attacked}),
        "mutants": len(attacked),
        "unscored": 0,
        "source": "label pass" if passed else "verdict pass",
        "correlation": _score_correlation(samples, scores, labels),
    }
    if not attacked:
        why = (
            "no sample is accepted by the reward"
            if not accepted
            else f"none of the {len(accepted)} accepted samples has an answer that could be replaced"
        )
        return [{**finding, "severity": "warning", "message": f"{why}: whether the reward punishes wrong answers is unknown"}]
    wrong = [{**samples[i], "completion": mutant.completion} for i, mutant in attacked]
    rescored = _score_each(rewards, wrong, threshold)
    size = {k: (len(completion_text(wrong[k]["completion"])), str((mutant.old, mutant.new)), k) for k, (_, mutant) in enumerate(attacked)}
    raised = sorted((k for k, row in enumerate(rescored) if isinstance(row, UserError)), key=size.get)
    unpunished = [
        k
        for k, row in enumerate(rescored)
        if isinstance(row, dict) and (row["verdict"] is True or _keeps(row["total"], scores[attacked[k][0]]["total"]))
    ]
    far = [k for k in unpunished if not attacked[k][1].near]
    finding["unpunished"] = len(unpunished)
    finding["unscored"] = sum(isinstance(row, dict) and row["total"] is None for row in rescored)
    finding["severity"], finding["message"] = _judge(finding, len(far), len(attacked) - len(raised), len(distinct), len(chosen))
    if unpunished:
        smallest = min(far or unpunished, key=size.get)
        mutant = attacked[smallest][1]
        if not far:
            finding["message"] = f"pays {mutant.new!r} for {mutant.old!r}: a tolerance? {finding['message']}"
        finding["example"] = _example(samples, scores, attacked[smallest], rescored[smallest])
    return [finding, *([_raises(rescored, raised, attacked, samples, scores)] if raised else [])]


def _judge(finding: Mapping, far: int, scored: int, distinct: int, chosen: int) -> tuple[str, str]:
    """Severity and message of `mutated_answer`; `scored` mutants did not make the reward raise."""
    count, unpunished, unscored = finding["mutants"], finding["unpunished"], finding["unscored"]
    capped = f" ({chosen} of {distinct} accepted completions were attacked, evenly spread)" if chosen < distinct else ""
    if far:
        return (
            "error",
            f"{unpunished} of {count} completions keep their reward after the answer was made wrong: being right is not what is paid{capped}",
        )
    if not scored:
        return "warning", f"the reward raised on all {count} wrong answers: whether it punishes them is unknown{capped}"
    if unscored == scored:
        return (
            "error",
            f"none of {count} wrong answers could be scored (None is not a punishment): whether the reward punishes them is unknown{capped}",
        )
    if unpunished:
        return "warning", f"{unpunished} of {count} wrong answers keep their reward, all of them near the right one{capped}"
    if unscored > UNSCORED * scored:
        return "warning", f"{unscored} of {count} wrong answers could not be scored: None is no punishment, a wrong answer is 0{capped}"
    rest = f", {unscored} could not be scored" if unscored else ""
    return "ok", f"all {scored - unscored} wrong answers put into {finding['originals']} accepted completions lose reward{rest}{capped}"


def _raises(rescored: list, raised: list[int], attacked: list, samples: Sequence[dict], scores: Sequence[dict]) -> dict:
    first = raised[0]
    message = f"{_said(rescored[first])} on this answer ({len(raised)} of {len(attacked)} wrong answers): what a model writes must never raise"
    unknown = {"scores": {}, "total": None, "verdict": None}
    finding = _finding("reward_raises", "error", message, _example(samples, scores, attacked[first], unknown))
    return {**finding, "mutants": len(attacked), "unpunished": len(raised)}


def _said(exc: UserError) -> str:
    """The reward and its exception or bad value, in words."""
    problem = exc.problems[0]
    return f"reward {problem.where} {'raises ' if exc.__cause__ is not None else ''}{problem.message}"


def _score_each(rewards: Sequence, samples: Sequence[dict], threshold: float) -> list[dict | UserError]:
    """Score rows, with the error in the place of those that make a reward raise; found by halving."""
    try:
        return score_samples(rewards, samples, threshold)[0]
    except GoldError:
        raise
    except UserError as exc:
        if exc.kind != "reward":
            raise
        if len(samples) == 1:
            return [exc]
        half = len(samples) // 2
        return _score_each(rewards, samples[:half], threshold) + _score_each(rewards, samples[half:], threshold)


def _attacks(rewards: Sequence, sample: Mapping, others: Sequence[str], names: Sequence[str]) -> list[Mutant]:
    """The mutants of one sample; `others` are golds of all rows, `names` the columns that the deciding rewards read."""
    completion, columns = sample["completion"], sample["columns"]
    if {c for r in rewards if r.required for c in r.columns} == {"output_schema"}:
        old = completion_text(completion)
        return [Mutant(replaced(completion, new), old, new) for new in invalid_json(columns.get("output_schema"))]
    # Any column may hold the truth, whether the reward reads it or not; a mutant that equals one proves nothing.
    golds = [part for text in _texts(columns, [name for name in columns if name not in NOT_GOLD]) for part in _parts(text)]
    return mutants(completion, golds, others, [part for text in _texts(columns, names) for part in _parts(text)])


def _parts(gold: str) -> list[str]:
    """A gold, the answer at the end of a worked solution, and each of "15 or 16"."""
    return list(dict.fromkeys([gold, _last_answer(gold), *re.split(r"\s+or\s+|\s*[|;]\s*", gold)]))


def _last_answer(gold: str) -> str:
    span = answer_span(gold)
    return gold[slice(*span)] if span else gold


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


def _spread(indices: Sequence[int], most: int) -> list[int]:
    """At most so many, evenly spread; always the same."""
    return list(indices) if len(indices) <= most else [indices[k * len(indices) // most] for k in range(most)]


def _finding(probe: str, severity: str, message: str, example: dict | None = None) -> dict:
    return {"probe": probe, "severity": severity, "message": message, "mutants": 0, "unpunished": 0, "example": example}


def _scored(sample: Mapping, row: Mapping) -> dict:
    return {"completion": sample["completion"], "scores": row["scores"], "total": row["total"], "verdict": row["verdict"]}


def _equal(old: float | None, new: float | None) -> bool:
    return old is new or (old is not None and new is not None and abs(old - new) <= 1e-6 * max(1.0, abs(old)))


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


def _example(samples: Sequence[dict], scores: Sequence[dict], attack: tuple[int, Mutant], rescored: dict) -> dict:
    i, mutant = attack
    sample, row = samples[i], scores[i]
    return {
        "sample_id": sample["sample_id"],
        "prompt": sample["prompt"],
        "columns": sample["columns"],
        "original": {"answer": mutant.old, **_scored(sample, row)},
        "mutant": {"answer": mutant.new, **_scored({"completion": mutant.completion}, rescored)},
    }
