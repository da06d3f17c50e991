"""Rewards that look at the length: a penalty around another reward, and DAPO's soft overlong punishment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from grpo_rlvr.completions import assistant_text
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.context import Context
from grpo_rlvr.rewards.values import checked_values, settled


def completion_lengths(name: str, completions: Sequence[Any], columns: dict[str, Any]) -> list[int]:
    """Length of each completion in tokens: of `completion_ids` (what the trainer passes), else `completion_token_counts` (counts).

    Only without both, words of the assistant's text. With tools, the trainer's ids hold the tools' results too.
    """
    for column in ("completion_ids", "completion_token_counts"):
        values = columns.get(column)
        if values is None:
            continue
        if len(values) != len(completions):
            message = f"{column} has {len(values)} values for {len(completions)} completions"
            raise UserError("reward", Problem(name, message))
        return [len(v) for v in values] if column == "completion_ids" else [int(v) for v in values]
    return [len(assistant_text(completion).split()) for completion in completions]


class LengthPenalty(Reward):
    """Another reward, less for what is longer than the target.

    Up to `target_tokens` nothing changes. From there a positive score s falls in a straight line, to
    s * (1 - max_penalty) at `target_tokens + span_tokens` and beyond. It stays positive, so a long right answer is worth
    more than a wrong one; zero, negative scores and None pass through, so being short is never paid.
    """

    def __init__(self, reward: Callable, target_tokens: int, max_penalty: float, span_tokens: int | None, name: str | None = None):
        inner = reward_name(reward)
        super().__init__(name or f"{inner}_within_{target_tokens}_tokens")
        problems = []
        if not callable(reward):
            problems.append(Problem(self.__name__, f"reward is {reward!r:.60}, which cannot be called"))
        for option, value in (("target_tokens", target_tokens), ("span_tokens", span_tokens)):
            if not (_is_count(value) or (value is None and option == "span_tokens")):
                problems.append(Problem(self.__name__, f"{option} is {value!r}", "a whole number of tokens, 1 or more"))
        if isinstance(max_penalty, bool) or not isinstance(max_penalty, (int, float)) or not 0 < max_penalty < 1:
            fix = "a share between 0 and 1; at 1 a long right answer would be worth no more than a wrong one"
            problems.append(Problem(self.__name__, f"max_penalty is {max_penalty!r}", fix))
        if problems:
            raise UserError("config", problems)
        self.reward, self.target_tokens, self.max_penalty = reward, target_tokens, float(max_penalty)
        self.span_tokens = span_tokens or target_tokens
        self.inner_name = inner
        self.columns = tuple(getattr(reward, "columns", ()))
        self.correctness = bool(getattr(reward, "correctness", False))

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        scores = checked_values(self.inner_name, settled(self.reward(completions=completions, **columns)), len(completions))
        lengths = completion_lengths(self.__name__, completions, columns)
        self.unscored += sum(score is None for score in scores)
        return [self._lowered(score, length) for score, length in zip(scores, lengths, strict=True)]

    def _lowered(self, score: float | None, length: int) -> float | None:
        if score is None or score <= 0 or length <= self.target_tokens:
            return score
        lowered = score * (1 - self.max_penalty * min(1.0, (length - self.target_tokens) / self.span_tokens))
        return lowered if lowered > 0 else score  # the least of all floats has nothing below it but zero

    def read_gold(self, *values: Any) -> Any:
        own = getattr(self.reward, "read_gold", None)
        return own(*values) if callable(own) else values[0] if len(values) == 1 else values

    def honest_forms(self, gold: Any) -> list[str]:
        own = getattr(self.reward, "honest_forms", None)
        return own(gold) if callable(own) else []

    def honest_forms_of_row(self, row: dict, gold: Any) -> list[str]:
        own = getattr(self.reward, "honest_forms_of_row", None)
        return own(row, gold) if callable(own) else self.honest_forms(gold)

    def decoys(self, gold: Any) -> list[tuple[str, str]]:
        own = getattr(self.reward, "decoys", None)
        return own(gold) if callable(own) else []

    def test_count(self, gold: Any) -> int | None:
        own = getattr(self.reward, "test_count", None)
        return own(gold) if callable(own) else None

    def words_needed(self, gold: Any) -> list[str]:
        own = getattr(self.reward, "words_needed", None)
        return own(gold) if callable(own) else []

    def clearly_different(self, gold: Any, other: Any) -> bool:
        own = getattr(self.reward, "clearly_different", None)
        return bool(own(gold, other)) if callable(own) else False

    def prepare(self) -> None:
        if callable(getattr(self.reward, "prepare", None)):
            self.reward.prepare()

    def gold_problem(self, row: dict) -> str | None:
        """What the wrapped reward says of this row's gold."""
        own = getattr(self.reward, "gold_problem", None)
        return own(row) if callable(own) else None


