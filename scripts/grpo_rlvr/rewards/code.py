"""Does the code that a completion hands in pass the row's tests, judged outside the process that runs it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from grpo_rlvr.code_blocks import fenced_blocks
from grpo_rlvr.completions import after_reasoning, strip_special_tokens, tag_span
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.code_compare import ABS_TOL, REL_TOL, same_output, same_value
from grpo_rlvr.rewards.code_tests import CallTests, ProgramTests, SourceTests, read_tests
from grpo_rlvr.sandbox.backends import IMAGE
from grpo_rlvr.sandbox.limits import Limits
from grpo_rlvr.sandbox.opening import open_pool
from grpo_rlvr.sandbox.process import SandboxFault
from grpo_rlvr.sandbox.tasks import Answer, Calls, Printed, Program, Returned, Tests

log = logging.getLogger("grpo_rlvr.rewards")
SOLUTION = "solution"


class CodeReward(Reward):
    """1.0 if the code passes every test of the row's `tests`, else 0.0; see `make_code_reward`.

    The code is the last complete block of Python after the reasoning that defines what the tests call (all of the text, where there is no
    block). It runs in a sandbox and never on the host; what it returns comes back as plain data and is compared here.
    """

    columns = ("tests",)
    correctness = True
    gold_error_raises = True

    def __init__(self, name: str, limits: Limits, **settings: Any):
        super().__init__(name)
        self.limits = limits
        self.partial, self.rel_tol, self.abs_tol = settings.pop("partial"), settings.pop("rel_tol"), settings.pop("abs_tol")
        self.settings = settings
        self.faults: Counter[str] = Counter()

    def prepare(self) -> None:
        open_pool(limits=self.limits, **self.settings)

    def read_gold(self, tests: Any) -> CallTests | ProgramTests | SourceTests:
        return read_tests(tests)

    def honest_forms_of_row(self, row: dict, gold: Any) -> list[str]:
        """The row's reference solution, if it has one, as a completion would hand it in."""
        solution = row.get(SOLUTION)
        return [f"```python\n{solution.rstrip()}\n```"] if isinstance(solution, str) and solution.strip() else []

    def decoys(self, gold: Any) -> list[tuple[str, str]]:
        """Code that solves nothing, where only a run can show that the tests refuse it."""
        if not isinstance(gold, SourceTests):
            return []
        stubs = "\n".join(f"def {name}(*args, **kwargs):\n    pass\n" for name in gold.names)
        return [("code that does nothing", f"```python\n{stubs}\n```")]

    def words_needed(self, gold: Any) -> list[str]:
        """The names under which the tests look for the code."""
        if isinstance(gold, CallTests):
            return gold.entry.split(".")
        return ([gold.entry] if gold.entry else list(gold.names)) if isinstance(gold, SourceTests) else []

    def test_count(self, gold: Any) -> int | None:
        """How many tests a row has; None where its test code decides that as it runs."""
        if isinstance(gold, SourceTests):
            return gold.count
        return len(gold.expected if isinstance(gold, CallTests) else gold.outputs)

    def score_texts(self, texts: list[str], golds: list[Any]) -> list[float | None]:
        tasks = [_task(_handed_in(text), gold) for text, gold in zip(texts, golds, strict=True)]
        asked = [place for place, task in enumerate(tasks) if task is not None]
        scores: list[float | None] = [0.0] * len(texts)
        if asked:
            pool = open_pool(limits=self.limits, **self.settings)
            found = pool.run([tasks[place] for place in asked], lambda number, answer: self._score(answer, golds[asked[number]]))
            for place, score in zip(asked, found, strict=True):
                scores[place] = self._unscored_for(score) if isinstance(score, SandboxFault) else score
        return scores

    def _score(self, answer: Answer, gold: Any) -> float:
        if isinstance(gold, SourceTests):
            return float(answer.passed)
        if isinstance(gold, CallTests):
            wanted = zip(gold.expected, answer.results, strict=False)
            right = sum(isinstance(got, Returned) and self._returned(want, got.value, gold.literal) for want, got in wanted)
            count = len(gold.expected)
        else:
            wanted = zip(gold.outputs, answer.results, strict=False)
            right = sum(isinstance(got, Printed) and got.status == 0 and same_output(want, got.text) for want, got in wanted)
            count = len(gold.outputs)
        return right / count if self.partial else float(right == count)

    def _returned(self, want: Any, got: Any, literal: bool) -> bool:
        if want.truth:
            truth = getattr(got, "truth", None) if hasattr(got, "truth") else bool(got)
            return truth is want.value
        return same_value(want.value, got, literal=literal, rel_tol=self.rel_tol, abs_tol=self.abs_tol)

    def _unscored_for(self, fault: SandboxFault) -> None:
        """A fault of the sandbox: named once for each kind, and counted; no score."""
        said = str(fault)[:300]
        self.faults[said] += 1
        if self.faults[said] == 1:
            log.warning("%s: a completion could not be scored, and is left out (None): %s", self.__name__, said)


