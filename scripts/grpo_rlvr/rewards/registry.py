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
from grpo_rlvr.rewards.choices import make_choice_reward
from grpo_rlvr.rewards.code import make_code_reward
from grpo_rlvr.rewards.context import Context
from grpo_rlvr.rewards.formats import make_format_reward, make_partial_format_reward
from grpo_rlvr.rewards.json_equal import make_json_reward
from grpo_rlvr.rewards.judge import make_configured_judge
from grpo_rlvr.rewards.library_files import builtin_source_files
from grpo_rlvr.rewards.mathematics.reward import make_math_reward
from grpo_rlvr.rewards.schemas import make_schema_reward
from grpo_rlvr.rewards.shaping import LengthPenalty, make_configured_overlong
from grpo_rlvr.rewards.tool_calls import make_tool_call_reward
from grpo_rlvr.rewards.user_functions import UserReward, source_files

if TYPE_CHECKING:
    from grpo_rlvr.config import Config, RewardSection

# TRL keeps one column of its log for each of these; a reward of that name would overwrite it.
RESERVED_NAMES = ("step", "prompt", "completion", "advantage")


@dataclass(frozen=True)
class Entry:
    """A built-in: `make(**args)` gives the reward, `summary` says in a line what 1.0 means.

    A maker with a parameter `context` is given the run's `Context`; it is no option of the config.
    """

    make: Callable[..., Reward]
    summary: str


def make_configured_length(
    use: str,
    target_tokens: int,
    args: Mapping[str, Any] | None = None,
    max_penalty: float = 0.5,
    span_tokens: int | None = None,
    *,
    context: Context,
) -> LengthPenalty:
    """`use: length` of a config.

    Args:
        use: the reward inside, as in a section of its own.
        target_tokens: up to this length nothing changes.
        args: options of the reward inside.
        max_penalty: the share of a positive score that is lost at most; below 1.
        span_tokens: the penalty is full at target_tokens + span_tokens; by default at twice the target.
    """
    if not isinstance(use, str) or not (args is None or isinstance(args, Mapping)):
        raise UserError("config", Problem("args", "use is the name of the reward inside, args a mapping of its options"))
    inner, files = _function(use, args or {}, None, context)
    reward = LengthPenalty(inner, target_tokens, max_penalty, span_tokens)
    reward.source_files = files
    reward.correctness |= ":" in use  # a user's own function is required by default, wrapped or not
    return reward


REGISTRY: dict[str, Entry] = {
    "format": Entry(make_format_reward, "exactly one non-empty <reasoning>, then one non-empty <answer>, nothing else"),
    "partial_format": Entry(make_partial_format_reward, "share of the structure that is present, each tag once and in order"),
    "exact": Entry(make_correctness_reward, "the last complete <answer> equals the gold"),
    "math": Entry(make_math_reward, "equal to the gold in value and kind"),
    "choice": Entry(make_choice_reward, "the one chosen letter is the gold's"),
    "schema": Entry(make_schema_reward, "one strict JSON value that validates"),
    "json": Entry(make_json_reward, "one strict JSON value equal to the expected one"),
    "tool_calls": Entry(make_tool_call_reward, "the expected calls with the same typed arguments, none extra"),
    "code": Entry(make_code_reward, "every test passes, judged outside the candidate's process"),
    "length": Entry(make_configured_length, "the reward inside gives 1.0 and the completion is no longer than target_tokens"),
    "overlong": Entry(make_configured_overlong, "(0 is best) 0 up to the last `cache` tokens, from there falling to -1"),
    "judge": Entry(make_configured_judge, "a calibrated judge of another model family says pass"),
}


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
    context = run_context(config)
    for index, section in enumerate(config.rewards):
        try:
            reward = _build(section, context)
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


def run_context(config: Config) -> Context:
    """What the config says of the run, for rewards that need to know it."""
    model, sampling = getattr(config, "model", None), getattr(config, "sampling", {})
    base = Path(config.base)
    policy = getattr(model, "name_or_path", None)
    if policy is not None and (base / Path(policy).expanduser()).is_dir():
        policy = str(base / Path(policy).expanduser())
    return Context(base, policy, sampling.get("max_completion_length"))


def _build(section: RewardSection, context: Context) -> BuiltReward:
    function, files = _function(section.use, section.args or {}, section.name, context)
    if ":" in section.use:
        required = True if section.required is None else section.required
    else:
        required = function.correctness if section.required is None else section.required
    return BuiltReward(function.__name__, function, float(section.weight), required, tuple(function.columns), files)


def _function(use: str, args: Mapping[str, Any], name: str | None, context: Context) -> tuple[Any, tuple[Path, ...]]:
    """The callable behind `use`, named, and the files that decide its scores."""
    if ":" in use:
        user = UserReward(name or use.rpartition(":")[2], use, context.base, args)
        return user, tuple(dict.fromkeys([*(source_files(user.path) if user.path else ()), *_files_named(args, context)]))
    reward = make_builtin(use, args, context)
    # A length penalty has the name of what it wraps in its own, which is there already.
    reward.__name__ = name or (reward.__name__ if isinstance(reward, LengthPenalty) else use)
    return reward, tuple(dict.fromkeys([*builtin_source_files(), *getattr(reward, "source_files", ())]))


def _files_named(args: Mapping[str, Any], context: Context) -> list[Path]:
    """Files that options name: a function that reads one rests on it."""
    paths = [context.resolve(value) for value in args.values() if isinstance(value, str) and value and "\0" not in value]
    return [path.resolve() for path in paths if len(path.name) < 256 and path.is_file()]


def make_builtin(use: str, args: Mapping[str, Any], context: Context | None = None) -> Reward:
    """The built-in reward `use` with its options; UserError("config") for an unknown name or option."""
    if use not in REGISTRY:
        close = difflib.get_close_matches(use, REGISTRY, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UserError("config", Problem("use", f"there is no reward {use!r}", f"{hint}use one of {', '.join(REGISTRY)}, or file.py:function"))
    make = REGISTRY[use].make
    parameters = inspect.signature(make).parameters
    options = [name for name in parameters if name != "context"]
    given = {**args, "context": context or Context()} if "context" in parameters else args
    problems = []
    for key in args:
        if key not in options:
            close = difflib.get_close_matches(key, options, n=1)
            fix = f"did you mean {close[0]!r}?" if close else f"its options: {', '.join(options) or 'none'}"
            problems.append(Problem("args", f"the reward {use!r} has no option {key!r}", fix))
    for key in options:
        if parameters[key].default is inspect.Parameter.empty and key not in args:
            problems.append(Problem(f"args.{key}", f"the reward {use!r} needs it", f"its options: {', '.join(options)}"))
    if problems:
        raise UserError("config", problems)
    try:
        return make(**given)
    except TypeError as exc:
        raise UserError("config", Problem("args", f"the reward {use!r}: {exc}")) from exc
