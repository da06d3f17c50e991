"""Check a value against a JSON Schema and say every problem in words; numbers written as text are read by their type.

The part of JSON Schema that the config's schema uses. The jsonschema package agrees on what is valid (a test compares
them); it is not used here because importing it with the format checkers takes a second, and its messages speak of
instances where a person needs the name of a line in a file.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from grpo_rlvr.errors import Problem

KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "minimum", "maximum", "exclusiveMinimum", "minItems", "minLength",
}  # fmt: skip
ANNOTATIONS = {"$schema", "title", "description", "default", "examples"}

_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS = {
    "integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text", "array": "a list", "object": "a mapping",
    "null": "null",
}  # fmt: skip


def nearest(name: Any, names: Iterable[str], fallback: str = "") -> str:
    """`did you mean ...?` for the closest of `names`, else `fallback`."""
    close = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else fallback


def got(value: Any) -> str:
    """What was written, in words: its kind and its value, shortened."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, (dict, list)):
        return f"{'a mapping' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    if isinstance(value, bool):
        return str(value).lower()
    return f"the {'text' if isinstance(value, str) else 'number' if isinstance(value, (int, float)) else type(value).__name__} {text}"


def check(value: Any, schema: dict, where: str = "") -> tuple[Any, list[Problem]]:
    """`value` with numbers and booleans read by their declared type, and all the problems found.

    Text becomes a number only where the schema allows a number and no text (`"5e-7"` for a rate, `"8"` for a count), and
    `"true"`/`"false"` a boolean likewise; a whole float becomes an int where an integer is wanted.
    """
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    value = _coerce(value, types)
    if types and not any(_is(value, t) for t in types):
        return value, [Problem(where, f"must be {' or '.join(_WORDS[t] for t in types)}, got {got(value)}", _type_fix(value, types, schema))]
    if "enum" in schema and not any(value == e and isinstance(value, bool) == isinstance(e, bool) for e in schema["enum"]):
        choices = [e for e in schema["enum"] if isinstance(e, str)]
        return value, [Problem(where, f"must be one of {', '.join(choices)}; got {got(value)}", nearest(value, choices, "write one of these"))]
    if isinstance(value, dict):
        return _check_mapping(value, schema, where)
    if isinstance(value, list):
        return _check_list(value, schema, where)
    return value, _bounds(value, schema, where)


def _check_mapping(value: dict, schema: dict, where: str) -> tuple[dict, list[Problem]]:
    known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    out, problems = {}, []
    for key, item in value.items():
        place = f"{where}.{key}" if where else str(key)
        if key in known:
            out[key], found = check(item, known[key], place)
        elif rest is False:
            known_keys = f"known keys here: {', '.join(known)}" if len(known) <= 20 else "see templates/config.schema.json for the known keys"
            found = [Problem(place, "there is no such key", nearest(key, known, known_keys))]
        else:
            out[key], found = check(item, rest if isinstance(rest, dict) else {}, place)
        problems += found
    for key in schema.get("required", []):
        if key not in value:
            description = known.get(key, {}).get("description", "")
            problems.append(Problem(f"{where}.{key}" if where else key, "is missing" + (f" ({description})" if description else ""), f"add `{key}:`"))
    return out, problems


def _check_list(value: list, schema: dict, where: str) -> tuple[list, list[Problem]]:
    pairs = [check(item, schema.get("items", {}), f"{where}[{i}]") for i, item in enumerate(value)]
    problems = [p for _, found in pairs for p in found]
    if len(value) < schema.get("minItems", 0):
        problems.append(Problem(where, f"must have at least {schema['minItems']} entry, got {len(value)}", "add one"))
    return [item for item, _ in pairs], problems


def _bounds(value: Any, schema: dict, where: str) -> list[Problem]:
    if isinstance(value, str):
        least = schema.get("minLength", 0)
        if len(value) >= least:
            return []
        if least > 1:
            return [Problem(where, f"must have at least {least} characters, got {len(value)}", "say more")]
        return [Problem(where, "must not be empty text", "write a value or delete the line")]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return []
    low, high, above = schema.get("minimum", -math.inf), schema.get("maximum", math.inf), schema.get("exclusiveMinimum", -math.inf)
    if low <= value <= high and (value > above or above == -math.inf):
        return []
    limits = [f"at least {low}"] * (low > -math.inf) + [f"greater than {above}"] * (above > -math.inf) + [f"at most {high}"] * (high < math.inf)
    return [Problem(where, f"must be {' and '.join(limits)}, got {value}")]


def _coerce(value: Any, types: list[str]) -> Any:
    if isinstance(value, str) and types and "string" not in types:
        text = value.strip()
        if {"integer", "number"} & set(types) and len(text) <= 40 and _INTEGER.fullmatch(text):
            value = int(text)
        elif {"integer", "number"} & set(types) and len(text) <= 40 and _NUMBER.fullmatch(text):
            value = float(text)
        elif "boolean" in types and text.lower() in ("true", "false"):
            value = text.lower() == "true"
    if isinstance(value, str) and "object" in types and value.lstrip().startswith("{"):
        # TRL takes its mappings as JSON text too; reading it here lets every later check see inside.
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, float) and "integer" in types and "number" not in types and value.is_integer():
        return int(value)
    return value


def _is(value: Any, kind: str) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, {"string": str, "array": list, "object": dict}[kind])


def _type_fix(value: Any, types: list[str], schema: dict) -> str:
    if value is None:
        default = schema.get("default")
        return "delete the line to get the default" + (f" ({default})" if default is not None else "") if "default" in schema else "write a value"
    if "string" in types and isinstance(value, (int, float)):
        return "put the value in quotes"
    if "boolean" in types and len(types) == 1:
        return "write true or false"
    if "array" in types and "string" not in types:
        return "write a list: one `- ...` line for each entry"
    return "write a plain number" if {"integer", "number"} & set(types) else ""
