"""Which row of the data a line of recorded completions answers: by number, by a column that both have (`--match`), or by its prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grpo_rlvr.cli import say
from grpo_rlvr.data_files import numbers
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import Line, canonical
from grpo_rlvr.inspection.source import Source, join_key

OWN_KEYS = {"prompt", "prompt_index", "completion", "finish", "tokens"}
SHOWN = 10
Out = list[tuple[str, int]]  # (why it does not train, the row's number) of each line that is left out


def matched(lines: Sequence[Line], column: str, source: Source, name: str) -> tuple[list[Line], Out]:
    """The lines with `prompt_index` (the number in the file) in the place of `column`, and what answers rows of `data.eval`.

    Raises:
        UserError: the column is one of the format's own, the data lacks it or has a value twice, a line lacks it or has a value that no
            row has, or names another row by `prompt_index`.
    """
    if column in OWN_KEYS:
        raise UserError("completions", Problem("--match", f"{column} is one of the format's own keys", "name a column of the data"))
    by_value, evaluated = source.by_value(column), source.evaluated_by_value(column)
    kept, out, absent, unknown, problems = [], [], [], [], []
    for line in lines:
        if line.problem:
            kept.append(line)
            continue
        key = join_key(line.value.get(column))
        if key is None:
            absent.append(line)
        elif key not in by_value:
            out.append(evaluated[key]) if key in evaluated else unknown.append(key)
        elif line.value.get("prompt_index", by_value[key]) != by_value[key]:
            message = f"prompt_index is {line.value['prompt_index']!r}, and its {column!r} is that of row {by_value[key]}"
            problems.append(Problem(place(name, line), message, "mend one of the two, or leave out --match"))
        else:
            rest = {k: v for k, v in line.value.items() if k != column}  # the data's own value stays
            kept.append(Line(line.number, line.raw, {**rest, "prompt_index": by_value[key]}))
    of = f"of {len(lines)} completions in {name}"
    if absent:
        message = f"{len(absent)} {of} have no {column!r}: {_some(place('', line) for line in absent)}"
        problems.append(Problem("--match", message, "give each line one, or name another column"))
    if unknown:
        values = list(dict.fromkeys(unknown))
        message = f"{len(values)} values of {column!r} ({len(unknown)} {of}) are in no row of the data: {_some(repr(v[:60]) for v in values)}"
        limit = source.data.limit
        fix = "take these lines out, or give the data that was sampled" + (f" (data.limit {limit} reads its first rows only)" if limit else "")
        problems.append(Problem("--match", message, fix))
    if problems:
        raise UserError("completions", problems[:SHOWN])
    return kept, out


def placed(lines: Sequence[Line], out: Out, source: Source, rows: Sequence[dict], name: str) -> list[Line]:
    """The lines with `prompt_index` as the number among the training rows; without those of rows that are held out or too long.

    Args:
        out: of what was left out before.

    Raises:
        UserError: nothing is left.
    """
    kept, out, total = [], list(out), len(lines) + len(out)
    known = None
    for line in lines:
        number = None if line.problem else line.value.get("prompt_index")
        if number is None and not line.problem and "prompt_index" not in line.value:
            known = {canonical(row["prompt"]) for row in rows} if known is None else known
            prompt = canonical(line.value.get("prompt"))
            if prompt not in known and (why := source.left_out_prompts.get(prompt)):
                out.append(why)
                continue
        elif source.leaves_out and type(number) is int and 0 <= number < len(source.rows):
            if number not in source.ours:
                out.append(source.left_out(number))
                continue
            line = Line(line.number, line.raw, {**line.value, "prompt_index": source.ours[number]})
        kept.append(line)
    if out:
        said = f"{len(out)} of {total} completions in {name} answer rows that are {_reasons(out)}"
        if not kept:
            fix = f"record completions of training rows ({_some(map(str, source.ours))}), or change data:"
            raise UserError("completions", Problem("--completions", f"{said}: none is left", fix))
        say(f"{said}; left out (if too few are left, record completions of training rows)")
    return kept


def place(name: str, line: Line) -> str:
    return f"{name} {'row' if line.raw is None else 'line'} {line.number}".strip()


def _reasons(out: Out) -> str:
    """'held out (data.eval_split: rows 3, 5 (from 0))'."""
    settings = dict.fromkeys(setting for setting, _ in out)
    words = dict.fromkeys("too long" if setting == "data.max_prompt_tokens" else "held out" for setting in settings)
    where = "; ".join(f"{setting}: {numbers(sorted({n for s, n in out if s == setting}))}" for setting in settings)
    return f"{' or '.join(words)} ({where})"


def _some(words: Iterable[str]) -> str:
    words = list(words)
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")
