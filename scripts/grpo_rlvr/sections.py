"""The sections of the config as frozen dataclasses; their defaults are those of config.schema.json (a test compares them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LoraSection:
    """Adapters instead of full tuning; `target_modules` as in peft: `all-linear`, a name or a list of names."""

    r: int = 16
    alpha: float = 32
    dropout: float = 0.0
    target_modules: str | list[str] = "all-linear"


@dataclass(frozen=True)
class ModelSection:
    """The model to train. `dtype` is that of the weights, not of the autocast (that is `grpo.bf16`)."""

    name_or_path: str
    revision: str | None = None
    dtype: str = "float32"
    lora: LoraSection | None = None


@dataclass(frozen=True)
class DataSection:
    """Where the prompts are. `columns` maps our column names to those in the file."""

    train: str
    eval: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    system_prompt: str | None = None
    eval_limit: int = 256


@dataclass(frozen=True)
class RewardSection:
    """One reward. `required` None means the reward's own default; `name` is its metric name where `use` would repeat."""

    use: str
    weight: float = 1.0
    args: Mapping[str, Any] = field(default_factory=dict)
    required: bool | None = None
    name: str | None = None


@dataclass(frozen=True)
class ServerSection:
    """An OpenAI-compatible server that the inspection samples from.

    `model` None means model.name_or_path, `samples_per_request` None all samples of a prompt at once. `settings` are further fields of the
    request; null leaves one of ours out.
    """

    base_url: str
    model: str | None = None
    api_key_env: str | None = None
    concurrency: int = 16
    timeout_s: float = 600.0
    retries: int = 5
    samples_per_request: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class InspectionSection:
    """How many completions are drawn and read before training, and by what.

    `samples_per_prompt` None means `num_generations`; `backend` None is decided by `inspection.backends.choose`.
    """

    prompts: int = 32
    samples_per_prompt: int | None = None
    batch_size: int = 32
    seed: int = 0
    min_read: int = 50
    read: int = 60
    reviewers: tuple[str, ...] = ("human",)
    pass_threshold: float = 0.5
    backend: str | None = None
    server: ServerSection | None = None


@dataclass(frozen=True)
class VllmServerSection:
    """The vLLM server of `grpo.vllm_mode: server`.

    `start`: train.py starts and stops it. `gpus` are those of the server alone; on several machines it has the last machine.
    `arguments` are flags of `vllm serve` without their dashes; true is a flag without a value, null leaves one of ours out.
    """

    start: bool = False
    gpus: int = 1
    start_timeout_s: float = 600.0
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HardwareSection:
    """The machines: `gpu` is a name of the hardware table, `count` GPUs in each of `nodes` machines.

    `engine` None means one process a GPU, each with the whole model (ddp).
    """

    gpu: str | None = None
    count: int = 1
    nodes: int = 1
    engine: str | None = None
    vllm_server: VllmServerSection | None = None


@dataclass(frozen=True)
class RunSection:
    """Where the run is kept. `gate` None means <folder>/inspection/gate.json; `completion_tables` caps those of `log_completions`."""

    folder: str = "runs/grpo"
    gate: str | None = None
    completion_tables: int = 200
    on_stale_vllm: str = "stop"
