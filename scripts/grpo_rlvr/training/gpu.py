"""Memory and temperature of the GPU, and None where there is no GPU or nothing that tells."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time

ASK_EVERY_S = 10.0  # nvidia-smi takes up to half a second


def peak_memory_gb() -> float | None:
    """Peak GPU memory reserved by this process, or its peak resident memory without a GPU, in GB (10^9 bytes)."""
    import torch

    if torch.cuda.is_available():
        return round(torch.cuda.max_memory_reserved() / 1e9, 3)
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return round(peak * (1024 if os.uname().sysname == "Linux" else 1) / 1e9, 3)


def used_memory_gb() -> float | None:
    """Memory of the GPU in use by all programs (vLLM's processes too), in GB; None without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    free, total = torch.cuda.mem_get_info()
    return round((total - free) / 1e9, 3)


class Thermometer:
    """The GPU's temperature in degrees Celsius, from the driver's library or from nvidia-smi, which is asked at most every 10 s."""

    def __init__(self) -> None:
        self.asked = float("-inf")
        self.last: float | None = None

    def read_c(self) -> float | None:
        import torch

        if not torch.cuda.is_available():
            return None
        with contextlib.suppress(Exception):  # needs the package nvidia-ml-py, and a driver that allows it
            return float(torch.cuda.temperature())
        if time.monotonic() - self.asked > ASK_EVERY_S:
            self.asked = time.monotonic()
            self.last = from_nvidia_smi(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","), torch.cuda.current_device())
        return self.last


def from_nvidia_smi(visible: list[str], index: int) -> float | None:
    """The temperature that `nvidia-smi` tells of the GPU that this process calls `index`.

    Args:
        visible: the names in CUDA_VISIBLE_DEVICES, which nvidia-smi does not look at.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    name = visible[index] if index < len(visible) and visible[index] else str(index)
    command = [program, f"--id={name}", "--query-gpu=temperature.gpu", "--format=csv,noheader,nounits"]
    try:
        return float(subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=5, check=True).stdout.strip())  # noqa: S603  (our own list, no shell)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
