"""Labels that were given on a static page and downloaded, taken into `labels.jsonl`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import Line, append_lines, canonical, locked, read_lines
from grpo_rlvr.inspection.labels import LOCK, labels_path, last_words, line_problem

KEYS = ("schema", "sample_id", "label", "reviewer", "reviewer_kind", "at", "note")
SHOWN = 10


def import_labels(folder: Path, file: Path, samples: Sequence[dict]) -> dict:
    """Add the judgements of `file` that are not there yet; a second import adds none. All or nothing.

    Who judged, of what kind the reviewer is and when it was stay as the file says. A judgement older than the reviewer's last one on the same
    sample is left out, so that an old file never undoes what was said since.

    Returns:
        `added`, `known` (already there), `outdated`.

    Raises:
        UserError: no such file, lines that are no labels, or labels of samples that are not those of this inspection.
    """
    if not file.is_file():
        raise UserError("labels", Problem(str(file), "there is no such file", "--labels takes the file that the static page downloaded"))
    lines = read_lines(file)
    if not lines:
        raise UserError("labels", Problem(str(file), "it has no labels", "judge on the static page, then download again"))
    ids = {sample["sample_id"] for sample in samples}
    bad = [(line, said) for line in lines if (said := _problem(line, ids))]
    if bad:
        fix = "nothing was taken in. A page that was written before other samples were drawn cannot be used; write a new one with review --static"
        shown = [Problem(f"{file} line {line.number}", said) for line, said in bad[:SHOWN]]
        raise UserError("labels", [*shown, Problem(str(file), f"{len(bad)} of {len(lines)} lines cannot be used", fix)])
    rows = [{key: line.value.get(key, "") for key in KEYS} for line in lines]
    with locked(folder, LOCK, wait=True):
        present = [line.value for line in read_lines(labels_path(folder)) if not line_problem(line)]
        known = {canonical({key: row.get(key, "") for key in KEYS}) for row in present}
        last = {(row["sample_id"], row["reviewer"]): _time(row.get("at")) for row in last_words(present)}
        fresh = [row for row in rows if canonical(row) not in known]
        new = [row for row in fresh if not _is_older(row, last)]
        if new:
            append_lines(labels_path(folder), new)
    return {"added": len(new), "known": len(rows) - len(fresh), "outdated": len(fresh) - len(new)}


def _problem(line: Line, ids: set[str]) -> str:
    said = line_problem(line)
    if said:
        return said
    if line.value["sample_id"] not in ids:
        return f"there is no sample {line.value['sample_id'][:40]!r} in this inspection"
    return "" if _time(line.value.get("at")) else f"at is {line.value.get('at')!r}, not a time with its zone (2026-01-31T12:00:00+00:00)"


def _is_older(row: dict, last: dict[tuple[str, str], datetime.datetime | None]) -> bool:
    before = last.get((row["sample_id"], row["reviewer"]))
    return before is not None and _time(row["at"]) < before


def _time(text: object) -> datetime.datetime | None:
    try:
        time = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None
