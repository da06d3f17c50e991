"""All epochs laid out as one list of prompts, so that a run resumed in a later epoch goes on with the prompts that are due.

TRL shuffles at the start of each epoch with a generator that no checkpoint holds: a run resumed in the second epoch takes the first epoch's
order again. The same orders, drawn from the same seed and written one after the other, need no generator. An uninterrupted run sees the
prompts exactly as with TRL's own shuffling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.data import to_dataset
from grpo_rlvr.training.findings import Finding, note
from grpo_rlvr.training.setup import Setup

BY_EPOCH = ("save_strategy", "eval_strategy", "logging_strategy")


@dataclass(frozen=True)
class Layout:
    """What the trainer gets. `epochs` is how many epochs of the data make one of the trainer's."""

    dataset: Any
    settings: dict[str, Any]
    epochs: float = 1.0


def lay_out(setup: Setup, rows: Sequence[dict], settings: dict[str, Any]) -> Layout:
    """The data set and settings of a run: as they are for one epoch, laid out for more."""
    dataset, each = to_dataset(rows), batches_of_an_epoch(setup)
    if not needs_layout(setup) or _by_epoch(setup) or not each:
        return Layout(dataset, settings)
    steps = total_steps(setup)
    batches = math.ceil(steps * setup["gradient_accumulation_steps"] / setup.cycle)
    order = orders(len(rows), setup.prompts * each, math.ceil(batches / each), setup["seed"])[: setup.prompts * batches]
    laid = {**settings, "shuffle_dataset": False, "max_steps": steps, "num_train_epochs": 1}
    return Layout(dataset.select(order), laid, batches / each)


def orders(rows: int, kept: int, epochs: int, seed: int) -> list[int]:
    """TRL's order of the rows in each epoch, one after the other, each without the tail that fills no generation batch."""
    import torch

    generator = torch.Generator()
    generator.manual_seed(seed)
    return [i for _ in range(epochs) for i in torch.randperm(rows, generator=generator).tolist()[:kept]]


def needs_layout(setup: Setup) -> bool:
    return bool(setup["shuffle_dataset"]) and setup.epochs is not None and setup.epochs > 1


def batches_of_an_epoch(setup: Setup) -> int:
    """Generation batches in one pass over the data."""
    return (setup.train_rows or 0) // setup.prompts


def total_steps(setup: Setup) -> int:
    """Updates of the whole run, counted as transformers counts them."""
    if setup["max_steps"] > 0:
        return setup["max_steps"]
    updates = math.ceil(batches_of_an_epoch(setup) * setup.cycle / setup["gradient_accumulation_steps"])
    return math.ceil(setup["num_train_epochs"] * max(1, updates))


def later_epochs(setup: Setup) -> list[Finding]:
    """A note where the epochs cannot be laid out, because something is to happen at the end of each."""
    if setup["save_strategy"] == "no" or not needs_layout(setup) or not (names := _by_epoch(setup)):
        return []
    message = (
        f"the run goes through the data {setup.epochs:.3g} times and {' and '.join(names)} is epoch: a run resumed in the second epoch or later"
        " takes the first epoch's order of prompts again, since TRL does not save it"
    )
    return [note("resume-in-later-epochs", message, f"set {names[0]}: steps, and any resume is exact")]


def _by_epoch(setup: Setup) -> list[str]:
    return [name for name in BY_EPOCH if str(setup.config.grpo.get(name, "")) == "epoch"]