def _handed_in(text: str) -> str:
    """What follows the reasoning; of an `<answer>` that holds the code, its content."""
    text = strip_special_tokens(after_reasoning(text))
    span = tag_span(text)
    if span is not None:
        inside = text[span[0] : span[1]]
        if fenced_blocks(inside) or not fenced_blocks(text):
            return inside
    return text


def _task(text: str, gold: Any) -> Calls | Program | Tests | None:
    """What to ask of the sandbox; None where nothing was handed in."""
    if not text.strip():
        return None
    if isinstance(gold, CallTests):
        return Calls(text, gold.entry, gold.calls)
    if isinstance(gold, ProgramTests):
        # White space at the ends of lines is free, within reason.
        return Program(text, gold.inputs, [2 * len(output) + 65_536 for output in gold.outputs])
    return Tests(text, gold.source, gold.names, gold.top_level, gold.entry)


def make_code_reward(
    sandbox: str | Sequence[str] = "auto",
    timeout_s: float = 5.0,
    *,
    memory_mib: int = 512,
    processes: int = 32,
    workers: int | None = None,
    python: str | None = None,
    image: str = IMAGE,
    partial: bool = False,
    rel_tol: float = REL_TOL,
    abs_tol: float = ABS_TOL,
) -> CodeReward:
    """Reward for code; column `tests` (a mapping, Python asserts, a list of them, or the JSON text of one of these).

    Reference solutions are checked where the data has them, in a column `solution`.

    Args:
        sandbox: "auto" (bubblewrap, Docker, Podman: the first that passes its self-test), one of them, or a command that isolates what
            follows it. Opened at the first scoring; without any, MissingError says how to get one. Nothing ever runs on the host.
        timeout_s: time of one test, of processor or of sleep; all tests of a completion together get ten times that.
        memory_mib: address space of each process of a completion; together they may have twice that resident.
        processes: processes and threads of a completion at one time.
        workers: completions at one time; by default one for each processor that may be used, 16 at most.
        python: interpreter for the candidates, with the packages they may import; by default the standard library alone.
        image: container image for Docker and Podman.
        partial: pay the share of the tests that pass. Off by default: a share pays for special-casing the easy ones.
        rel_tol, abs_tol: how far a float may be from the expected one.

    Raises:
        UserError: an option that makes no sense; all of them at once.
    """
    problems = []
    for option, value in (("rel_tol", rel_tol), ("abs_tol", abs_tol)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            problems.append(Problem(option, f"got {value!r}", "give a number from 0 to below 1"))
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        problems.append(Problem("workers", f"got {workers!r}", "give a whole number of at least 1, or leave it out"))
    if not isinstance(partial, bool):
        problems.append(Problem("partial", f"got {partial!r}", "give true or false"))
    if not (isinstance(sandbox, str) or (isinstance(sandbox, (list, tuple)) and all(isinstance(w, str) for w in sandbox))) or not sandbox:
        problems.append(Problem("sandbox", f"got {sandbox!r}", "give auto, bubblewrap, docker, podman, or a command"))
    try:
        limits = Limits(timeout_s, memory_mib, processes)
    except UserError as exc:
        problems += exc.problems
    if problems:
        raise UserError("config", problems)
    sandbox = sandbox if isinstance(sandbox, str) else tuple(sandbox)
    settings = {"sandbox": sandbox, "workers": workers, "python": python, "image": image}
    return CodeReward("code", limits, partial=partial, rel_tol=rel_tol, abs_tol=abs_tol, **settings)
