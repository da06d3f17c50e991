"""Is the completion one strict JSON value that is equal to the row's."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from grpo_rlvr.completions import strip_special_tokens
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.json_text import FENCES, json_value, keys_of, typed_key
from grpo_rlvr.rewards.strict_json import read_json


class JsonReward(Reward):
    """1.0 if what stands outside of the reasoning is one strict JSON value equal to the expected one, else 0.0 (or a share, with `partial`).

    Equal in type and value at every place: `true` is no number, `1` is `1.0`, text is compared letter by letter, no key may be
    missing or added; white space and the order of keys are free. A value that fills one `<answer>` block is unwrapped. Gold that
    cannot be read raises GoldError with the row.
    """

    columns = ("expected",)
    correctness = True
    gold_error_raises = True

    def __init__(self, name: str, fence: str = "forbid", any_order: bool = False, partial: bool = False):
        super().__init__(name)
        problems = [Problem(name, f"fence is {fence!r}", f"use one of {', '.join(FENCES)}")] if fence not in FENCES else []
        for option, value in (("any_order", any_order), ("partial", partial)):
            if not isinstance(value, bool):
                problems.append(Problem(name, f"{option} is {value!r}", "use true or false"))
        if problems:
            raise UserError("config", problems)
        self.fence, self.any_order, self.partial = fence, any_order, partial

    def read_gold(self, expected: Any) -> tuple[Any, Any]:
        """The expected value and its key."""
        expected = read_json(expected, "the expected value is", otherwise="; a plain text is written with its quotes, as JSON")
        return expected, typed_key(expected, self.any_order)

    def honest_forms(self, gold: tuple[Any, Any]) -> list[str]:
        """Compact, indented, with keys in another order, in the answer tag; in a fence where one is taken off."""
        value = gold[0]
        text = json.dumps(value, ensure_ascii=False)
        turned = json.dumps(dict(reversed(value.items())), separators=(",", ":")) if isinstance(value, dict) else text
        fenced = [f"```json\n{json.dumps(value, indent=2)}\n```"] if self.fence == "strip" else []
        return [text, json.dumps(value, indent=2), turned, f"<answer>\n{text}\n</answer>", *fenced]

    def words_needed(self, gold: tuple[Any, Any]) -> list[str]:
        """The keys, at every depth."""
        return keys_of(gold[0])

    def clearly_different(self, gold: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
        # What shares some fields earns a share, which may be a pass.
        return not self.partial and gold[1] != other[1]

    def score_one(self, text: str, gold: tuple[Any, Any]) -> float:
        found = json_value(strip_special_tokens(text), self.fence)
        if found is None:
            return 0.0
        if typed_key(found[0], self.any_order) == gold[1]:
            return 1.0
        return self._share(found[0], gold[0]) if self.partial else 0.0

    def _share(self, made: Any, wanted: Any) -> float:
        if isinstance(made, dict) and isinstance(wanted, dict):
            right = sum(k in made and typed_key(made[k], self.any_order) == typed_key(v, self.any_order) for k, v in wanted.items())
            return right / max(len(made.keys() | wanted.keys()), 1)
        if isinstance(made, list) and isinstance(wanted, list):
            a, b = ([typed_key(v, self.any_order) for v in values] for values in (made, wanted))
            right = (Counter(a) & Counter(b)).total() if self.any_order else sum(x == y for x, y in zip(a, b, strict=False))
            return right / max(len(a), len(b), 1)
        return 0.0


def make_json_reward(fence: str = "forbid", any_order: bool = False, partial: bool = False) -> JsonReward:
    """The JSON reward.

    Args:
        fence: "strip" takes one outer code fence off, "forbid" scores it 0.
        any_order: lists are equal whatever the order of their items.
        partial: pay equal fields / all fields of both (of a list: items) instead of all or nothing; a field counts whole. A wrong
            value then earns something: watch the share that is wholly right.
    """
    return JsonReward("json_reward", fence=fence, any_order=any_order, partial=partial)
