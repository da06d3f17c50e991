"""The GPUs that are known, with what torch can use of their memory and how fast they read it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.schema_check import nearest

FILE = Path(__file__).resolve().parent / "hardware.json"


@dataclass(frozen=True)
class Gpu:
    """One GPU. `plan_gib` is what a plan may use; `tflops` dense bf16 (fp16 where `bf16` is False)."""

    name: str
    title: str
    usable_gib: float
    plan_gib: float
    sustained_gb_s: float
    tflops: float
    bf16: bool = True
    unified: bool = False
    usable_measured: bool = True

    @property
    def context_gib(self) -> float:
        """CUDA context and cuBLAS: 0.14 GiB measured on a T4, more with the kernels of newer cards (assumed 0.5)."""
        return 0.14 if not self.bf16 else 0.5


@lru_cache(maxsize=1)
def gpus() -> dict[str, Gpu]:
    """All known GPUs by name, smallest first as the file has them."""
    fields = Gpu.__dataclass_fields__
    return {row["name"]: Gpu(**{k: v for k, v in row.items() if k in fields}) for row in _rows()}


@lru_cache(maxsize=1)
def _rows() -> list[dict]:
    return json.loads(FILE.read_text(encoding="utf-8"))["gpus"]


def find_gpu(name: str) -> Gpu:
    """The GPU of that name, however it is spelled: `h100-80gb`, `H100 SXM`, `NVIDIA H100 80GB HBM3`, `DGX Spark`.

    Raises:
        UserError: none of the known ones is meant.
    """
    wanted = _plain(name)
    names = {_plain(n): row["name"] for row in _rows() for n in (row["name"], row["title"], *row["also"])}
    if wanted in names:
        return gpus()[names[wanted]]
    close = nearest(name, list(gpus()), f"known: {', '.join(gpus())}")
    own = "or give your GPU's numbers: --gpu-memory GIB [--gpu-bandwidth GB_S]"
    raise UserError("hardware", Problem("hardware.gpu", f"the GPU '{name}' is not known", f"{close}; {own}"))


def _plain(name: str) -> str:
    text = re.sub(r"nvidia|geforce|tesla|amd|instinct|sxm\d?|pcie|hbm\d?e?|blackwell|[^a-z0-9]", "", name.lower())
    return text
