"""Columns that look like the gold and change no score: what is right stands in the data, and the reward does not ask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.completions import answer_span
from grpo_rlvr.inspection.equality import plain
from grpo_rlvr.inspection.json_fields import fits_schema, json_of, same_json
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.inspection.probes.findings import finding
from grpo_rlvr.inspection.probes.golds import NOT_ANSWERS, NOT_GOLD, json_value
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread

LOOKED_AT = 16  # accepted completions
MOST_COLUMNS = 20
_METADATA = re.compile(
    r"(?:.*_)?(?:id|ids|idx|index|uuid|guid|hash|url|uri|link|path|file|filename|date|time|timestamp|split|length|tokens|version)"
    r"|(?:data_?)?(?:source|set)|dataset|origin|level|topic|difficulty|subset|category|domain|subject|lang|language|license|author|tags?|type|kind"
    r"|score|rating|meta.*|info|extra_info|number_of_.*|num_.*|n_.*|prompt.*|question|problem|input|instruction|context|system.*|messages|image.*",
    re.IGNORECASE,
)
_GOLD = re.compile(
    r"(?:.*_)?(?:answers?|expected|gold|golds|ground_?truth|truth|targets?|labels?|solutions?|references?|correct|extraction|annotations?)"
    r"|(?:expected|gold|reference|correct|target)_.*",
    re.IGNORECASE,
)


def gold_like(subject: Subject) -> list[str]:
    """Columns that no deciding reward names and that differ by row, are no metadata, and look like the gold: by name, or since they say what
    accepted completions say. Only where the deciding rewards name no gold: beside one, a worked solution is read by nobody, and rightly.
    """
    if subject.kind in ("code", "calls") or any(c not in NOT_ANSWERS for r in subject.rewards if r.required for c in r.columns):
        return []
    columns = list(dict.fromkeys(name for s in subject.samples for name in s["columns"]))
    names = [n for n in columns if n not in (*NOT_GOLD, *NOT_ANSWERS) and not _METADATA.fullmatch(n) and _differs_by_row(subject, n)]
    return [n for n in names if _GOLD.fullmatch(n) or _said_by_completions(subject, n)][:MOST_COLUMNS]


def unread_columns(subject: Subject) -> list[str]:
    """Of `subject.gold_like` those that decide nothing: with another row's value in the place of the own, every accepted completion scores
    as before. A reward that takes `**columns` names none, so only its scores can tell.
    """
    judges = [r.name for r in subject.rewards if r.required] or [r.name for r in subject.rewards]
    unread = []
    for name in subject.gold_like:
        trials = []
        for i in spread(subject.distinct, LOOKED_AT):
            own = subject.samples[i]["columns"]
            other = _value_of_another_row(subject, i, name)
            if name in own and other is not None:
                trials.append(Trial(i, subject.samples[i]["completion"], "unread_gold", name, columns={**own, name: other}))
        rows = subject.score(trials)
        same = [
            isinstance(row, dict) and all(row["scores"][judge] == subject.scores[t.of]["scores"][judge] for judge in judges)
            for t, row in zip(trials, rows, strict=True)
        ]
        if same and all(same) and not _held_by_schema(subject, name):
            unread.append(name)
    return unread


def unread_gold(subject: Subject) -> list[dict]:
    """A warning that names the columns; nothing where there are none."""
    if not subject.unread:
        return []
    are = "columns {} are" if len(subject.unread) > 1 else "column {} is"
    message = f"{are.format(quoted(subject.unread))} read by no required reward: other values there change no score; {way_out(subject)}"
    return [finding("unread_gold", "warning", message)]


def way_out(subject: Subject) -> str:
    """What to do about a gold that no reward reads."""
    compare = f"compare the answer with the column {quoted(subject.unread)}"
    return f"{compare}, or put it into the row's schema as `const`" if subject.kind == "schema" else compare


def quoted(names: list[str]) -> str:
    return ", ".join(f"`{name[:60]}`" for name in names[:5])


def differ_in_unread(subject: Subject, i: int, j: int) -> bool:
    """Whether the rows have other golds in a column that no reward reads."""
    one, other = subject.samples[i]["columns"], subject.samples[j]["columns"]
    return any(name in one and name in other and _other(one[name], other[name]) for name in subject.unread)


def _value_of_another_row(subject: Subject, i: int, name: str) -> Any:
    """None where there is none that differs."""
    own = subject.samples[i]["columns"].get(name)
    return next((s["columns"][name] for s in subject.samples if name in s["columns"] and _other(own, s["columns"][name])), None)


def _other(a: Any, b: Any) -> bool:
    return b is not None and not same_json(json_value(a), json_value(b))


def _differs_by_row(subject: Subject, name: str) -> bool:
    """Whether rows of other prompts have other values."""
    values: dict[str, Any] = {canonical(s["prompt"]): s["columns"].get(name) for s in subject.samples}
    return len({canonical(v) for v in values.values() if v is not None}) > 1


def _said_by_completions(subject: Subject, name: str) -> bool:
    """Whether most accepted completions say what stands in the column: as their JSON, under its name in their JSON, or as their answer."""
    looked = spread(subject.distinct, LOOKED_AT)
    said = [_says(subject.text(i), name, subject.samples[i]["columns"]) for i in looked]
    return sum(said) > len(said) / 2


def _says(text: str, name: str, columns: Mapping[str, Any]) -> bool:
    value = json_value(columns.get(name))
    found = json_of(text)
    if found is not None:
        inside = found[2]
        alike = isinstance(value, dict) and isinstance(inside, dict) and value.keys() == inside.keys() and bool(value)
        return alike or same_json(inside, value) or (isinstance(inside, dict) and name in inside and same_json(inside[name], value))
    span = answer_span(text)
    return isinstance(value, str | int | float) and plain(text[slice(*span)] if span else text) == plain(str(value))


def _held_by_schema(subject: Subject, name: str) -> bool:
    """Whether the rows' schemas hold the column's values already: each takes its own row's, and not another's."""
    if subject.kind != "schema":
        return False
    held = []
    for i in spread(subject.distinct, LOOKED_AT):
        own = subject.samples[i]["columns"]
        other = _value_of_another_row(subject, i, name)
        if name in own and other is not None:
            schema = own.get("output_schema")
            held.append(fits_schema(json_value(own[name]), schema) and not fits_schema(json_value(other), schema))
    return bool(held) and sum(held) > len(held) / 2
