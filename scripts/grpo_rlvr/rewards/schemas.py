"""Is the completion one strict JSON value that validates against the row's JSON Schema."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from grpo_rlvr.completions import strip_special_tokens
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.json_text import FENCES, json_value
from grpo_rlvr.rewards.schema_formats import format_checker
from grpo_rlvr.rewards.schema_instance import NOTHING, minimal_instance
from grpo_rlvr.rewards.schema_keywords import KEYWORDS, searcher
from grpo_rlvr.rewards.strict_json import read_json

# Values under these keywords are data, not schemas.
DATA_KEYWORDS = ("const", "enum", "default", "examples")
# One value of each type: what a schema does to these shows unresolvable references and endless recursion.
TRIAL_VALUES = (None, True, 0, 1.5, "", "a", [], {}, [{}], {"a": {}})
# The annotation-only formats of OpenAPI: there is nothing to check in them.
SIZE_FORMATS = ("int32", "int64", "float", "double", "byte", "binary", "password")


class SchemaReward(Reward):
    """1.0 if what follows the reasoning is one strict JSON value that validates, else 0.0.

    A value that fills one `<answer>` block is unwrapped. A schema that cannot be used raises GoldError with the row.
    One schema in the place of the column is for all completions.
    """

    columns = ("output_schema",)
    correctness = True
    gold_error_raises = True
    one_for_all = True

    def __init__(self, name: str, fence: str = "forbid"):
        super().__init__(name)
        if fence not in FENCES:
            raise UserError("config", Problem(name, f"fence is {fence!r}", f"use one of {', '.join(FENCES)}"))
        self.fence = fence

    def read_gold(self, output_schema: Any) -> Any:
        output_schema = read_json(output_schema, "the schema is")
        if not isinstance(output_schema, dict):
            raise ValueError(f"the schema is a {type(output_schema).__name__}, not an object")
        if not output_schema:
            raise ValueError("the schema is empty: every value would pass")
        return compile_schema(json.dumps(output_schema))

    def honest_forms(self, gold: Any) -> list[str]:
        value = minimal_instance(gold.schema)
        if value is NOTHING or not gold.is_valid(value):
            return []
        text = json.dumps(value, ensure_ascii=False)
        return [text, json.dumps(value, indent=2), f"<answer>\n{text}\n</answer>"]

    def score_one(self, text: str, gold: Any) -> float:
        value = json_value(strip_special_tokens(text), self.fence)
        return 1.0 if value is not None and gold.is_valid(value[0]) else 0.0


@lru_cache(maxsize=1024)
def compile_schema(text: str) -> Any:
    """The validator of a schema given as JSON text. Raises ValueError if nothing could ever be judged by it."""
    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, extend, validator_for

    schema = json.loads(text)
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as exc:
        raise ValueError(f"not a valid JSON Schema at {exc.json_path}: {exc.message[:200]}") from None
    checker = format_checker(kind)
    _check_parts(schema, checker)
    registry = _check_references(schema)
    validator = extend(kind, KEYWORDS)(schema, registry=registry, format_checker=checker)
    for value in TRIAL_VALUES:
        try:
            validator.is_valid(value)
        except RecursionError:
            raise ValueError("the schema refers to itself without end") from None
        except Exception as exc:
            raise ValueError(f"the schema cannot be used: {type(exc).__name__}: {str(exc)[:200]}") from None
    return validator


def _check_parts(schema: Any, checker: Any) -> None:
    """Faults that the meta-schema lets pass: broken patterns, `const: null` beside another type, formats nobody checks."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(part)
        if not isinstance(part, dict):
            continue
        patterns = [part["pattern"]] if isinstance(part.get("pattern"), str) else []
        if isinstance(part.get("patternProperties"), dict):
            patterns.extend(part["patternProperties"])
        for pattern in patterns:
            try:
                searcher(pattern)
            except re.error as exc:
                raise ValueError(f"the pattern {pattern!r} cannot be read: {exc}") from None
        kinds = part.get("type")
        if "const" in part and part["const"] is None and kinds is not None and kinds != "null" and not (isinstance(kinds, list) and "null" in kinds):
            raise ValueError("const is null beside another type: was a missing key filled with null?")
        wanted = part.get("format")
        if isinstance(wanted, str) and wanted not in checker.checkers and wanted not in SIZE_FORMATS:
            known = ", ".join(sorted(checker.checkers))
            raise ValueError(f"the format {wanted!r} cannot be checked here; known: {known} (more with pip install 'jsonschema[format-nongpl]')")
        stack.extend(value for key, value in part.items() if key not in DATA_KEYWORDS and not (key == "format" and isinstance(value, str)))


def _check_references(schema: dict) -> Any:
    """Resolves every `$ref` without fetching anything; returns the registry that the validator is to use."""
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    todo = [(resource, REGISTRY.resolver_with_root(resource))]
    while todo:
        part, resolver = todo.pop()
        if isinstance(part.contents, dict):
            for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                ref = part.contents.get(keyword)
                if not isinstance(ref, str):
                    continue
                try:
                    resolver.lookup(ref)
                except Unresolvable:
                    raise ValueError(f"the reference {ref!r} points nowhere (references to the network are not fetched)") from None
        todo.extend((sub, resolver.in_subresource(sub)) for sub in part.subresources())
    return REGISTRY


def make_schema_reward(fence: str = "forbid") -> SchemaReward:
    """The JSON Schema reward.

    Args:
        fence: "forbid" (default: what a program would have to parse is the text itself), or "strip" one outer
            Markdown code fence before parsing.
    """
    return SchemaReward("schema_reward", fence=fence)