def with_length_penalty(reward: Callable, target_tokens: int, max_penalty: float = 0.5, span_tokens: int | None = None) -> LengthPenalty:
    """`reward` with a penalty on length that never turns a right answer into a wrong one.

    Args:
        reward: any reward function; called with the same arguments. A wrong length, a scalar, NaN or infinity from it is a
            ValueError that names it.
        target_tokens: up to this length nothing changes.
        max_penalty: the share of a positive score that is lost at most; below 1. The default keeps a right answer at 0.5 or more.
        span_tokens: the penalty is full at `target_tokens + span_tokens`; by default at twice the target.
    """
    return LengthPenalty(reward, target_tokens, max_penalty, span_tokens)


class OverlongReward(Reward):
    """0 up to `max_completion_length - cache` tokens, then falling in a straight line to -1 at `max_completion_length`."""

    def __init__(self, max_completion_length: int, cache: int):
        super().__init__("overlong_reward")
        problems = []
        if not _is_count(max_completion_length):
            problems.append(Problem(self.__name__, f"max_completion_length is {max_completion_length!r}", "a whole number of tokens, 1 or more"))
        elif not _is_count(cache) or cache > max_completion_length:
            fix = f"a whole number of tokens from 1 to max_completion_length ({max_completion_length})"
            problems.append(Problem(self.__name__, f"cache is {cache!r}", fix))
        if problems:
            raise UserError("config", problems)
        self.max_completion_length, self.cache = max_completion_length, cache

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        free = self.max_completion_length - self.cache
        lengths = completion_lengths(self.__name__, completions, columns)
        return [0.0 if n <= free else max(-1.0, (free - n) / self.cache) for n in lengths]


def make_overlong_reward(max_completion_length: int, cache: int) -> OverlongReward:
    """DAPO's soft overlong punishment (arXiv 2503.14476, equation 13), to be added beside a correctness reward.

    Args:
        max_completion_length: L_max of the paper, the trainer's limit in tokens. A completion that was cut off there gets -1.
        cache: L_cache, the last tokens before the limit, over which the punishment grows (the paper: 4,096 of 20,480).
    """
    return OverlongReward(max_completion_length, cache)


def make_configured_overlong(cache: int, max_completion_length: int | None = None, *, context: Context) -> OverlongReward:
    """`use: overlong` of a config.

    Args:
        cache: the last tokens before the limit, over which the punishment grows from 0 to -1.
        max_completion_length: the limit in tokens; by default the trainer's.
    """
    limit = context.max_completion_length
    if max_completion_length is None and limit is None:
        raise UserError("config", Problem("args.max_completion_length", "the limit is not known", "give it, in tokens"))
    reward = make_overlong_reward(limit if max_completion_length is None else max_completion_length, cache)
    if limit is not None and reward.max_completion_length - cache >= limit:
        begin = reward.max_completion_length - cache
        message = f"the punishment would begin after {begin} tokens, but grpo.max_completion_length {limit} cuts completions off before"
        raise UserError("config", Problem("args.cache", message, "raise cache, or leave max_completion_length out"))
    return reward


def reward_name(reward: Any) -> str:
    """A name for any callable: its own, else that of the function inside it, else of its class."""
    while not getattr(reward, "__name__", None) and hasattr(reward, "func"):
        reward = reward.func
    name = getattr(reward, "__name__", None) or type(reward).__name__
    return name if name != "<lambda>" else f"lambda_{_place(reward)}"


def _place(function: Any) -> str:
    try:
        return str(inspect.unwrap(function).__code__.co_firstlineno)
    except AttributeError:
        return "reward"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
