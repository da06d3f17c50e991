"""The same text in the other forms in which a completion may reach a reward, and text that nobody would write."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.completions import completion_text
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.mutate import replaced
from grpo_rlvr.inspection.probes.findings import finding, said
from grpo_rlvr.inspection.probes.subject import Subject, Trial, spread
from grpo_rlvr.rewards.scoring import own_copy
from grpo_rlvr.rewards.values import checked_values, settled

COMPARED = 16
SIZES = (500, 4_000, 32_000, 250_000, 1_000_000)  # characters
PLAUSIBLE = 32_000  # what a model can fill a completion with; longer text must not raise either, but may take its time
SLOW_S, STUCK_S, EACH_S = 1.0, 5.0, 8.0  # one text; one text, interrupted; all texts of one reward
COSTLY_S = 0.02  # a completion; such a reward may ask a paid service, and gets no more than some thousand characters
GROWN = {
    "the letter a": "a", "blanks": " ", "digits": "9", "opened answers": "<answer>", "closed answers": "</answer>", "opened reasoning": "<think>",
    "brackets": "[", "braces": '{"a":', "parentheses": "(", "boxes": "\\boxed{", "answer tags": "<answer>1</answer>", "line feeds": "\n",
    "words": "Let me go over this once more. ",
}  # fmt: skip
SELDOM = ("content parts",)  # only models that see pictures are given these
SMALL = {
    "nothing": ("", False), "white space": (" \n\t ", False), "an emoji": ("\U0001f916", False), "a lone sign": ("-", False),
    "an empty answer": ("<answer></answer>", False), "an empty box": ("\\boxed{}", False), "a NUL": ("\x00", True),
    "half a surrogate pair": ("\ud83e", True), "a bidi mark": ("\u202e51", False), "a byte order mark": ("\ufeff", False),
}  # fmt: skip


class Stuck(BaseException):
    """The reward computes without end; no `except Exception` of its may keep it."""


@dataclass(frozen=True)
class Fault:
    """A reward that raised, or gave something that is no score, on a completion of sample `of`."""

    of: int
    completion: Any
    what: str
    error: UserError
    odd: bool


def odd_input(subject: Subject) -> tuple[dict, list[Fault]]:
    """The finding about time, and what the rewards raised on; sets the subject's `slow`."""
    i = (subject.distinct or [0])[0]
    faults: list[Fault] = []
    slow: list[str] = []
    tried = 0
    for reward in subject.rewards:
        with contextlib.suppress(Stuck), _computing_at_most(STUCK_S):
            for what, (text, odd) in SMALL.items():
                tried += 1
                faults += _try(subject, reward, i, text, what, odd)
        counted, found, took = _grown(subject, reward, i)
        tried += counted
        faults += found
        slow += took
    subject.slow = bool(slow)
    if slow:
        return finding(
            "odd_input", "warning", f"{'; '.join(slow)}: a model that repeats itself would hold the training up", None, tried, len(slow)
        ), faults
    return finding("odd_input", "ok", f"{tried} broken, nested and long texts (up to 1 MB) were scored in time", None, tried), faults


