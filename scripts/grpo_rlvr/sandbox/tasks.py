"""What can be asked of a sandbox: call a function, run a program, run test code against a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.sandbox.inside import frames, values
from grpo_rlvr.sandbox.process import Sandbox


@dataclass(frozen=True)
class Returned:
    """A call that returned; `value` is plain data, or `values.Opaque`."""

    value: Any


@dataclass(frozen=True)
class Raised:
    """A call that raised: the names of the exception's classes, its own first, and its text; () for an answer that makes no sense."""

    names: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Printed:
    """A run of a program that ended by itself: what it printed and its exit status."""

    text: str
    status: int


@dataclass(frozen=True)
class Answer:
    """What came of a task.

    Attributes:
        results: of calls and programs, one for each up to the one where it ended. Of test code, none.
        reason: why it ended: "done", "exit", "time", "memory" or "output".
        passed: of test code, whether all of it passed.
        why: of what did not load or pass, the reason in words (from the sandbox: untrusted text, bounded).
    """

    results: tuple[Returned | Raised | Printed, ...] = ()
    reason: str = "done"
    passed: bool = False
    why: str = ""


@dataclass(frozen=True)
class Calls:
    """Call `entry` (a function, `Class.method`, or a method of `class Solution`) of the completion `text` with each (args, kwargs)."""

    text: str
    entry: str
    calls: Sequence[tuple[Sequence[Any], dict[str, Any]]]

    def run(self, sandbox: Sandbox, second: Any = None) -> Answer:
        calls = [[values.encode(list(args)), values.encode(dict(kwargs))] for args, kwargs in self.calls]
        said, reason = sandbox.run({"kind": "calls", "code": self.text, "entry": self.entry, "calls": calls})
        results = [_result(message) for message in said[: 1 + len(calls)]]
        if not results or isinstance(results[0], Raised):
            return Answer((), reason, why=_words(results[0]) if results else f"ended while it was loaded: {reason}")
        return Answer(tuple(results[1:]), reason)


@dataclass(frozen=True)
class Program:
    """Run the completion `text` as a program once for each input text.

    `most`: how many characters of each output are of interest; what is longer is cut off after one more. None: as much as the limits allow.
    """

    text: str
    inputs: Sequence[str]
    most: Sequence[int] | None = None

    def run(self, sandbox: Sandbox, second: Any = None) -> Answer:
        printed = []
        for run in sandbox.events({"kind": "program", "code": self.text, "inputs": list(self.inputs)}):
            if run["program"] == "done":
                most = None if self.most is None else self.most[len(printed)] + 1
                printed.append(Printed(run["out"][:most], run["code"]))
        return Answer(tuple(printed), sandbox.reason)


@dataclass(frozen=True)
class Tests:
    """Run test code in a sandbox of its own against the completion `text` in another.

    Attributes:
        names: what the test code uses of the candidate.
        top_level: whether its statements at the top level are a test.
        entry: the function that is handed to a `check(candidate)` of the test code.
    """

    text: str
    source: str
    names: Sequence[str]
    top_level: bool
    entry: str | None = None

    def run(self, sandbox: Sandbox, second: Any) -> Answer:
        """`second()` gives the sandbox for the test code."""
        candidate = sandbox.events({"kind": "session", "code": self.text, "names": list(self.names)})
        loaded = _result(next(candidate, None))
        if isinstance(loaded, Raised):
            _finish(sandbox, candidate)
            return Answer((), sandbox.reason or "exit", why=_words(loaded))
        tester = second()
        verdict, gone = None, False
        job = {"kind": "tests", "source": self.source, "names": list(self.names), "top_level": self.top_level, "entry": self.entry}
        tests = tester.events(job)
        for message in tests:
            if type(message) is not dict or "verdict" in message:
                verdict = message
                break
            sandbox.tell(message)
            reply = next(candidate, None)
            gone = gone or bool(sandbox.reason)
            tester.tell(_reply({"e": ["Exception"], "m": f"the candidate ended: {sandbox.reason}"} if gone else reply))
        _finish(tester, tests)
        ended = sandbox.reason
        _finish(sandbox, candidate)
        if gone:
            return Answer((), ended, why=f"the candidate ended: {ended}")
        if not verdict:
            return Answer((), tester.reason, why=f"the tests ended: {tester.reason}")
        return Answer((), "done", passed=verdict["verdict"] is True, why=str(verdict.get("why", ""))[:300])


def _finish(sandbox: Sandbox, events: Any) -> None:
    """End a conversation and wait for its end."""
    if not sandbox.reason:
        sandbox.tell({"op": "end"})
        for _ in events:
            pass


def _reply(message: Any) -> bytes:
    """The candidate's side of a conversation, packed, in the one form that test code expects."""
    if type(message) is dict and "v" in message:
        args = message.get("args")
        try:
            packed = frames.pack({"v": message["v"], "args": args if type(args) is list else []})
        except (ValueError, RecursionError, MemoryError):
            packed = b""
        if 0 < len(packed) <= frames.MOST_BYTES:
            return packed
        message = {"e": ["Exception"], "m": "no answer that can be handed on"}
    raised = _result(message)
    return frames.pack({"e": list(raised.names), "m": raised.text} if isinstance(raised, Raised) else {"e": []})


def _result(message: Any) -> Returned | Raised:
    if type(message) is dict and "v" in message:
        try:
            return Returned(values.decode(message["v"]))
        except ValueError:
            return Raised()
    if type(message) is dict and type(message.get("e")) is list:
        return Raised(tuple(str(name)[:100] for name in message["e"][:20]), str(message.get("m", ""))[:500])
    return Raised()


def _words(raised: Returned | Raised) -> str:
    if isinstance(raised, Raised) and raised.names:
        return f"{raised.names[0]}: {raised.text}"
    return "the completion did not load"
