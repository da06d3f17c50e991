"""Who read, how far readers agree with one another, and what became of labels that were given before the score was seen."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from grpo_rlvr.inspection.agreement import cohens_kappa, disagrees
from grpo_rlvr.inspection.labels import LABELS
from grpo_rlvr.intervals import clopper_pearson


def summarise_readers(judgements: Sequence[dict], verdicts: Mapping[str, bool | None], allowed: Collection[str]) -> dict:
    """What the gate says about readers; only judgements of today's samples are looked at.

    Args:
        judgements: what `load_judgements` returns.
        verdicts: today's verdict of each sample, by its id.
        allowed: the kinds of reviewers whose labels count.

    Returns:
        `readers` (all of them, with `counts`: whether their kind is allowed), `between` (for each pair of readers that count and have read
        the same samples), `withdrawn` (with notes), `undone` (samples whose reader took a label back and gave no other), and `first_labels`
        (how the labels that were given first, before a score was seen, agree with today's verdicts, and what became of the others).
    """
    here = [row for row in judgements if row["sample_id"] in verdicts]
    counted = [row for row in here if row["reviewer_kind"] in allowed]
    held = [row for row in counted if row["label"] in LABELS]
    return {
        "readers": [_reader(name, kind, rows, kind in allowed) for (name, kind), rows in _by_reader(here).items()],
        "between": _between(held),
        "withdrawn": [{k: row.get(k, "") for k in ("sample_id", "reviewer", "note", "at")} for row in counted if row["label"] == "withdrawn"],
        "undone": [{k: row[k] for k in ("sample_id", "reviewer", "at")} for row in counted if row["label"] == "undone"],
        "first_labels": _first_labels(counted, verdicts),
    }


def _by_reader(rows: Sequence[dict]) -> dict[tuple[str, str], list[dict]]:
    grouped: dict[tuple[str, str], list[dict]] = {}
    for row in sorted(rows, key=lambda row: (row["reviewer"], row["reviewer_kind"])):
        grouped.setdefault((row["reviewer"], row["reviewer_kind"]), []).append(row)
    return grouped


def _reader(name: str, kind: str, rows: Sequence[dict], counts: bool) -> dict:
    times = sorted(str(row.get("at") or "") for row in rows)
    held = [row for row in rows if row["label"] in LABELS]
    said = {label: sum(row["label"] == label for row in rows) for label in (*LABELS, "withdrawn")}
    return {"reviewer": name, "kind": kind, "counts": counts, "labels": len(held), **said, "from": times[0], "to": times[-1]}


def _between(held: Sequence[dict]) -> list[dict]:
    by_reviewer: dict[str, dict[str, str]] = {}
    for row in held:
        by_reviewer.setdefault(row["reviewer"], {})[row["sample_id"]] = row["label"]
    found = []
    for (a, labels_a), (b, labels_b) in itertools.combinations(sorted(by_reviewer.items()), 2):
        both = [i for i in labels_a if i in labels_b]
        if not both:
            continue
        same = sum(labels_a[i] == labels_b[i] for i in both)
        found.append(
            {
                "reviewers": [a, b],
                "both_read": len(both),
                "same": same,
                "agreement": same / len(both),
                "interval": list(clopper_pearson(same, len(both))),
                "kappa": cohens_kappa([(labels_a[i], labels_b[i]) for i in both]),
                "differ": [i for i in both if labels_a[i] != labels_b[i]],
            }
        )
    return found


def _first_labels(counted: Sequence[dict], verdicts: Mapping[str, bool | None]) -> dict:
    first = [row for row in counted if row["first"] in ("pass", "fail") and verdicts[row["sample_id"]] is not None]
    against = [row for row in first if disagrees(row["first"], verdicts[row["sample_id"]])]
    turned = [row for row in against if row["label"] in LABELS and not disagrees(row["label"], verdicts[row["sample_id"]])]
    return {
        "compared": len(first),
        "agreements": len(first) - len(against),
        "agreement": (len(first) - len(against)) / len(first) if first else None,
        "interval": list(clopper_pearson(len(first) - len(against), len(first))),
        "changed": len(turned),
        "withdrawn": sum(row["label"] == "withdrawn" for row in against),
    }
