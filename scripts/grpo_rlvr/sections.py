"""The sections of the config as frozen dataclasses; their defaults are those of config.schema.json (a test compares them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FILE_ARGS = {"judge": ("calibration", "rubric_file")}  # options of built-in rewards that are paths


@dataclass(frozen=True)
class LoraSection:
    """Adapters instead of full tuning; `target_modules` as in peft: `all-linear`, a name or a list of names.

    `quantize` keeps the frozen base in 4 bits (`nf4`: QLoRA) or 8 (`int8`), through bitsandbytes.
    """

    r: int = 16
    alpha: float = 32
    dropout: float = 0.0
    target_modules: str | list[str] = "all-linear"
    quantize: str | None = None


@dataclass(frozen=True)
class ModelSection:
    """The model to train. `dtype` is that of the weights, not of the autocast (that is `grpo.bf16`)."""

    name_or_path: str
    revision: str | None = None
    dtype: str = "float32"
    lora: LoraSection | None = None


@dataclass(frozen=True)
class DataSection:
    """Where the prompts are. `columns` maps our column names to those in the file.

    `prompt_tokens` is the longest prompt's length, if known. `eval_split` holds
    out that share of `train` instead of `eval`; `limit` reads no more rows of a source.
    """

    train: str
    eval: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: int | None = None
    system_prompt: str | None = None
    eval_limit: int = 256
    eval_split: float | None = None
    split_seed: int = 0
    limit: int | None = None
    max_prompt_tokens: int | None = None

    @property
    def holds_out(self) -> bool:
        """Whether there are rows to evaluate on."""
        return self.eval is not None or self.eval_split is not None


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
class AcceptedProbe:
    """A probe whose finding is accepted, and why."""

    probe: str
    reason: str


@dataclass(frozen=True)
class InspectionSection:
    """How many completions are drawn and read before training, and by what.

    `samples_per_prompt` None means `num_generations`; `backend` None is decided by `inspection.backends.backend.choose`.
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
    accept: tuple[AcceptedProbe, ...] = ()


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
    """The machines: `gpu` is a name of the hardware table, `count` GPUs in each of `nodes` machines, those of a vLLM server among them.

    `sharding` None means none on one GPU and ddp on several.
    """

    gpu: str | None = None
    count: int = 1
    nodes: int = 1
    sharding: str | None = None
    vllm_server: VllmServerSection | None = None

    def split(self, served: bool) -> tuple[int, int, int]:
        """(GPUs of a machine that train, machines that train, GPUs of the vLLM server); `served`: completions come from a server.

        A server without a section of its own is somewhere else. On several machines it has the last one.
        """
        if self.vllm_server is None or not served:
            return self.count, self.nodes, 0
        if self.nodes > 1:
            return self.count, self.nodes - 1, self.count
        return max(1, self.count - self.vllm_server.gpus), 1, self.vllm_server.gpus


@dataclass(frozen=True)
class RunSection:
    """Where the run is kept. `gate` None means <folder>/inspection/gate.json.

    `completion_tables` caps those of `log_completions`. `reward_failures` is how many batches in a row a reward may fail on (an exception
    in it) before the run stops. `stop_on` names symptoms that end the training.
    """

    folder: str = "runs/grpo"
    gate: str | None = None
    reward_failures: int = 3
    completion_tables: int = 200
    on_stale_vllm: str = "stop"
    stop_on: tuple[str, ...] = ()
