"""Honest completions with other looks: what a model may write without being wrong must keep its score."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.mutate import json_spans, replaced
from grpo_rlvr.inspection.probes.findings import attack_example, finding
from grpo_rlvr.inspection.probes.shape import shape_of
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread

MOST = 40
DROP = 0.10  # of the total; a price on length may take a little
MINUS = "\N{MINUS SIGN}"
THOUGHT = "Let me think about this step by step. "
RARE = ("the token <|im_end|> at the end", "the token <|endoftext|> at the end", "CRLF line ends")  # the trainer drops the tokens
SURE = ("a line feed at the end", "blanks at the end", "a line feed in front", "a longer reasoning", "JSON with other white space")


def rewrite_trials(subject: Subject) -> list[Trial]:
    """Honest rewritings of accepted completions."""
    return [trial for i in spread(subject.distinct, MOST) for trial in _of_one(subject, i)]


def honest_rewriting(subject: Subject, trials: Sequence[Trial], rows: Sequence[dict | UserError]) -> dict:
    """The finding: a warning that names what is punished, what is surely honest first. Never an error: nothing is won by it."""
    punished = [k for k, (trial, row) in enumerate(zip(trials, rows, strict=True)) if _punished(subject, trial, row)]
    if not trials:
        return finding("honest_rewriting", "ok", "no accepted completion to rewrite")
    if not punished:
        return finding("honest_rewriting", "ok", f"{len(trials)} honest rewritings keep their score", None, len(trials))
    tried = {what: sum(t.what == what for t in trials) for what in dict.fromkeys(t.what for t in trials)}
    counts = {what: sum(trials[k].what == what for k in punished) for what in tried}
    order = sorted((w for w in counts if counts[w]), key=lambda what: (what not in SURE, what in RARE, -counts[what]))
    named = ", ".join(f"{what} ({counts[what]} of {tried[what]})" for what in order)
    if all(what in RARE for what in order):
        message = f"{len(trials) - len(punished)} of {len(trials)} honest rewritings keep their score; rare ones that do not: {named}"
        return finding("honest_rewriting", "ok", message, None, len(trials), len(punished))
    graded = "honest completions are punished" if order[0] in SURE else "honest completions may be punished, if you want to allow this"
    k = min((k for k in punished if trials[k].what == order[0]), key=lambda k: subject.size(trials[k]))
    trial = trials[k]
    example = attack_example(subject.samples[trial.of], subject.scores[trial.of], trial.completion, rows[k], trial.old, trial.new, trial.what)
    message = f"{len(punished)} of {len(trials)} rewritings lose reward: {named}; {graded}"
    return finding("honest_rewriting", "warning", message, example, len(trials), len(punished))


def _of_one(subject: Subject, i: int) -> Iterator[Trial]:
    text, completion = subject.text(i), subject.samples[i]["completion"]
    if not text:
        return
    spans = json_spans(text)
    tries = {
        "a line feed at the end": text + "\n",
        "blanks at the end": text + "  ",
        "a line feed in front": "\n" + text,
        "the token <|im_end|> at the end": text + "<|im_end|>",
        "the token <|endoftext|> at the end": text + "<|endoftext|>",
        "CRLF line ends": re.sub(r"(?<!\r)\n", "\r\n", text),
        "a longer reasoning": _longer(subject, text),
        "JSON with other white space": _spaced(text, [(a, b) for a, b in spans if text[a:b] == text.strip() or subject.kind == "calls"]),
    }
    shape = None if subject.kind in ("code", "calls", "schema") or spans else shape_of(text, subject.answers(i))
    if shape is not None and shape.closed and shape.left.strip():
        tries["blanks around the answer"] = shape.text(f" {shape.answer} ")
        if "<answer>" in shape.left:
            tries["line feeds around the answer"] = shape.text(f"\n{shape.answer}\n")
    if shape is not None and re.match(r"-\d", shape.answer):
        tries["a typographic minus"] = shape.text(MINUS + shape.answer[1:])
    for what, new in tries.items():
        if new is not None and new != text:
            yield Trial(i, replaced(completion, new) if isinstance(completion, str) else _last(completion, new), "honest_rewriting", what, odd=True)


def _longer(subject: Subject, text: str) -> str | None:
    """More reasoning where there is some."""
    opened = f"<{subject.tag}>"
    return text.replace(opened, opened + THOUGHT, 1) if opened in text else None


def _spaced(text: str, spans: Sequence[tuple[int, int]]) -> str | None:
    for start, end in spans:
        try:
            return text[:start] + json.dumps(json.loads(text[start:end]), indent=1, ensure_ascii=False) + text[end:]
        except (ValueError, RecursionError):
            continue
    return None


def _last(completion: list[dict], text: str) -> list[dict]:
    """The messages with another text in the last assistant turn; calls stay, for the meaning does."""
    last = max(i for i, m in enumerate(completion) if m.get("role") == "assistant")
    return [{**m, "content": text} if i == last else dict(m) for i, m in enumerate(completion)]


def _punished(subject: Subject, trial: Trial, row: dict | UserError) -> bool:
    before = subject.scores[trial.of]["total"]
    if not isinstance(row, dict):
        return False  # a finding of its own
    if row["verdict"] is not True:
        return True
    return row["total"] is None or (before is not None and row["total"] < before - max(1e-6, DROP * abs(before)))
