"""Are the tool calls that were made the calls that were wanted, with arguments of the same types and values."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.completions import completion_text, outside_reasoning, strip_special_tokens
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.json_text import typed_key
from grpo_rlvr.rewards.strict_json import NotJson, decode_strict, parse_strict, read_json
from grpo_rlvr.tool_call_text import CALL_CLOSE, CALL_OPEN, find_tool_calls


def call_key(call: Any) -> tuple[str, Any]:
    """Name and typed arguments of one call. Raises ValueError with what is wrong with it.

    Read are {"name", "arguments"} and {"function": {"name", "arguments"}}; `parameters` for `arguments`; arguments as an
    object or as the JSON text of one; absent, null and empty text are no arguments.
    """
    if not isinstance(call, dict):
        raise ValueError(f"a call is a {type(call).__name__}, not an object")
    if isinstance(call.get("function"), dict):
        call = call["function"]
    name = call.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ValueError("a call has no name")
    if "arguments" in call and "parameters" in call:
        raise ValueError(f"the call of {name!r} has both arguments and parameters")
    arguments = call.get("arguments", call.get("parameters"))
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = parse_strict(arguments)
        except NotJson as exc:
            raise ValueError(f"the arguments of {name!r} are text that is not JSON: {exc}") from None
    arguments = {} if arguments is None or arguments == "" else arguments
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of {name!r} are a {type(arguments).__name__}, not an object")
    return name, typed_key(arguments)


@dataclass(frozen=True)
class CallsGold:
    """The expected calls: `keys` to compare (see `call_key`), and as the row has them."""

    keys: list[tuple[str, Any]]
    calls: list[Any]


def _plain_call(call: dict) -> dict[str, Any]:
    """A call that was read, as {"name", "arguments"} with the arguments as an object."""
    call = call["function"] if isinstance(call.get("function"), dict) else call
    arguments = call.get("arguments", call.get("parameters"))
    if isinstance(arguments, str):
        arguments = parse_strict(arguments) if arguments.strip() else {}
    return {"name": call["name"], "arguments": arguments or {}}


class ToolCallReward(Reward):
    """1.0 if the calls of the completion are exactly the expected ones, else 0.0 (or a share, with `partial`).

    A call is right as a whole: same name, same arguments, none missing, none added, values equal in type (`true` is no
    number, `1` is `1.0`, text is compared letter by letter). A further call, a repeated one and one that cannot be read
    are wrong, and a call that was made stays made: thinking again after it takes nothing back. Where no call is expected,
    1.0 is for a reply in words: saying nothing is no answer. Gold that cannot be read raises GoldError with the row.
    """

    columns = ("expected_calls",)
    correctness = True
    gold_error_raises = True

    def __init__(self, name: str, ordered: bool = False, partial: bool = False, tagged: bool = False):
        super().__init__(name)
        for option, value in (("ordered", ordered), ("partial", partial), ("tagged", tagged)):
            if not isinstance(value, bool):
                raise UserError("config", Problem(name, f"{option} is {value!r}", "use true or false"))
        self.ordered, self.partial, self.tagged = ordered, partial, tagged

    def read_gold(self, expected_calls: Any) -> CallsGold:
        expected_calls = read_json(expected_calls, "the expected calls are", absent="; where no call is wanted, write an empty list")
        if isinstance(expected_calls, dict):
            expected_calls = [expected_calls]
        if not isinstance(expected_calls, (list, tuple)):
            raise ValueError(f"the expected calls are a {type(expected_calls).__name__}, not a list")
        return CallsGold([call_key(call) for call in expected_calls], list(expected_calls))

    def honest_forms(self, gold: CallsGold) -> list[str]:
        """In tags, as bare JSON, in a fence; with keys in another order. Not for rows without a call: any words are right there."""
        calls = [_plain_call(call) for call in gold.calls]
        if not calls:
            return []
        turned = [{"arguments": dict(reversed(call["arguments"].items())), "name": call["name"]} for call in calls]
        tagged = "\n".join(f"{CALL_OPEN}\n{json.dumps(call, ensure_ascii=False)}\n{CALL_CLOSE}" for call in calls)
        compact = "".join(f"{CALL_OPEN}{json.dumps(call, separators=(',', ':'))}{CALL_CLOSE}" for call in turned)
        if self.tagged:
            return [tagged, compact]
        return [tagged, compact, json.dumps(calls), "\n".join(map(json.dumps, calls)), f"```json\n{json.dumps(calls, indent=2)}\n```"]

    def words_needed(self, gold: CallsGold) -> list[str]:
        """The functions and their arguments."""
        calls = [_plain_call(call) for call in gold.calls]
        return [word for call in calls for word in (call["name"], *call["arguments"])]

    def clearly_different(self, gold: CallsGold, other: CallsGold) -> bool:
        # A share of the calls earns a share, which may be a pass.
        return not self.partial and bool(other.keys) and Counter(gold.keys) != Counter(other.keys)

    def read_completion(self, completion: Any) -> Any:
        return completion  # calls may stand in the messages, not in their text

    def score_one(self, completion: Any, calls: CallsGold) -> float:
        gold = calls.keys
        found = find_tool_calls(completion, decode_strict, self.tagged)
        if found is None:
            return 0.0
        if not gold:
            words = strip_special_tokens(outside_reasoning(completion_text(completion)))
            return float(not found and any(map(str.isalnum, words)))
        if not self.partial and len(found) != len(gold):
            return 0.0
        try:
            made = [call_key(call) for call in found]
        except ValueError:
            return 0.0
        if made == gold:
            return 1.0
        if not self.partial and (self.ordered or len(gold) == 1):
            return 0.0
        in_place = sum(a == b for a, b in zip(made, gold, strict=False))
        right = in_place if self.ordered else (Counter(made) & Counter(gold)).total()
        share = right / max(len(made), len(gold))
        return share if self.partial else float(share == 1.0)


def make_tool_call_reward(ordered: bool = False, partial: bool = False, tagged: bool = False) -> ToolCallReward:
    """The tool-call reward.

    Args:
        ordered: the calls must come in the order of the gold (default: any order, as for calls made in parallel).
        partial: pay right calls / max(made, expected) instead of all or nothing; a call counts whole, and every further
            call lowers the share. With `ordered`, a call counts at its own place only.
        tagged: calls in the text count in `<tool_call>` tags only; one without them earns 0 (default: bare and fenced JSON
            is read too, where there is no such tag).
    """
    return ToolCallReward("tool_call_reward", ordered=ordered, partial=partial, tagged=tagged)
