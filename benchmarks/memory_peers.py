"""What other tools and guides say of the same training steps: the tools' own code where it runs here, else their rule, and which of the two.

accelerate's `estimate-memory` asks the model hub for the config, so the command cannot run without a network; its own two functions run here
on the model that is built without memory from the bundled shape. hf-vram-calc (PyPI, 1.0.9) needs no network once it has a parameter count:
`pip install --no-deps hf-vram-calc`. The table by size is that of LLaMA-Factory's README ("Hardware Requirement, estimated"), which most
guides repeat.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass

from grpo_rlvr.memory.shape import ModelShape

GIB, GB = 2**30, 1e9
ACCELERATE, HF_VRAM_CALC = "accelerate estimate-memory", "hf-vram-calc"


@dataclass(frozen=True)
class Peer:
    """`gib(shape, method, rank)`: GiB over all GPUs of one training run; method is full, lora or qlora. `how`: run, or rule of it."""

    name: str
    how: str
    gib: Callable[[ModelShape, str, int], float]


# https://github.com/hiyouga/LLaMA-Factory/blob/main/README.md, GB for 7B, 14B, 30B and 70B; other sizes by its own last column.
SIZES = (7, 14, 30, 70)
TABLE = {"full": ((120, 240, 600, 1200), 18.0), "lora": ((16, 32, 64, 160), 2.0), "qlora": ((6, 12, 24, 48), 0.5)}


def size_table(shape: ModelShape, method: str, rank: int) -> float:
    """The table's cell where the model's size, rounded as models are named, is one of its columns, else the rule of its last column."""
    cells, factor = TABLE[method]
    billions = shape.parameters / GB
    for size, cell in zip(SIZES, cells, strict=True):
        if abs(billions / size - 1) < 0.15:
            return cell * GB / GIB
    return factor * billions * GB / GIB


def accelerate_rule(shape: ModelShape, method: str, rank: int) -> float:
    """Weights, gradients and two states in float32 of the model without an untied head; no activations, no adapters."""
    return 4 * 4 * (shape.parameters - (0 if shape.tied else shape.head_parameters)) / GIB


def hf_vram_calc_rule(shape: ModelShape, method: str, rank: int) -> float:
    """1.0.9 at bf16, int4 for QLoRA: training 4 x 1.3 x weights; adapters 1.2 x (weights + 4 x 2 bytes x a quarter of all weights x 2 r / 4096)."""
    weights = shape.parameters * (0.5 if method == "qlora" else 2) / GIB
    if method == "full":
        return 4 * 1.3 * weights
    return 1.2 * (weights + shape.parameters * 0.25 * 2 * rank / 4096 / GB * 2 * 4)


def peers(rules: bool = False) -> list[Peer]:
    """The three, each run if it can be, or by their rules alone."""
    table = Peer("size table of common guides", "README table", size_table)
    if rules:
        return [Peer(ACCELERATE, "its rule", accelerate_rule), Peer(HF_VRAM_CALC, "its rule", hf_vram_calc_rule), table]
    return [_accelerate(), _hf_vram_calc(), table]


def _accelerate() -> Peer:
    name = ACCELERATE
    try:
        from accelerate import init_empty_weights
        from accelerate.commands.estimate import estimate_training_usage
        from accelerate.utils import calculate_maximum_sizes
    except ImportError:
        return Peer(name, "its rule", accelerate_rule)
    sizes: dict[str, int] = {}

    def run(shape: ModelShape, method: str, rank: int) -> float:
        if shape.name not in sizes:
            from grpo_rlvr.memory.catalog import bundled_fields
            from transformers import AutoConfig, AutoModel

            with contextlib.redirect_stdout(io.StringIO()), init_empty_weights():
                sizes[shape.name] = calculate_maximum_sizes(AutoModel.from_config(AutoConfig.for_model(**bundled_fields(shape.name))))[0]
        return max(estimate_training_usage(sizes[shape.name], "float32").values()) / GIB

    return Peer(name, "its own functions, run", run)


def _hf_vram_calc() -> Peer:
    name = HF_VRAM_CALC
    try:
        from hf_vram_calc.calculator import VRAMCalculator
        from hf_vram_calc.config import ConfigManager
    except ImportError:
        return Peer(name, "its rule", hf_vram_calc_rule)
    calculator = VRAMCalculator(ConfigManager())

    def run(shape: ModelShape, method: str, rank: int) -> float:
        weights = calculator.calculate_model_memory(shape.parameters, "int4" if method == "qlora" else "bf16")
        if method == "full":
            return calculator.calculate_training_memory(weights)
        return calculator.calculate_lora_memory(weights, shape.parameters, rank)

    return Peer(name, "its own class, run", run)
