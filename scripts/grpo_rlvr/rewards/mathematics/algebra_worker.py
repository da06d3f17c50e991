"""The process that does the algebra: one JSON line in, one JSON line out, killed by the kernel when an item takes too long.

Started by `algebra_process`; it imports SymPy and math-verify's parser, and nothing of torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

MEMORY_BYTES = 4 * 2**30


def main() -> None:
    """Answers until stdin ends. Each request is `{"gold", "answer", "percent", "decimal_comma", "cpu_s"}`, texts normalised."""
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not reach the protocol
    try:
        _limit_memory()
        from grpo_rlvr.rewards.mathematics.algebra import Symbolic
        from grpo_rlvr.rewards.mathematics.comparison import same
        from grpo_rlvr.rewards.mathematics.reading import Reading, read

        algebra = Symbolic()
    except ImportError as exc:
        out.write(json.dumps({"missing": str(exc)}) + "\n")
        return
    out.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        # The default action of this timer ends the process whatever it is doing, also inside one huge power,
        # and counts this process's own work: a busy machine turns no right answer wrong.
        _end_after(request["cpu_s"])
        try:
            how = Reading(request["percent"], request["decimal_comma"])
            verdict = same(read(request["gold"], how), read(request["answer"], how), algebra)
        except (Exception, RecursionError):
            verdict = False
        _end_after(0)
        out.write(json.dumps({"same": bool(verdict)}) + "\n")


def _end_after(cpu_s: float) -> None:
    if hasattr(signal, "setitimer"):  # on Windows the caller's clock is the only limit
        signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > MEMORY_BYTES:
        # macOS refuses this limit; the time limit still holds there.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))


if __name__ == "__main__":
    main()
