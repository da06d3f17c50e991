"""`samples.jsonl`: a header that says how the completions were drawn, then one completion a line.

The file grows batch by batch. It is never overwritten: samples drawn under other settings are moved aside, and so is a torn tail.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import say, write_text
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import Line, append_lines, canonical, read_lines, set_aside

SCHEMA = "grpo-rlvr/samples/1"
COMPARED = ("sampling", "fingerprint", "count")
RUN_AGAIN = "run: inspect_rewards.py run CONFIG"


def samples_path(folder: Path) -> Path:
    return folder / "samples.jsonl"


def make_header(sampling: dict, fingerprint: dict, count: int) -> dict:
    """The first line. Files whose headers are equal hold samples of the same distribution; `count` is the size of the finished file."""
    return {"schema": SCHEMA, "sampling": sampling, "fingerprint": fingerprint, "count": count}


class SampleIds:
    """Gives samples their ids: the first 16 hex digits of the hash of prompt and completion; the second and later equal ones get `-1`, `-2`, ...

    Args:
        there: the samples that have theirs already.
    """

    def __init__(self, there: Sequence[dict] = ()):
        self.seen = Counter(sample["sample_id"].partition("-")[0] for sample in there)

    def next(self, prompt: Any, completion: Any) -> str:
        digest = hashlib.sha256(canonical([prompt, completion]).encode()).hexdigest()[:16]
        count = self.seen[digest]
        self.seen[digest] += 1
        return f"{digest}-{count}" if count else digest


def sample_ids(prompts_and_completions: Sequence[tuple[Any, Any]]) -> list[str]:
    """The ids of these samples, in order."""
    ids = SampleIds()
    return [ids.next(prompt, completion) for prompt, completion in prompts_and_completions]


def start_samples(folder: Path, header: dict, fits: Callable[[int, dict], bool] = lambda number, sample: True) -> list[dict]:
    """Make `samples.jsonl` ready for the samples that `header` announces and return those it already holds.

    A file with another header is moved to `samples.<hash>.jsonl`. A torn or damaged line, what follows it, and a last batch that was not
    written whole are moved aside and will be drawn again.

    Args:
        fits: whether a sample may stand at this place (from 0), for what its id does not show: its prompt and its gold.
    """
    path = samples_path(folder)
    lines = read_lines(path)
    if lines and (lines[0].value is None or any(canonical(lines[0].value.get(k)) != canonical(header[k]) for k in COMPARED)):
        beside = path.with_name(f"samples.{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.jsonl")
        if len(lines) == 1 and lines[0].value is not None:
            path.unlink()  # only a header: that run ended before its first batch
        else:
            os.replace(path, beside)
            say(f"the samples there were recorded, or drawn under other settings; they are kept as {beside.name}")
        lines = []
    if not lines:
        append_lines(path, [header])
        return []
    problems = _problems(lines[1:])
    good = next((i for i, line in enumerate(lines[1:]) if problems[i] or i >= header["count"] or not fits(i, line.value)), len(lines) - 1)
    rows = _whole_batches([line.value for line in lines[1 : good + 1]])
    kept = lines[: len(rows) + 1]
    if len(kept) < len(lines):
        beside = set_aside(path, lines[len(kept) :], "torn")
        write_text(path, "".join(line.raw.decode() + "\n" for line in kept))
        why = (
            f"line {lines[good + 1].number} is torn or damaged" if good + 1 < len(lines) else "the last run was interrupted in the middle of a batch"
        )
        say(f"samples.jsonl: {why}; what is not whole is kept as {beside.name} and made again")
    return rows


def append_samples(folder: Path, rows: Sequence[dict]) -> None:
    append_lines(samples_path(folder), rows)


def peek_header(folder: Path) -> dict | None:
    """The header of `samples.jsonl` as it stands there; None if there is none that can be read."""
    try:
        with open(samples_path(folder), "rb") as lines:
            header = json.loads(lines.readline())
    except (OSError, ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) and header.get("schema") == SCHEMA else None


def load_header(folder: Path) -> dict:
    """The header of `samples.jsonl`; a UserError if there are no samples."""
    lines = read_lines(samples_path(folder))
    header = lines[0].value if lines else None
    whole = header is not None and header.get("schema") == SCHEMA and isinstance(header.get("count"), int)
    if not whole or not all(isinstance(header.get(k), dict) for k in ("sampling", "fingerprint")):
        raise UserError(
            "samples",
            Problem(str(samples_path(folder)), "there are no samples yet" if not lines else "the first line is no samples header", RUN_AGAIN),
        )
    return header


def load_samples(folder: Path) -> list[dict]:
    """All samples of the folder.

    Raises:
        UserError: none there, a line that is torn or not what the run wrote, or the run that draws them was interrupted.
    """
    path = samples_path(folder)
    header = load_header(folder)
    lines = read_lines(path)[1:]
    bad = [(line, said) for line, said in zip(lines, _problems(lines), strict=True) if said]
    bad += [(line, f"only {header['count']} samples belong here") for line in lines[header["count"] :] if not bad]
    if bad:
        fix = RUN_AGAIN + " (it repairs the file; with --completions FILE if they were recorded)"
        raise UserError("samples", [Problem(f"{path} line {line.number}", said, fix) for line, said in bad[:10]])
    if len(lines) != header["count"]:
        raise UserError(
            "samples",
            Problem(
                str(path),
                f"{len(lines)} of {header['count']} samples are there; the run was interrupted",
                RUN_AGAIN + " (it goes on where it stopped)",
            ),
        )
    return [line.value for line in lines]


def aligned_columns(samples: Sequence[dict]) -> dict[str, list]:
    """The gold columns as lists aligned with the samples; a column that a sample lacks is None there."""
    names = sorted({name for sample in samples for name in sample["columns"]})
    return {name: [sample["columns"].get(name) for sample in samples] for name in names}


def _problems(lines: Sequence[Line]) -> list[str]:
    """What is wrong with each line, or an empty text. An id is that of its prompt and completion, so a changed text is found."""
    said = [line.problem or _shape_problem(line.value) for line in lines]
    whole = [line.value for line, problem in zip(lines, said, strict=True) if not problem]
    ids = iter(sample_ids([(row["prompt"], row["completion"]) for row in whole]))
    return [
        problem or ("" if line.value["sample_id"] == next(ids) else "its sample_id is not that of its prompt and completion, or the line is doubled")
        for line, problem in zip(lines, said, strict=True)
    ]


def _shape_problem(row: dict) -> str:
    tokens, batch = row.get("tokens"), row.get("batch")
    bad = [name for name in ("sample_id", "finish") if not isinstance(row.get(name), str)]
    bad += [name for name in ("prompt", "completion") if not isinstance(row.get(name), str | list)]
    bad += ["prompt_index"] if type(row.get("prompt_index")) is not int else []
    bad += ["columns"] if not isinstance(row.get("columns"), dict) else []
    bad += ["tokens"] if tokens is not None and type(tokens) is not int else []
    bad += ["batch"] if batch is not None and not (isinstance(batch, list) and [type(x) for x in batch] == [int, int]) else []
    return f"not a sample: {', '.join(bad)} missing or of the wrong kind" if bad else ""


def _whole_batches(rows: list[dict]) -> list[dict]:
    """Leave out the last batch unless all of it is there; `batch` is [number of its first sample, size]."""
    if not rows or rows[-1].get("batch") is None:
        return rows
    start, size = rows[-1]["batch"]
    return rows if len(rows) == start + size else rows[:start]
