"""Prompts and gold columns from a file or the hub, as plain rows.

A row is a dict with `prompt` (text, or a list of messages) and the gold columns the rewards read. Inspection and training
see the same values: nested columns are JSON text in both, because Arrow would fill the missing keys of a dict with nulls.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.data_files import SHOWN, numbers, read_source, row_number
from grpo_rlvr.data_split import held_out_rows
from grpo_rlvr.errors import GoldError, Problem, UserError
from grpo_rlvr.other_data import refuse_other_data
from grpo_rlvr.prompt_lengths import Unmeasured, short_enough

# TRL passes these to every reward itself; a column of the same name is lost or makes the call fail.
RESERVED_COLUMNS = (
    "self",
    "rewards",
    "prompts",
    "completions",
    "completion",
    "completion_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
    "environments",
)
ROW_ID = "row_id"


def load_rows(config: Config, split: str, limit: int | None = None, unmeasured: list[Unmeasured] | None = None) -> list[dict[str, Any]]:
    """Read the `train` or `eval` rows of the config, renamed by `data.columns` and checked.

    Args:
        split: "train" or "eval". "eval" without `data.eval` gives an empty list.
        limit: keep only the first rows; the checks cover the rows that are kept.
        unmeasured: takes up what `data.max_prompt_tokens` could not be applied to for want of the tokenizer, in the place of an error.

    Returns:
        Rows in file order, each with `row_id` ("train:0", ..., the number is that in the source), `prompt` and the other columns.

    Raises:
        UserError: no such file, no rows, a missing column, an empty prompt, a reserved column name; all problems at once.
    """
    return _load(config, split, limit, unmeasured)[0]


def raw_lines(config: Config, split: str) -> list[str]:
    """The rows of a split as JSON lines, in the order of `load_rows` and as they stand in the file: a line of a .jsonl file is copied."""
    source = _source(config, split)
    path = config.resolve(source)
    if path.suffix.lower() == ".jsonl" and path.is_file():
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    else:
        lines = [json.dumps(row, ensure_ascii=False, default=str) for row in read_source(config, source, f"data.{split}")]
    return [lines[i] for i in _load(config, split)[1]]


def rows_in_source(config: Config, split: str) -> tuple[list[int], list[dict[str, Any]]]:
    """Where each row of `load_rows` stands in its source, from 0, and all rows of that: a split and `max_prompt_tokens` leave some out.

    Those have our column names, values as in the source, and prompts as in training.
    """
    _, at, every = _load(config, split)
    return at, [{**row, "prompt": _as_asked(config, row["prompt"])} for row in every]


def _source(config: Config, split: str) -> str | None:
    return config.data.eval if split == "eval" and config.data.eval_split is None else config.data.train


def _load(
    config: Config, split: str, limit: int | None = None, unmeasured: list[Unmeasured] | None = None
) -> tuple[list[dict[str, Any]], list[int], list[dict[str, Any]]]:
    """The rows, where in the source each stands, and all that the source has."""
    source = _source(config, split)
    if source is None:
        return [], [], []
    place = f"data.{split}"
    every = _renamed_rows(config, source, place)
    at = _chosen(config, split, every, place)[:limit]
    rows = [dict(every[i]) for i in at]
    _check_prompts(rows, place)
    if config.data.system_prompt is not None:
        rows = [{**row, "prompt": _as_asked(config, row["prompt"])} for row in rows]
    if config.data.max_prompt_tokens is not None:
        kept = short_enough(config, rows, place, unmeasured)
        if not kept:
            message = f"all {len(rows)} prompts have more than max_prompt_tokens {config.data.max_prompt_tokens} tokens"
            raise UserError("data", Problem(place, message, "raise data.max_prompt_tokens"))
        rows, at = [rows[i] for i in kept], [at[i] for i in kept]
    _plain_columns(rows, [*every, *_other_split(config, split)])
    return [{ROW_ID: f"{split}:{i}", **row} for i, row in zip(at, rows, strict=True)], at, every


def _renamed_rows(config: Config, source: str, place: str) -> list[dict[str, Any]]:
    """All rows of a source, under our names."""
    rows = read_source(config, source, place)
    if not rows:
        raise UserError("data", Problem(place, f"{source} holds no rows", "each row needs at least a prompt and the columns that the rewards read"))
    refuse_other_data(config, rows, place)
    return _rename(rows, dict(config.data.columns), place)


def _chosen(config: Config, split: str, rows: list[dict], place: str) -> list[int]:
    """Which rows of the source belong to this split."""
    if config.data.eval_split is None:
        return list(range(len(rows)))
    _check_prompts(rows, place)
    held_out = held_out_rows(rows, config.data.eval_split, config.data.split_seed)
    if not held_out:
        raise UserError("data", Problem("data.eval_split", "the data has a single prompt: it cannot be split", "name other rows with data.eval"))
    return held_out if split == "eval" else sorted(set(range(len(rows))) - set(held_out))


def check_rows(rewards: Sequence, rows: Sequence[dict], place: str = "data.train") -> None:
    """Refuse rows whose gold a reward cannot read, naming their numbers (0-based) and the reason.

    Args:
        rewards: what `rewards.build_rewards` returned.

    Raises:
        UserError: a column that a reward needs is missing.
        GoldError: gold that a reward cannot read.
    """
    columns = set().union(*(row.keys() for row in rows))
    absent = [(r, c) for r in rewards for c in r.columns if c not in columns]
    if absent:
        names = sorted(columns - {ROW_ID, "prompt"})
        have = ", ".join(names) or "none"
        problems = []
        for reward, column in absent:
            close = difflib.get_close_matches(column, names, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            fix = f"{hint}Add it, or map it: data.columns: {{{column}: <name in the file>}}"
            problems.append(Problem(place, f"reward '{reward.name}' needs the column '{column}'; the data has: {have}", fix))
        raise UserError("data", problems)
    problems = []
    for reward in rewards:
        bad: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            reason = reward.gold_problem(row)
            if reason is not None:
                bad.setdefault(reason, []).append(row_number(row, i))
        problems += [
            Problem(f"{place} {numbers(where)}", f"reward '{reward.name}': {reason}", "mend or remove these rows") for reason, where in bad.items()
        ]
    if problems:
        more = len(problems) - SHOWN
        raise GoldError(problems[:SHOWN] + ([Problem(place, f"and {more} more kinds of unreadable gold")] if more > 0 else []))
    _try(rewards, rows[:2])


def _try(rewards: Sequence, rows: Sequence[dict]) -> None:
    """Call each reward once as TRL would, on empty completions, before anything slow: a function that cannot run says so now."""
    from grpo_rlvr.rewards.scoring import score_all

    for reward in rewards:
        if callable(getattr(reward.function, "prepare", None)):
            reward.function.prepare()
    completions = ["" if isinstance(row["prompt"], str) else [{"role": "assistant", "content": ""}] for row in rows]
    columns = {name: [row.get(name) for row in rows] for name in set().union(*(row.keys() for row in rows)) - {"prompt"}}
    score_all(list(rewards), completions, prompts=[row["prompt"] for row in rows], completion_ids=[[0]] * len(rows), **columns)


def to_dataset(rows: Sequence[dict]):
    """The rows as a `datasets.Dataset`, column types as Arrow infers them."""
    from datasets import Dataset

    # TRL takes any 'image(s)' column, even one full of None, for a multimodal run.
    kept = [{k: v for k, v in row.items() if k not in ("image", "images")} for row in rows]
    try:
        return Dataset.from_list(kept)
    except Exception as exc:  # pyarrow's own errors, of many types
        message = f"Arrow cannot hold the rows: {type(exc).__name__}: {str(exc)[:200]}"
        raise UserError("data", Problem("data", message, "bring each column, and the keys of the messages, to one type")) from exc


def _rename(rows: list[dict], columns: dict[str, str], place: str) -> list[dict]:
    present = set().union(*(row.keys() for row in rows))
    problems = [
        Problem(f"data.columns.{ours}", f"the data has no column '{theirs}'; it has: {', '.join(sorted(map(str, present)))}")
        for ours, theirs in columns.items()
        if theirs not in present
    ]
    back = {theirs: ours for ours, theirs in columns.items()}
    renamed = [{back.get(k, k): v for k, v in row.items() if k in back or k not in columns} for row in rows]
    names = set().union(*(row.keys() for row in renamed))
    if "prompt" not in names and not problems:
        have = ", ".join(sorted(map(str, names)))
        problems.append(
            Problem(place, f"no column 'prompt'; the data has: {have}", "rename it, or map it: data.columns: {prompt: <name in the file>}")
        )
    problems += [
        Problem(place, f"the column name '{c}' is reserved by TRL", f"map it to another name: data.columns: {{my_{c}: {c}}}")
        for c in (*RESERVED_COLUMNS, ROW_ID)
        if c in names
    ]
    if problems:
        raise UserError("data", problems)
    return renamed


def _check_prompts(rows: list[dict], place: str) -> None:
    bad: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        reason = _prompt_problem(row.get("prompt")) or _image_problem(row)
        if reason:
            bad.setdefault(reason, []).append(i)
    if not bad and len({isinstance(row["prompt"], str) for row in rows}) > 1:
        bad["some prompts are text and some are messages; TRL needs one format"] = [i for i, r in enumerate(rows) if isinstance(r["prompt"], str)]
    if not bad:
        contents = [{type(m["content"]) for m in row["prompt"]} if isinstance(row["prompt"], list) else {str} for row in rows]
        if len(set().union(*contents)) > 1:
            bad["some message contents are text and some are lists of parts; Arrow holds one kind"] = [i for i, c in enumerate(contents) if list in c]
    if bad:
        raise UserError(
            "data",
            [Problem(f"{place} {numbers(where)}", reason, "a prompt is text or a list of {role, content} messages") for reason, where in bad.items()],
        )


def _prompt_problem(prompt: object) -> str | None:
    if isinstance(prompt, str):
        if any("\ud800" <= c <= "\udfff" for c in prompt):
            return "the prompt holds half a surrogate pair"
        return None if prompt.strip() else "the prompt is empty"
    if not isinstance(prompt, list):
        return f"the prompt is {'missing' if prompt is None else 'a ' + type(prompt).__name__}"
    if not prompt:
        return "the prompt has no messages"
    if not all(isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str | list) for m in prompt):
        return "a message of the prompt lacks role or content"
    try:
        json.dumps(prompt, ensure_ascii=False).encode()
    except (UnicodeEncodeError, TypeError, RecursionError):
        return "the prompt holds something that is no text (half a surrogate pair, or an odd object)"
    return None


def _image_problem(row: Mapping[str, Any]) -> str | None:
    """Training here is for text models: a picture that is left out would leave a question nobody can answer."""
    columns = [name for name in ("image", "images") if row.get(name) not in (None, [], "")]
    parts = [p for m in row["prompt"] if isinstance(m["content"], list) for p in m["content"]] if isinstance(row["prompt"], list) else []
    if columns or any(isinstance(p, dict) and p.get("type") in ("image", "image_url", "video", "audio") for p in parts):
        where = f"column {columns[0]}" if columns else "a part of a message"
        return f"the row holds a picture or a sound ({where}), and training here is for text models (for others use TRL's GRPOTrainer directly)"
    return None


def _as_asked(config: Config, prompt: str | list[dict]) -> str | list[dict]:
    """The prompt with the system prompt of the config, if there is one."""
    text = config.data.system_prompt
    if text is None:
        return prompt
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return messages if messages[0]["role"] == "system" else [{"role": "system", "content": text}, *messages]


def _other_split(config: Config, split: str) -> list[dict]:
    """The rows of the other split: a column is text in both or in neither, or a reward would see two types of the same gold."""
    other = "eval" if split == "train" else "train"
    source = _source(config, other)
    if source is None or config.data.eval_split is not None:
        return []
    return _renamed_rows(config, source, f"data.{other}")


def _plain_columns(rows: list[dict], all_rows: list[dict]) -> None:
    """Bring each gold column to one type that Arrow gives back unchanged.

    Nested values become JSON text; so does everything but text in a column of several types (of 3 and 2.5 Arrow would make 3.0
    and 2.5), and what Arrow has no type for (dates of a Parquet file, integers above 64 bits).
    """
    for name in sorted(set().union(*(row.keys() for row in rows)) - {"prompt"}):
        plain = _one_plain_type([row.get(name) for row in all_rows])
        for row in rows:
            value = row.get(name)
            encode = value is not None and not isinstance(value, str) and not plain
            row[name] = json.dumps(value, ensure_ascii=False, default=str) if encode else value


def _one_plain_type(values: list) -> bool:
    kinds = {type(v) for v in values if v is not None}
    if kinds == {list}:
        return _one_plain_type([x for v in values if v is not None for x in v]) and not any(isinstance(x, list) for v in values if v for x in v)
    if kinds == {int}:
        return all(v is None or -(2**63) <= v < 2**63 for v in values)
    return len(kinds) == 0 or (len(kinds) == 1 and kinds <= {str, float, bool})
