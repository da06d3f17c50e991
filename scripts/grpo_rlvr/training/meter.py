"""The most memory in each phase, as the device's own counters have it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Iterator
from pathlib import Path

GIB = 2**30


class CudaProbe:
    """Torch's own count of this process on its GPU; what vLLM holds in a pool of its own, the context and other processes are not in it."""

    device = "cuda"
    method = "torch.cuda.max_memory_allocated, reset at the start of each phase"

    def now(self) -> int:
        import torch

        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    def reset(self) -> None:
        import torch

        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    def settle(self) -> None:
        """Nothing: torch counts what is allocated, not what it keeps."""

    def peak(self) -> dict[str, int]:
        import torch

        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return {"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "device_in_use": total - free}


class RssProbe:
    """Resident memory of this process. It holds Python and its libraries too, and the C library gives little back, so small runs show noise."""

    device = "cpu"

    def __init__(self) -> None:
        self.resets = self._clear()
        self.method = (
            "peak resident memory (VmHWM of /proc/self/status), reset at the start of each phase"
            if self.resets
            else "peak resident memory so far (ru_maxrss): this system does not reset it, so a phase shows the largest up to its end"
        )

    def now(self) -> int:
        return self._status("VmRSS") or self._so_far()

    def reset(self) -> None:
        if self.resets:
            self._clear()

    def settle(self) -> None:
        """Give back what was freed, so that it is not taken for something that is held."""
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)

    def peak(self) -> dict[str, int]:
        return {"peak": (self._status("VmHWM") if self.resets else None) or self._so_far()}

    @staticmethod
    def _clear() -> bool:
        """Linux: 5 written to clear_refs sets the high-water mark back to what is resident."""
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return False
        return RssProbe._status("VmHWM") is not None

    @staticmethod
    def _status(name: str) -> int | None:
        try:
            for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
        except (OSError, ValueError):
            return None
        return None

    @staticmethod
    def _so_far() -> int:
        import resource
        import sys

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Meter:
    """Peaks and seconds by phase. A phase inside another belongs to itself alone: a rollout inside a training step is no training."""

    def __init__(self, probe: CudaProbe | RssProbe) -> None:
        self.probe = probe
        self.peaks: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self.failed = ""  # the innermost phase that an error ended
        self._open: list[str] = []
        self._since = time.perf_counter()

    def push(self, phase: str) -> None:
        self._close()
        self._open.append(phase)
        self._begin()

    def pop(self) -> None:
        self._close()
        self._open.pop()
        self._begin()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.push(name)
        try:
            yield
        except Exception:
            self.failed = self.failed or name
            raise
        finally:
            self.pop()

    def forget(self) -> None:
        """Begin anew: of a first step, in which the optimizer's states were not there yet, nothing is kept but its start."""
        self.peaks = {k: v for k, v in self.peaks.items() if k == "start"}
        self.seconds.clear()
        self._begin()

    def _begin(self) -> None:
        self.probe.reset()
        self._since = time.perf_counter()

    def _close(self) -> None:
        if not self._open:
            return
        found, before = self.probe.peak(), self.peaks.setdefault(self._open[-1], {})
        for name, value in found.items():
            before[name] = max(before.get(name, 0), value)
        self.seconds[self._open[-1]] = self.seconds.get(self._open[-1], 0.0) + time.perf_counter() - self._since
