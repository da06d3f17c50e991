"""Completions recorded elsewhere (by a server, an earlier run, by hand) in the place of sampled ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.config import Config
from grpo_rlvr.data import ROW_ID, load_rows
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.fingerprint import differences, same
from grpo_rlvr.inspection.jsonl import canonical, sha256
from grpo_rlvr.inspection.model_files import model_part
from grpo_rlvr.inspection.recorded_file import read_file
from grpo_rlvr.inspection.recorded_lines import column_problem
from grpo_rlvr.inspection.samples import append_samples, load_samples, make_header, peek_header, start_samples
from grpo_rlvr.inspection.source import Source

SHOWN = 20


def import_recorded(path: Path, config: Config, rewards: Sequence, rows: Sequence[dict], match: str | None = None) -> list[dict]:
    """Check a file of recorded completions, write it as the inspection's `samples.jsonl` and return the samples.

    Args:
        match: the column that names the data row of a line; None means `prompt_index` or the prompt.

    Raises:
        UserError: the file is missing, empty, or has bad lines (all of them, with their numbers); nothing is written then.
    """
    recorded = read_file(path, rewards, rows, Source(config), match)
    samples = recorded.samples
    fingerprint = {
        "file": hashlib.sha256(path.read_bytes()).hexdigest(),
        "samples": _digest(samples),
        "model": model_part(config),
        "rows": {str(i): _row_hash(rows[i]) for i in sorted({s["prompt_index"] for s in samples}) if i < len(rows)},
    }
    header = make_header({"source": "recorded", **({} if recorded.step is None else {"step": recorded.step})}, fingerprint, len(samples))
    there = start_samples(config.inspection_folder, header, lambda number, sample: same(sample, samples[number]))
    append_samples(config.inspection_folder, samples[len(there) :])
    return samples


def recorded_before(config: Config, rewards: Sequence, rows: Sequence[dict]) -> list[dict] | None:
    """The recorded completions that the inspection folder holds, for a reward that is to score them anew; None if it holds none.

    Raises:
        UserError: they were recorded for other inputs, the file is damaged, or a reward needs a column that they lack.
    """
    header = peek_header(config.inspection_folder)
    if header is None or not isinstance(header.get("sampling"), Mapping) or header["sampling"].get("source") != "recorded":
        return None
    fix = "run again with --completions FILE, or with --redraw to draw from the model"
    if changed := what_changed(header, config, rows):
        raise UserError("completions", Problem("samples.jsonl", f"it holds completions recorded for other inputs: {'; '.join(changed)}", fix))
    samples = load_samples(config.inspection_folder)
    said = dict.fromkeys(message for s in samples if (message := column_problem(s["columns"], rewards)))
    if said:
        raise UserError("completions", [Problem("samples.jsonl", f"of the recorded completions: {message}", fix) for message in list(said)[:SHOWN]])
    say(f"scoring the {len(samples)} recorded completions that are there; --redraw draws from the model instead")
    return samples


def what_changed(header: Mapping, config: Config, rows: Sequence[dict]) -> list[str]:
    """What recorded completions were imported for and is no longer so, in words: the model, the training rows they answer."""
    before = header.get("fingerprint") or {}
    said = differences({"model": before.get("model")}, {"model": model_part(config)})
    known = before.get("rows")
    if not isinstance(known, Mapping):
        return [*said, "which training rows they answer was not noted"]
    changed = [digest for i, digest in known.items() if int(i) >= len(rows) or _row_hash(rows[int(i)]) != digest]
    return [*said, *(_row_changes(changed, len(known), config, rows) if changed else [])]


def _row_changes(digests: Sequence[str], of: int, config: Config, rows: Sequence[dict]) -> list[str]:
    """Why rows are no longer where they were: held out since, at another place among the training rows, or changed."""
    today = {_row_hash(row) for row in rows}
    since = load_rows(config, "eval") if config.data.eval_split is not None else []
    held_out = {_row_hash({**row, ROW_ID: row[ROW_ID].replace("eval:", "train:")}) for row in since}
    out, moved = sum(d in held_out for d in digests), sum(d in today for d in digests)
    counts = {
        "are held out now (data.eval_split)": out,
        "stand elsewhere among the training rows now": 0 if out else moved,
        "changed (prompt, system prompt or gold)": len(digests) - out - moved,
    }
    return [f"{count} of the {of} training rows that they answer {what}" for what, count in counts.items() if count]


def unknown_prompts(samples: Sequence[dict], rows: Sequence[dict]) -> int:
    """How many samples answer a prompt that the training data does not have."""
    known = {canonical(row["prompt"]) for row in rows}
    return sum(canonical(s["prompt"]) not in known for s in samples)


def _row_hash(row: dict) -> str:
    return sha256(row)[:16]


def _digest(samples: Sequence[dict]) -> str:
    return hashlib.sha256(canonical(list(samples)).encode()).hexdigest()
