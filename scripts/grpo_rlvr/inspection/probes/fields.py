"""Accepted JSON with one field made wrong, so that each path of the gold is tried at least once in the batch."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.inspection.json_fields import STRUCTURE, Change, field_changes, json_of, leaves_by_path
from grpo_rlvr.inspection.mutate import replaced
from grpo_rlvr.inspection.probes.golds import NOT_ANSWERS, json_value
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread

MOST = 200  # completions that are looked at
EACH = 6  # trials of one change of one path
PATHS = 200  # changes of paths; JSON with keys that differ by row has no end of them
CHANGES = 400  # of one completion
OTHERS = 20  # values of one path that are kept
SHOWN = 6


def field_trials(subject: Subject) -> list[Trial]:
    """Trials for `mutated_answer` with `path`; none where completions hold no JSON that the gold has too."""
    if subject.kind in ("code", "calls"):
        return []
    chosen = spread(subject.distinct, MOST)
    others = _values_by_path(subject)
    holders: dict[tuple, list[tuple[int, Change]]] = defaultdict(list)
    for turn, i in enumerate(chosen):
        for change in _changes(subject, i, _turned(others, turn)):
            key = (change.path, change.what, any(isinstance(step, int) and step > 0 for step in change.steps))
            if key in holders or len(holders) < PATHS:
                holders[key].append((i, change))
    return [_trial(subject, i, change) for found in holders.values() for i, change in spread(found, EACH)]


def gold_columns(subject: Subject) -> list[str]:
    """The columns that say what is right: those that the deciding rewards read, else those that look like it."""
    names = [name for name in subject.names if name not in NOT_ANSWERS]
    return names or subject.gold_like


def tried_paths(trials: Sequence[Trial]) -> str:
    """What was tried in the JSON, in words; "" where nothing was."""
    values = list(dict.fromkeys(t.path for t in trials if t.path and t.what not in STRUCTURE))
    said = [f"{len(values)} path{'s' if len(values) > 1 else ''} of the JSON: {_listed(values)}"] if values else []
    return "; ".join([*said, *dict.fromkeys(t.what for t in trials if t.path and t.what in STRUCTURE)])


def paid_paths(trials: Sequence[Trial]) -> str:
    """The paths of paid trials, each with the changes that were paid."""
    found: dict[str, list[str]] = {}
    for trial in trials:
        if trial.path and trial.what not in found.setdefault(trial.path, []):
            found[trial.path].append(trial.what)
    return _listed([f"`{path}` ({', '.join(whats[:3])})" for path, whats in found.items()])


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")


def _trees(subject: Subject, columns: Mapping[str, Any]) -> list[Any]:
    """What may be the gold of a whole JSON answer: a column's JSON, or the columns as fields of one object."""
    names = [name for name in gold_columns(subject) if name in columns]
    values = {name: json_value(columns[name]) for name in names}
    return [*(v for v in values.values() if isinstance(v, dict | list)), values]


def _changes(subject: Subject, i: int, others: Mapping[str, Sequence[Any]]) -> list[Change]:
    found = json_of(subject.text(i))
    if found is None:
        return []
    for gold in _trees(subject, subject.samples[i]["columns"]):
        if changes := list(itertools.islice(field_changes(found[2], gold, others), CHANGES)):
            return changes
    return []


def _values_by_path(subject: Subject) -> dict[str, list[Any]]:
    """Path -> different values of it in the golds of all rows."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for i in spread(range(len(subject.samples)), MOST):
        for tree in _trees(subject, subject.samples[i]["columns"]):
            for path, value in itertools.islice(leaves_by_path(tree), CHANGES):
                if len(found[path]) < OTHERS:
                    found[path].setdefault(json.dumps(value), value)
    return {path: list(values.values()) for path, values in found.items()}


def _turned(others: Mapping[str, list[Any]], turn: int) -> dict[str, list[Any]]:
    """Each completion begins with another of the values."""
    return {path: values[turn % len(values) :] + values[: turn % len(values)] for path, values in others.items()}


def _trial(subject: Subject, i: int, change: Change) -> Trial:
    text = subject.text(i)
    start, end, value = json_of(text)
    new = text[:start] + json.dumps(change.applied(value), ensure_ascii=False) + text[end:]
    completion = subject.samples[i]["completion"]
    changed = replaced(completion, new) if isinstance(completion, str) else [{"role": "assistant", "content": new}]
    old, put = _short(change.old), "" if change.what.endswith(("left out", "more")) else _short(change.new)
    return Trial(
        i, changed, "mutated_answer", change.what, old, put, change.sure, part=True, near=not change.sure, name=change.name, path=change.path[:80]
    )  # fmt: skip


def _short(value: Any) -> str:
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:80]