def message_forms(subject: Subject) -> list[dict]:
    """Whether rewards of chat tasks bear messages as tools and vision models write them. Only warned of, unless the samples have such ones."""
    i = (subject.distinct or [0])[0]
    sample = subject.samples[i]
    if isinstance(sample["completion"], str):
        return []
    text = completion_text(sample["completion"])
    forms = {
        "content None": [{"role": "assistant", "content": None}],
        "content None beside tool calls": [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
        "content parts": [{"role": "assistant", "content": [{"type": "text", "text": text}]}],
        "a tool turn": [{"role": "assistant", "content": ""}, {"role": "tool", "content": "1"}, {"role": "assistant", "content": text}],
    }
    written = {key for s in subject.samples if not isinstance(s["completion"], str) for m in s["completion"] for key in _form_of(m)}
    bad: dict[str, list[str]] = {}  # what was said -> forms
    severity = "ok"
    for what, completion in forms.items():
        for reward in subject.rewards:
            try:
                _call(reward, completion, sample)
            except UserError as exc:
                bad.setdefault(said(exc), []).append(what)
                severity = max(severity, "error" if what in written else "ok" if what in SELDOM else "warning", key=("ok", "warning", "error").index)
    if bad and severity == "ok":
        return [finding("message_forms", "ok", f"messages of tools and empty ones are scored without an error, but not {', '.join(SELDOM)}")]
    if bad:
        words = "; ".join(f"{' and '.join(what)}: {why}" for why, what in list(bad.items())[:3])
        message = f"{words}: read `content` as text only where it is text"
        return [finding("message_forms", severity, message, None, len(forms) * len(subject.rewards), sum(map(len, bad.values())))]
    return [finding("message_forms", "ok", f"{len(forms)} forms of messages are scored without an error")]


def completion_format(subject: Subject) -> dict:
    """Whether the same text scores the same as text and as a chat, where the reward takes both."""
    part = spread(subject.distinct or range(len(subject.samples)), COMPARED)
    chats = not isinstance(subject.samples[part[0]]["completion"], str)
    other = "text" if chats else "a chat"
    only = []
    for reward in subject.rewards:
        for i in part:
            sample = subject.samples[i]
            if chats and (len(sample["completion"]) > 1 or sample["completion"][0].get("tool_calls")):
                continue  # text cannot hold it
            text = completion_text(sample["completion"])
            try:
                value = _call(reward, text if chats else [{"role": "assistant", "content": text}], sample)
            except UserError:
                only.append(reward.name)
                break
            if value != subject.scores[i]["scores"][reward.name] and not subject.noisy:
                message = f"{reward.name} gives the same words {subject.scores[i]['scores'][reward.name]} here and {value} as {other}"
                return finding("completion_format", "warning", f"{message}: take the text of the last assistant message")
    if only:
        message = f"{', '.join(only)} takes {'chats' if chats else 'text'} only, which is what this data has"
        return finding("completion_format", "ok", message)
    return finding("completion_format", "ok", f"{len(part)} completions score the same as text and as a chat")


def raised_findings(subject: Subject, faults: list[Fault], trials: list[Trial], rows: list) -> list[dict]:
    """One finding for each exception of each reward (`reward_raises`), and each wrong kind of value (`return_value`)."""
    from grpo_rlvr.inspection.probes.findings import attack_example

    faults = [*faults, *(Fault(t.of, t.completion, t.what, row, t.odd) for t, row in zip(trials, rows, strict=True) if isinstance(row, UserError))]
    groups: dict[tuple[str, str], list[tuple[Fault, str, str]]] = {}
    changed = {id(t.completion): (t.old, t.new) for t in trials}
    for fault in faults:
        cause = fault.error.__cause__
        key = (fault.error.problems[0].where, type(cause).__name__ if cause is not None else "")
        groups.setdefault(key, []).append((fault, *changed.get(id(fault.completion), ("", ""))))
    found = []
    for (_, cause), members in groups.items():
        plausible = [m for m in members if not m[0].odd]
        fault, old, new = min(plausible or members, key=lambda m: (len(completion_text(m[0].completion)), m[0].of))
        raised = f"{said(fault.error)} on {f'the answer {new!r}' if old else fault.what}"
        message = f"{raised} ({len(members)} of the completions tried): what a model writes must never raise, and its score is a number or None"
        sample, row = subject.samples[fault.of], subject.scores[fault.of]
        example = attack_example(sample, row, fault.completion, None, old, new, fault.what)
        probe = "reward_raises" if cause else "return_value"
        tried = len(trials) + len(faults) - sum(isinstance(r, UserError) for r in rows)
        found.append(finding(probe, "error" if plausible else "warning", message, example, tried, len(members)))
    return found


def _grown(subject: Subject, reward: Any, i: int) -> tuple[int, list[Fault], list[str]]:
    """Texts that grow until one takes too long; how many were tried, what raised, and what was slow."""
    faults: list[Fault] = []
    slow: list[str] = []
    tried, began = 0, time.perf_counter()
    own = subject.text(i)[:2000]
    for what, piece in ({**GROWN, "its own words": own + "\n"} if own else GROWN).items():
        last = 0.0
        for size in SIZES if subject.seconds < COSTLY_S else SIZES[:2]:
            if time.perf_counter() - began > EACH_S or last * 64 > STUCK_S * 4:
                break  # eight times the text takes at least eight times as long
            start, stuck = time.perf_counter(), True
            with contextlib.suppress(Stuck), _computing_at_most(STUCK_S):
                faults += _try(subject, reward, i, piece * max(1, size // len(piece)), f"{size:,} characters of {what}", True)
                stuck = False
            tried += 1
            last = time.perf_counter() - start
            if (stuck or last > SLOW_S) and size <= PLAUSIBLE:
                slow.append(f"{reward.name} takes {'more than ' if stuck else ''}{last:.1f} s for {size:,} characters of {what}")
            if stuck or last > SLOW_S or (faults and faults[-1].what.endswith(what)):
                break
        if slow:
            break
    return tried, faults, slow


def _try(subject: Subject, reward: Any, i: int, text: str, what: str, odd: bool) -> list[Fault]:
    completion = _alone(subject.samples[i]["completion"], text)
    try:
        _call(reward, completion, subject.samples[i])
    except UserError as exc:
        return [Fault(i, completion, what, exc, odd)]
    return []


def _call(reward: Any, completion: Any, sample: dict) -> float | None:
    """One reward on one completion, in this thread."""
    columns: dict[str, list] = {name: [value] for name, value in sample["columns"].items()}
    if isinstance(sample.get("tokens"), int):
        columns.setdefault("completion_token_counts", [sample["tokens"]])
    try:
        value = settled(reward.function(completions=[own_copy(completion)], prompts=[own_copy(sample["prompt"])], **own_copy(columns)))
    except UserError:
        raise
    except (Exception, SystemExit) as exc:
        raise UserError("reward", Problem(reward.name, f"{type(exc).__name__}: {exc}")) from exc
    return checked_values(reward.name, value, 1)[0]


@contextlib.contextmanager
def _computing_at_most(seconds: float) -> Iterator[None]:
    """Raise `Stuck` after so many seconds of computing, also inside a regular expression. Only in the main thread of a system with such a timer."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGVTALRM"):
        yield
        return

    def stop(*_: Any) -> None:
        raise Stuck

    before: Callable | int | None = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before if before is not None else signal.SIG_DFL)


def _alone(completion: Any, text: str) -> Any:
    return replaced(completion, text) if isinstance(completion, str) else [{"role": "assistant", "content": text}]


def _form_of(message: dict) -> list[str]:
    content = message.get("content")
    found = ["a tool turn"] if message.get("role") == "tool" else []
    if content is None:
        found.append("content None beside tool calls" if message.get("tool_calls") else "content None")
    return [*found, "content parts"] if isinstance(content, list) else found
