"""From `rewards:` in the config to callables: the built-in names, their options, and users' own functions."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.answers import make_correctness_reward
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.formats import make_format_reward, make_partial_format_reward
from grpo_rlvr.rewards.math_answers import make_math_reward
from grpo_rlvr.rewards.schemas import make_schema_reward
from grpo_rlvr.rewards.user_functions import UserReward, source_files

if TYPE_CHECKING:
    from grpo_rlvr.config import Config, RewardSection

# TRL keeps one column of its log for each of these; a reward of that name would overwrite it.
RESERVED_NAMES = ("step", "prompt", "completion", "advantage")


@dataclass(frozen=True)
class Entry:
    """A built-in: `make(**args)` gives the reward, `summary` says in a line what 1.0 means."""

    make: Callable[..., Reward]
    summary: str


REGISTRY: dict[str, Entry] = {
    "format": Entry(make_format_reward, "exactly one non-empty <reasoning>, then one non-empty <answer>, nothing else"),
    "partial_format": Entry(make_partial_format_reward, "share of the structure that is present, each tag once and in order"),
    "exact": Entry(make_correctness_reward, "the last complete <answer> equals the gold"),
    "math": Entry(make_math_reward, "equal to the gold in value and kind"),
    "schema": Entry(make_schema_reward, "one strict JSON value that validates"),
}
# Names of the contract that have no entry yet; whoever adds one moves it up.
PLANNED = ("choice", "tool_calls", "code", "length", "judge")


@dataclass(frozen=True)
class BuiltReward:
    """A reward as the run uses it. `name` is unique and TRL's metric key; `source_files` decide its score."""

    name: str
    function: Callable
    weight: float = 1.0
    required: bool = True
    columns: tuple[str, ...] = ()
    source_files: tuple[Path, ...] = field(default=(), repr=False)

    def gold_problem(self, row: dict) -> str | None:
        """Why this row's gold cannot be read, or None."""
        own = getattr(self.function, "gold_problem", None)
        return own(row) if callable(own) else None


def build_rewards(config: Config) -> list[BuiltReward]:
    """The config's rewards in its order. Raises UserError("config") with every problem at once."""
    built: list[BuiltReward] = []
    problems: list[Problem] = []
    for index, section in enumerate(config.rewards):
        try:
            reward = _build(section, Path(config.base))
        except UserError as exc:
            problems += [Problem(f"rewards[{index}] {p.where}".rstrip(), p.message, p.fix) for p in exc.problems]
            continue
        if reward.name in RESERVED_NAMES:
            problems.append(Problem(f"rewards[{index}]", f"the name {reward.name!r} is a column of the trainer's log", "give it another name:"))
        if reward.name in [b.name for b in built]:
            message = f"a reward named {reward.name!r} is there already; the metrics would be mixed"
            problems.append(Problem(f"rewards[{index}]", message, "set name: on one of the two"))
        built.append(reward)
    if not config.rewards:
        problems.append(Problem("rewards", "there is no reward", "add one, e.g. - use: exact"))
    if problems:
        raise UserError("config", problems)
    return built


def _build(section: RewardSection, base: Path) -> BuiltReward:
    weight = float(section.weight)
    if ":" in section.use:
        name = section.name or section.use.rpartition(":")[2]
        function: Any = UserReward(name, section.use, base, section.args or {})
        files = source_files(function.path) if function.path else ()
        required = True if section.required is None else section.required
        return BuiltReward(name, function, weight, required, function.columns, files)
    reward = make_builtin(section.use, section.args or {})
    reward.__name__ = section.name or section.use
    required = reward.correctness if section.required is None else section.required
    return BuiltReward(reward.__name__, reward, weight, required, tuple(reward.columns), builtin_source_files())


def make_builtin(use: str, args: Mapping[str, Any]) -> Reward:
    """The built-in reward `use` with its options; UserError("config") for an unknown name or option."""
    if use in PLANNED and use not in REGISTRY:
        fix = f"use one of {', '.join(REGISTRY)}, or file.py:function"
        raise UserError("config", Problem("use", f"the reward {use!r} is not in this version yet", fix))
    if use not in REGISTRY:
        close = difflib.get_close_matches(use, REGISTRY, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UserError("config", Problem("use", f"there is no reward {use!r}", f"{hint}use one of {', '.join(REGISTRY)}, or file.py:function"))
    make = REGISTRY[use].make
    options = list(inspect.signature(make).parameters)
    problems = []
    for key in args:
        if key not in options:
            close = difflib.get_close_matches(key, options, n=1)
            fix = f"did you mean {close[0]!r}?" if close else f"its options: {', '.join(options) or 'none'}"
            problems.append(Problem("args", f"the reward {use!r} has no option {key!r}", fix))
    if problems:
        raise UserError("config", problems)
    try:
        return make(**args)
    except TypeError as exc:
        raise UserError("config", Problem("args", f"the reward {use!r}: {exc}")) from exc


def builtin_source_files() -> tuple[Path, ...]:
    """The files whose code decides what a built-in scores."""
    folder = Path(__file__).resolve().parent
    return tuple(sorted([*folder.glob("*.py"), folder.parent / "completions.py"]))
