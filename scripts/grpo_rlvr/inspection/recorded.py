"""Completions recorded elsewhere (by a server, an earlier run, by hand) in the place of sampled ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_rlvr.cli import say
from grpo_rlvr.completions import completion_text
from grpo_rlvr.config import Config
from grpo_rlvr.data import places_in_source
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.fingerprint import differences, same
from grpo_rlvr.inspection.jsonl import Line, canonical, read_lines, sha256
from grpo_rlvr.inspection.model_files import model_part
from grpo_rlvr.inspection.samples import append_samples, load_samples, make_header, peek_header, sample_ids, start_samples
from grpo_rlvr.inspection.tables import is_table, of_training, read_parquet

FORMAT = """FILE.jsonl, one JSON object a line (or FILE.parquet with the same columns, or a table that TRL wrote with log_completions):
  "completion"    what the model wrote: text, or a list of messages (needed); rewards get it as in training, in the prompt's form
  "prompt_index"  number of the row of data.train that it answers, from 0 as in the file; or
  "prompt"        the prompt itself, text or messages; without gold columns in the line,
                  those of the training row with this prompt are taken
  "finish"        "stop", "length" or "unknown" (if left out)
  "tokens"        length of the completion in tokens, if known
  any other key   a gold column, used instead of the training row's"""
OWN_KEYS = {"prompt", "prompt_index", "completion", "finish", "tokens"}
SHOWN = 20


def import_recorded(path: Path, config: Config, rewards: Sequence, rows: Sequence[dict]) -> list[dict]:
    """Check a file of recorded completions, write it as the inspection's `samples.jsonl` and return the samples.

    Raises:
        UserError: the file is missing, empty, or has bad lines (all of them, with their numbers); nothing is written then.
    """
    left_out = config.data.eval_split is not None or config.data.max_prompt_tokens is not None
    samples = read_recorded(path, rewards, rows, places_in_source(config, "train") if left_out else None)
    fingerprint = {
        "file": hashlib.sha256(path.read_bytes()).hexdigest(),
        "samples": _digest(samples),
        "model": model_part(config),
        "rows": {str(i): _row_hash(rows[i]) for i in sorted({s["prompt_index"] for s in samples}) if i < len(rows)},
    }
    header = make_header({"source": "recorded"}, fingerprint, len(samples))
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
    said = dict.fromkeys(message for s in samples if (message := _column_problem(s["columns"], rewards)))
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
    changed = sum(int(i) >= len(rows) or _row_hash(rows[int(i)]) != digest for i, digest in known.items())
    return [*said, *([f"{changed} of the {len(known)} training rows that they answer changed (prompt, system prompt or gold)"] if changed else [])]


def unknown_prompts(samples: Sequence[dict], rows: Sequence[dict]) -> int:
    """How many samples answer a prompt that the training data does not have."""
    known = {canonical(row["prompt"]) for row in rows}
    return sum(canonical(s["prompt"]) not in known for s in samples)


def read_recorded(path: Path, rewards: Sequence, rows: Sequence[dict], places: tuple[Sequence[int], int] | None = None) -> list[dict]:
    """The samples of a file in the format of `FORMAT`, every line checked.

    Args:
        places: as `data.places_in_source` returns them, where `rows` are not all rows of the file. Completions of the others are left out.
    """
    if not path.is_file():
        fix = "a table in it, or --from-run for a run in progress" if path.is_dir() else "give a .jsonl or .parquet file"
        raise UserError("completions", Problem("--completions", f"there is no file {path}" if not path.is_dir() else f"{path} is a folder", fix))
    lines = _parquet_lines(path, rows) if path.suffix.lower() == ".parquet" else read_lines(path)
    if not lines:
        raise UserError("completions", Problem("--completions", f"{path} is empty", FORMAT))
    if places is not None:
        lines = _numbered_as_rows(lines, *places, path.name)
    return checked_samples(lines, path.name, rewards, rows)


def checked_samples(lines: Sequence[Line], name: str, rewards: Sequence, rows: Sequence[dict]) -> list[dict]:
    """Samples of lines in the format of `FORMAT`; a UserError names every bad one. `name` is the file's, for messages."""
    by_prompt = {canonical(row["prompt"]): i for i, row in reversed(list(enumerate(rows)))}
    new_prompts: dict[str, int] = {}
    problems, samples = [], []
    for line in lines:
        message = line.problem or _line_problem(line.value, len(rows))
        sample = None
        if not message:
            sample = _sample(_whole_characters(line.value), rows, by_prompt, new_prompts)
            message = _column_problem(sample["columns"], rewards)
        if message:
            problems.append(Problem(f"{name} {'row' if line.raw is None else 'line'} {line.number}", message))
        else:
            samples.append(sample)
    if problems:
        more = [Problem(name, f"and {len(problems) - SHOWN} more lines")] if len(problems) > SHOWN else []
        raise UserError("completions", [*problems[:SHOWN], *more, Problem("", "nothing was taken over", f"the format is {FORMAT}")])
    ids = sample_ids([(s["prompt"], s["completion"]) for s in samples])
    return [{"sample_id": sample_id, **sample} for sample_id, sample in zip(ids, samples, strict=True)]


