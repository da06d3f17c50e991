"""`templates/config.yaml` with a project's choices in it: lines are replaced, comments stay."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.reward_uses import USES
from grpo_rlvr.yaml_file import flow

LORA_RATE = "1.0e-5"  # adapters take ten times the rate of all weights


@dataclass(frozen=True)
class Choices:
    """What differs from the template; paths as the config is to have them. `rewards` are entries as in the config."""

    model: str
    train: str
    rewards: Sequence[Mapping[str, Any]]
    eval: str | None = None
    eval_split: float = 0.1  # where there is no eval
    held_out: str = "a tenth of train is held out"  # how much that is
    columns: Mapping[str, str] = field(default_factory=dict)
    gpu: str | None = None
    count: int | None = None
    lora: int | None = None
    variant: str | None = None
    tags: bool = False  # a reward reads <answer>, whatever its name says
    folder: str = ".."


def fill(template: str, c: Choices) -> str:
    """The config's text. Raises ValueError where the template has lost a line that is to be replaced."""
    text = _line(template, r"  name_or_path: .*", f"  name_or_path: {flow(c.model)}")
    text = _line(text, r"  train: .*", f"  train: {flow(c.train)}")
    if c.eval is None:
        text = _line(text, r"  # eval_split: 0\.1 .*", f"  eval_split: {c.eval_split:<28g} # {c.held_out}")
    else:
        text = _line(text, r"  # eval: .*", f"  eval: {flow(c.eval)}")
    if c.columns:
        text = _line(text, r"  # columns: .*", f"  columns: {flow(dict(c.columns))}   # our name: the name in the file")
    if not (c.tags or any(_reads_tags(reward) for reward in c.rewards)):
        text = _line(text, r"  system_prompt: >-\n    (.*)", r"  # system_prompt: >-\n  #   \1", expand=True)
    entries = "\n".join(_entry(reward) for reward in c.rewards)
    text = _line(text, r"rewards:\n(?:  - .*\n|    .*\n)+", f"rewards:\n{entries}\n")
    if c.gpu is not None:
        text = _line(text, r"  # gpu: .*", f"  gpu: {flow(c.gpu)}")
    if c.count is not None:
        text = _line(text, r"  count: .*", f"  count: {c.count}")
    if c.lora is not None:
        text = _line(
            text, r"  # lora: .*", f"  lora: {flow({'r': c.lora, 'alpha': 2 * max(1, c.lora), 'dropout': 0.0, 'target_modules': 'all-linear'})}"
        )
        text = _line(text, r"  learning_rate: .*", f"  learning_rate: {LORA_RATE}")
    if c.variant is not None:
        text = _line(text, r"# variant: .*", f"variant: {flow(c.variant)}")
    return _line(text, r"  folder: .*", f"  folder: {flow(c.folder)}")


def _entry(reward: Mapping[str, Any]) -> str:
    keys = [f"{key}: {flow(value)}" for key, value in reward.items()]
    return "  - " + "\n    ".join(keys)


def _reads_tags(reward: Mapping[str, Any]) -> bool:
    """Whether the reward itself, or the one inside a length penalty, reads what the template's system prompt has written."""
    args, use = reward.get("args"), reward.get("use")
    use = args.get("use") if use == "length" and isinstance(args, Mapping) else use
    return use in USES and USES[use].tags


def _line(text: str, pattern: str, new: str, expand: bool = False) -> str:
    filled, count = re.subn(rf"^{pattern}", new if expand else lambda match: new, text, count=1, flags=re.MULTILINE)
    if not count:
        raise ValueError(f"templates/config.yaml has no line like {pattern!r}")
    return filled


# ---- the same names, seen from the config's folder
def moved(c: Choices, config: Config, folder: Path) -> Choices:
    """`c` with relative names as `folder` sees them; absolute ones and those of the hub stay.

    Args:
        config: of `c`, as if its file lay in the working folder.
    """
    there, start = config.resolved(), os.path.realpath(folder)
    rewards = [
        {**entry, "use": _moved(entry["use"], now.use, start), **({"args": _moved(entry["args"], now.args, start)} if entry.get("args") else {})}
        for entry, now in zip(c.rewards, there.rewards, strict=False)  # a variant's own rewards come after
    ]
    return dataclasses.replace(
        c, model=_moved(c.model, there.model.name_or_path, start), train=_moved(c.train, there.data.train, start),
        eval=_moved(c.eval, there.data.eval, start), rewards=rewards,
    )  # fmt: skip


def _moved(typed: Any, absolute: Any, start: str) -> Any:
    if isinstance(typed, Mapping):
        return {key: _moved(value, absolute[key], start) for key, value in typed.items()}
    if not isinstance(typed, str) or typed == absolute or Path(typed).expanduser().is_absolute():
        return typed if typed == absolute or not isinstance(typed, str) else absolute
    path, colon, function = absolute.rpartition(":") if ".py:" in absolute else (absolute, "", "")
    # A symbolic link that is named stays; those on the way are followed, as the system does with `..`.
    parent, name = os.path.split(path.rstrip(os.sep))
    target = os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(parent), name)
    return os.path.relpath(target, start) + colon + function
