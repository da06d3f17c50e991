"""Lines of a file of recorded completions, made samples: each checked, each with the row that it answers."""

from __future__ import annotations

import json
from collections.abc import Sequence

from grpo_rlvr.completions import completion_text
from grpo_rlvr.data_files import row_number
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import Line, canonical
from grpo_rlvr.inspection.placing import OWN_KEYS, place
from grpo_rlvr.inspection.samples import sample_ids
from grpo_rlvr.inspection.source import Source

FORMAT = """FILE.jsonl, one JSON object a line (or FILE.parquet with the same columns, or a table that TRL wrote with log_completions):
  "completion"    what the model wrote: text, or a list of messages (needed); rewards get it as in training, in the prompt's form
  "prompt_index"  number of the row of data.train that it answers, from 0 as in the file; or
  COLUMN          with --match COLUMN: a value that one row of data.train has there (12 and "12" are equal); or
  "prompt"        the prompt itself, text or messages; without gold columns in the line,
                  those of the training row with this prompt are taken (beside a row's number it must be that row's)
  "finish"        "stop", "length" or "unknown" (if left out)
  "tokens"        length of the completion in tokens, if known
  "step"          of completions of a run: the step that wrote them
  any other key   a gold column, used instead of the training row's"""
SHOWN = 20
MOST_TOKENS = 2**31  # no model writes so much: a larger count is a slip, and arithmetic on it may fail


def checked_samples(lines: Sequence[Line], name: str, rewards: Sequence, rows: Sequence[dict], source: Source | None = None) -> list[dict]:
    """Samples of lines in the format of `FORMAT`; a UserError names every bad one.

    Args:
        name: the file's, for messages.
        source: where to look for a column by which lines without a row could be matched.
    """
    by_prompt = {canonical(row["prompt"]): i for i, row in reversed(list(enumerate(rows)))}
    new_prompts: dict[str, int] = {}
    problems, samples = [], []
    for line in lines:
        message = line.problem or _line_problem(line.value, len(rows)) or _row_problem(line.value, rows, by_prompt)
        sample = None
        if not message:
            sample = _sample(_whole_characters(line.value), rows, by_prompt, new_prompts)
            message = column_problem(sample["columns"], rewards)
            if message and sample["prompt_index"] >= len(rows) and any(c not in sample["columns"] for r in rewards for c in r.columns):
                message = f"no row of the training data has this prompt, and the line has no gold of its own: {message}"
        if message:
            problems.append(Problem(place(name, line), message))
        else:
            samples.append(sample)
    if problems:
        problems = _by_message(problems)
        more = [Problem(name, f"and {len(problems) - SHOWN} more problems")] if len(problems) > SHOWN else []
        fix = f"{_other_way(lines, rewards, source)}the format is {FORMAT}"
        raise UserError("completions", [*problems[:SHOWN], *more, Problem("", "nothing was taken over", fix)])
    ids = sample_ids([(s["prompt"], s["completion"]) for s in samples])
    return [{"sample_id": sample_id, **sample} for sample_id, sample in zip(ids, samples, strict=True)]


def _by_message(problems: Sequence[Problem]) -> list[Problem]:
    """One problem for all lines of which the same is to be said."""
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.message, []).append(problem)
    more = {message: f" and {len(group) - 1} more" if len(group) > 1 else "" for message, group in groups.items()}
    return [Problem(f"{group[0].where}{more[message]}", message, group[0].fix) for message, group in groups.items()]


def _other_way(lines: Sequence[Line], rewards: Sequence, source: Source | None) -> str:
    """How lines that name no row could name one: by a column that they share with the data."""
    lost = [line.value for line in lines if not line.problem and not {"prompt", "prompt_index"} & set(line.value)]
    if not lost or source is None:
        return ""
    golds = {column for reward in rewards for column in reward.columns}
    names = source.joining_columns(lost, {*OWN_KEYS, *golds})
    return f"{' or '.join(f'--match {name}' for name in names)} would find each line's row by that column; " if names else ""


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
    if tokens is not None and (type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS):
        said.append(f"tokens is {str(tokens)[:40]}, not a count from 0 to {MOST_TOKENS}")
    return "; ".join(s for s in said if s)


def _row_problem(row: dict, rows: Sequence[dict], by_prompt: dict[str, int]) -> str:
    """Of a line that names its row by number and has a prompt too: which of the two would be believed?"""
    if "prompt_index" not in row or row.get("prompt") is None:
        return ""
    index, given, own = row["prompt_index"], row["prompt"], rows[row["prompt_index"]]["prompt"]
    if not isinstance(given, str | list):
        return "the prompt is neither text nor a list of messages (beside prompt_index it may be left out)"
    if canonical(given) == canonical(own) or _asked(given) == _asked(own):
        return ""
    number, other = row_number(rows[index], index), by_prompt.get(canonical(given))
    whose = "in no row of the training data" if other is None else f"that of row {row_number(rows[other], other)}"
    return f"prompt_index says row {number}, and the prompt is {whose}: mend one of the two, or leave the prompt out"


def _asked(prompt: str | list) -> str:
    """A prompt as messages without the system message that `data.system_prompt` puts in front."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    begins = bool(messages) and isinstance(messages[0], dict) and messages[0].get("role") == "system"
    return canonical(messages[1:] if begins else messages)


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
    return {
        "prompt_index": index,
        "prompt": prompt,
        "completion": _as_in_training(row["completion"], prompt),
        "columns": {**base, **own},
        "finish": row.get("finish", "unknown"),
        "tokens": row.get("tokens"),
    }


def column_problem(columns: dict, rewards: Sequence) -> str:
    said = []
    for reward in rewards:
        absent = [c for c in reward.columns if c not in columns]
        if absent:
            said.append(f"reward '{reward.name}' needs the column{'s' if len(absent) > 1 else ''} {', '.join(absent)}")
        elif reason := reward.gold_problem(columns):
            said.append(f"reward '{reward.name}': {reason}")
    return "; ".join(dict.fromkeys(said))