def _numbered_as_rows(lines: Sequence[Line], at: Sequence[int], total: int, name: str) -> list[Line]:
    """The lines with `prompt_index` as the number in our rows; without those of rows that are held out or too long."""
    ours = {number: i for i, number in enumerate(at)}
    kept = []
    for line in lines:
        number = None if line.problem else line.value.get("prompt_index")
        if type(number) is not int or not 0 <= number < total:
            kept.append(line)
        elif number in ours:
            kept.append(Line(line.number, line.raw, {**line.value, "prompt_index": ours[number]}))
    if len(kept) < len(lines):
        say(f"{len(lines) - len(kept)} of {len(lines)} completions in {name} answer rows that are held out or too long (data:); left out")
    if not kept:
        raise UserError("completions", Problem("--completions", f"all completions in {name} answer rows that are held out or too long", ""))
    return kept


def _parquet_lines(path: Path, rows: Sequence[dict]) -> list[Line]:
    """The rows of a Parquet file as lines. Null means not given for our own keys, since a column cannot be absent in one row."""
    table = read_parquet(path)
    if is_table(table):
        found = of_training(table, rows)
        if not found.rows:
            fix = "the table may be of an evaluation (TRL writes those too) or of other data; take another step's"
            raise UserError("completions", Problem("--completions", f"no row of {path.name} answers a prompt of the training data", fix))
        if len(found.rows) < len(table):
            say(f"{len(table) - len(found.rows)} of {len(table)} rows of {path.name} answer no training prompt, or one with two golds; left out")
        table = found.rows
    return [Line(number, None, {k: v for k, v in row.items() if v is not None or k not in OWN_KEYS}) for number, row in enumerate(table)]


def _whole_characters(row: dict) -> dict:
    """Half a surrogate pair, which JSON can hold and no tokenizer writes, becomes the replacement character."""
    return json.loads(json.dumps(row, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _line_problem(row: dict, count: int) -> str:
    said = [_completion_problem(row.get("completion"))]
    index, finish, tokens = row.get("prompt_index"), row.get("finish", "unknown"), row.get("tokens")
    if "prompt_index" in row:
        if not isinstance(index, int) or isinstance(index, bool):
            said.append(f"prompt_index is {index!r}, not a row number")
        elif not 0 <= index < count:
            said.append(f"prompt_index is {index}, but the training data has {count} rows, numbered from 0")
    elif not isinstance(row.get("prompt"), str | list) or not row["prompt"]:
        said.append("neither a prompt nor a prompt_index" if "prompt" not in row else "the prompt is neither text nor a list of messages, or empty")
    if finish not in ("stop", "length", "unknown"):
        said.append(f"finish is {finish!r}, not stop, length or unknown")
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0):
        said.append(f"tokens is {tokens!r}, not a count")
    return "; ".join(s for s in said if s)


def _completion_problem(completion: object) -> str:
    if isinstance(completion, str):
        return ""
    if isinstance(completion, list) and completion and all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in completion):
        return "" if any(m["role"] == "assistant" for m in completion) else "the completion has no assistant message"
    return "no completion" if completion is None else "the completion is neither text nor a list of messages"


def _as_in_training(completion: str | list[dict], prompt: str | list[dict]) -> str | list[dict]:
    """The form in which training will hand it to the rewards: text for a text prompt, messages for a prompt of messages."""
    if isinstance(prompt, list) and isinstance(completion, str):
        return [{"role": "assistant", "content": completion}]
    if isinstance(prompt, str) and not isinstance(completion, str):
        return completion_text(completion)
    return completion


def _sample(row: dict, rows: Sequence[dict], by_prompt: dict[str, int], new_prompts: dict[str, int]) -> dict:
    own = {k: v for k, v in row.items() if k not in OWN_KEYS}
    index = row["prompt_index"] if "prompt_index" in row else by_prompt.get(canonical(row["prompt"]))
    if index is None:  # a prompt that the training data does not have: numbered after its rows
        prompt, base = row["prompt"], {}
        index = new_prompts.setdefault(canonical([prompt, own]), len(rows) + len(new_prompts))
    else:
        prompt, base = rows[index]["prompt"], {k: v for k, v in rows[index].items() if k != "prompt"}
    prompt = row.get("prompt", prompt)
    return {
        "prompt_index": index,
        "prompt": prompt,
        "completion": _as_in_training(row["completion"], prompt),
        "columns": {**base, **own},
        "finish": row.get("finish", "unknown"),
        "tokens": row.get("tokens"),
    }


def _column_problem(columns: dict, rewards: Sequence) -> str:
    said = []
    for reward in rewards:
        absent = [c for c in reward.columns if c not in columns]
        if absent:
            said.append(f"reward '{reward.name}' needs the column{'s' if len(absent) > 1 else ''} {', '.join(absent)}")
        elif reason := reward.gold_problem(columns):
            said.append(f"reward '{reward.name}': {reason}")
    return "; ".join(dict.fromkeys(said))


def _row_hash(row: dict) -> str:
    return sha256(row)[:16]


def _digest(samples: Sequence[dict]) -> str:
    return hashlib.sha256(canonical(list(samples)).encode()).hexdigest()
