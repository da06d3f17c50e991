"""What one completion may use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grpo_rlvr.errors import Problem, UserError


@dataclass(frozen=True)
class Limits:
    """Bounds for the processes of one completion together, but where it says otherwise.

    Attributes:
        timeout_s: time of one test (a call, or a run of a program): processor time, or wall time less the time in which it waited for a
            processor. All tests of a completion together get ten times that, as wall time.
        memory_mib: address space of each process; twice that is the bound of what all of them have resident.
        processes: processes and threads at one time.
        tmp_mib: what fits into /tmp, the only place that can be written (and 16 MiB of /dev/shm); also the largest file.
        output_mib: what is read of a program's output, or of the values that calls return.
    """

    timeout_s: float = 5.0
    memory_mib: int = 512
    processes: int = 32
    tmp_mib: int = 64
    output_mib: int = 8

    def __post_init__(self) -> None:
        wrong = []
        for name, least in (("timeout_s", 0.05), ("memory_mib", 64), ("processes", 4), ("tmp_mib", 1), ("output_mib", 1)):
            value = getattr(self, name)
            fine = isinstance(value, (int, float) if name == "timeout_s" else int) and not isinstance(value, bool)
            if not fine or not math.isfinite(value) or value < least:
                wrong.append(Problem(name, f"got {value!r}", f"give a number of at least {least}"))
        if wrong:
            raise UserError("config", wrong)

    @property
    def total_s(self) -> float:
        """Wall time of all tests of one completion."""
        return 10 * self.timeout_s + 1

    def settings(self, isolate: bool) -> dict:
        """What the server inside is told."""
        return {
            "isolate": isolate,
            "memory_mib": self.memory_mib,
            "total_mib": 2 * self.memory_mib,
            "processes": self.processes,
            "tmp_mib": self.tmp_mib,
            "file_mib": self.tmp_mib,
            "output_bytes": self.output_mib << 20,
        }
