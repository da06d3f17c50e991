"""How the batches of a run are made: what follows from TRL's settings and the number of processes, before TRL sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.training.seen import Seen


@dataclass(frozen=True)
class Setup:
    """The config with what follows from it: how many completions a step holds and when they are generated."""

    config: Config
    train_rows: int | None
    world: int
    seen: Seen = Seen()

    def __getitem__(self, name: str) -> Any:
        return self.config.setting(name)

    @property
    def lora(self) -> bool:
        return self.config.model.lora is not None

    @property
    def group(self) -> int:
        return self.config.num_generations

    @property
    def step_batch(self) -> int:
        """Completions of one forward pass over all processes."""
        return self["per_device_train_batch_size"] * self.world

    @cached_property
    def steps_per_generation(self) -> int:
        if self["generation_batch_size"] is not None:
            return max(1, self["generation_batch_size"] // self.step_batch)
        return self["steps_per_generation"] or self["gradient_accumulation_steps"]

    @property
    def generation_batch(self) -> int:
        """Completions generated at once."""
        return self["generation_batch_size"] or self.step_batch * self.steps_per_generation

    @property
    def prompts(self) -> int:
        """Prompts of a generation batch."""
        return max(1, self.generation_batch // max(1, self.group))

    @property
    def cycle(self) -> int:
        """Forward passes from one generation to the next."""
        return self.steps_per_generation * self["num_iterations"]

    @property
    def epochs(self) -> float | None:
        """How often the run goes through the data; None where the number of rows is not known."""
        if self["max_steps"] <= 0:
            return self["num_train_epochs"]
        if self.train_rows is None:
            return None
        prompts = self["max_steps"] * self.step_batch * self["gradient_accumulation_steps"] / self["num_iterations"] / self.group
        return prompts / self.train_rows

    @property
    def updates(self) -> int | None:
        """Optimizer steps of the run; None where the number of rows is not known."""
        if self["max_steps"] > 0:
            return self["max_steps"]
        if self.train_rows is None:
            return None
        batches = self.train_rows * self.group // self.generation_batch
        return int(batches * self.cycle // self["gradient_accumulation_steps"] * self["num_train_epochs"])

    @property
    def on_policy(self) -> bool:
        """Every batch is used for one update by the weights that wrote it: the ratio of the loss is 1.

        vLLM changes nothing: TRL computes the old log-probabilities with the trainer's own forward pass, so the ratio is 1 but for rounding
        (and a dropout's noise), and the gap to vLLM's goes into a weight of its own (`grpo_trainer.py`, `importance_sampling_ratio`).
        """
        return self["gradient_accumulation_steps"] % self.cycle == 0

    @property
    def weighs_gap(self) -> bool:
        """The correction for the gap between vLLM and the trainer is on."""
        return bool(self["use_vllm"] and self["vllm_importance_sampling_correction"])
