"""What the reward benchmark scores: short right and wrong completions of each reward, long ones, and text made to be slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.rewards import make_rubric_judge_reward
from grpo_rlvr.rewards.judge_verdict import parse_verdict
from grpo_rlvr.rewards.registry import make_builtin

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]}
PASS, FAIL = '{"verdict": "pass"}', '{"verdict": "fail"}'


def nothing(i: int) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Case:
    """How to measure one reward: a right and a wrong short completion of item i, its columns, and a long completion.

    `values` are what right and wrong ones must get, `ids` the number of tokens of a right and a wrong one where they count.
    `bound` names the library call that a slow reward spends its time in, and `bare` makes that call alone.
    """

    use: str
    right: Callable[[int], str]
    wrong: Callable[[int], str]
    long: Callable[[int], str]
    gold: Callable[[int], dict[str, Any]] = nothing
    args: dict[str, Any] = field(default_factory=dict)
    values: tuple[float, float] = (1.0, 0.0)
    ids: tuple[int, int] | None = None
    make: Callable[[], Callable] | None = None
    bound: str = ""
    bare: Callable[[list[str]], Any] | None = None

    def reward(self) -> Callable:
        return self.make() if self.make else make_builtin(self.use, self.args)


def tagged(answer: object) -> str:
    return f"<reasoning>We add one to the number that is given.</reasoning>\n<answer>{answer}</answer>"


def number(i: int) -> dict[str, Any]:
    return {"answer": str(i)}


def letter(i: int) -> dict[str, Any]:
    return {"answer": "ABCD"[i % 4]}


def in_words(chosen: str, i: int = 0) -> str:
    return f"Half of it is six, and a quarter is three. So for {i} the answer is {chosen}."


def person(age: object) -> str:
    return f'{{"name": "Ada", "age": {age}}}'


def call(n: object) -> str:
    return f'<tool_call>{{"name": "add", "arguments": {{"a": {n}, "b": 1}}}}</tool_call>'


def validate(texts: list[str]) -> list[bool]:
    from grpo_rlvr.rewards.schemas import compile_schema

    validator = compile_schema(json.dumps(SCHEMA))
    return [validator.is_valid(json.loads(text)) for text in texts]


def loads(texts: list[str]) -> list[Any]:
    return [json.loads(text) for text in texts]


def decode(texts: list[str]) -> list[Any]:
    return [json.JSONDecoder().raw_decode(text, len("<tool_call>")) for text in texts]


def hand_over(texts: list[str]) -> list[int]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(len, texts))


def instant_judge() -> Callable:
    return make_rubric_judge_reward(lambda question: PASS if "\ngood" in question else FAIL, "Is good.")


def read_replies() -> Callable:
    return lambda completions: [{True: 1.0, False: 0.0, None: None}[parse_verdict(reply)] for reply in completions]


def prose(size: int) -> str:
    return "We go over the steps once more, a < b and {x} is 3. " * (size // 52)


def no_tags(i: int) -> str:
    return f"{i} is the answer"


def long_tagged(size: int) -> str:
    return f"<reasoning>{prose(size)}</reasoning><answer>7</answer>"


CASES = {
    "format": Case("format", tagged, no_tags, long_tagged),
    "partial_format": Case("partial_format", tagged, no_tags, long_tagged),
    "exact": Case("exact", tagged, lambda i: tagged(i + 1), long_tagged, number),
    "math": Case("math", tagged, lambda i: tagged(i + 1), long_tagged, number),
    "choice": Case("choice", lambda i: tagged("ABCD"[i % 4]), lambda i: tagged("ABCD"[i % 4 - 1]),
                   lambda size: long_tagged(size).replace("<answer>7<", "<answer>D<"), letter),
    "choice in words": Case("choice", lambda i: in_words("BCD"[i % 3], i), lambda i: in_words("BCD"[i % 3 - 1], i),
                            lambda size: prose(size) + in_words("C"), lambda i: {"answer": "BCD"[i % 3]}),
    "schema": Case("schema", person, lambda i: person('"old"'), lambda size: f'{{"name": {json.dumps(prose(size))}, "age": 7}}',
                   lambda i: {"output_schema": json.dumps(SCHEMA)}, bound="json.loads + jsonschema Validator.is_valid", bare=validate),
    "json": Case("json", person, lambda i: person('"old"'), lambda size: f"<think>{prose(size)}</think>{person(7)}",
                 lambda i: {"expected": person(i)}, bound="json.loads", bare=loads),
    "tool_calls": Case("tool_calls", call, lambda i: call(i + 1), lambda size: f"<think>{prose(size)}</think>{call(7)}",
                       lambda i: {"expected_calls": json.dumps([{"name": "add", "arguments": {"a": i, "b": 1}}])},
                       bound="json.JSONDecoder.raw_decode", bare=decode),
    "length": Case("length", tagged, lambda i: tagged(i + 1), long_tagged, number, {"use": "exact", "target_tokens": 64}, ids=(40, 400)),
    "overlong": Case("overlong", tagged, tagged, long_tagged, args={"max_completion_length": 256, "cache": 64}, values=(0.0, -1.0), ids=(40, 256)),
    "judge, instant client": Case("judge", lambda i: f"good {i}", lambda i: f"bad {i}", lambda size: "good " + prose(size), make=instant_judge,
                                  bound="ThreadPoolExecutor.map (the server bounds it in a run)", bare=hand_over),
    "judge, its reply": Case("judge", lambda i: f"Point {i} is met.\n{PASS}", lambda i: f"Point {i} is not met.\n{FAIL}",
                             lambda size: prose(size) + "\n" + PASS, make=read_replies),
}  # fmt: skip
# What long text is built of to make a careless pattern or loop take the square of its length.
HOSTILE = (
    "<answer>", "</answer>", "<reasoning>", "</reasoning>", "<think>", "\\boxed{", "\\boxed{}", "####", "{", "[", '{"a":', "[1,", '{"a":1},', '"',
    "<tool_call>", '<tool_call>{"name":"f","arguments":{}}</tool_call>', "\n", " ", "\t\n", "<|im_end|>", "</s>", "\u0316\u0301", "```",
    "The answer is (A). ", "The answer is A or ", "not A, ", "A ", "A\n", "answer ", "$", "1,", "9", PASS, '{"verdict": ', "\\", "((", "a",
)  # fmt: skip
