"""A small value that a JSON Schema accepts, for schemas of the common kinds; the caller validates it."""

from __future__ import annotations

import math
from typing import Any

NOTHING = object()  # no value was found; None is a value
FORMATS = {
    "date": "2024-01-31", "time": "12:00:00Z", "date-time": "2024-01-31T12:00:00Z", "duration": "P1D", "email": "a@example.org",
    "idn-email": "a@example.org", "hostname": "example.org", "idn-hostname": "example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
    "uri": "https://example.org/", "uri-reference": "/a", "iri": "https://example.org/", "iri-reference": "/a", "uri-template": "/{a}",
    "uuid": "123e4567-e89b-42d3-a456-426614174000", "json-pointer": "/a", "relative-json-pointer": "0", "regex": "a", "byte": "YQ==",
}  # fmt: skip
_MAX_DEPTH, _MAX_LENGTH = 20, 1000


def minimal_instance(schema: Any) -> Any:
    """A value with only what the schema requires, or NOTHING where this simple search finds none."""
    try:
        return _build(schema, schema, 0)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError):
        return NOTHING


def _build(schema: Any, root: Any, depth: int) -> Any:
    if schema is True:
        return None
    if schema is False or depth > _MAX_DEPTH:
        return NOTHING
    if "$ref" in schema:
        rest = {k: v for k, v in schema.items() if k != "$ref"}
        return _build(_merged([rest, _target(schema["$ref"], root)]), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "allOf" in schema:
        return _build(_merged([{k: v for k, v in schema.items() if k != "allOf"}, *schema["allOf"]]), root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            rest = {k: v for k, v in schema.items() if k != keyword}
            return next((v for part in schema[keyword] if (v := _build(_merged([rest, part]), root, depth + 1)) is not NOTHING), NOTHING)
    kinds = schema.get("type") or _implied(schema)
    kind = kinds[0] if isinstance(kinds, list) else kinds
    return {"object": _object, "array": _array, "string": _string, "integer": _number, "number": _number}.get(kind, _constant)(schema, root, depth)


def _target(ref: str, root: Any) -> Any:
    if ref != "#" and not ref.startswith("#/"):
        raise KeyError(ref)
    for step in ref[2:].split("/") if len(ref) > 1 else []:
        step = step.replace("~1", "/").replace("~0", "~")
        root = root[int(step)] if isinstance(root, list) else root[step]
    return root


def _merged(parts: list[dict]) -> dict:
    """All parts in one schema: properties and required names are joined, of other keywords the last one stays."""
    out: dict[str, Any] = {}
    for part in parts:
        if part is True:
            continue
        for key, value in part.items():
            if key == "properties" and key in out:
                value = {**out[key], **value}
            elif key == "required" and key in out:
                value = list(dict.fromkeys([*out[key], *value]))
            out[key] = value
    return out


def _implied(schema: dict) -> str:
    if "properties" in schema or "required" in schema or "minProperties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema or "minItems" in schema:
        return "array"
    if "minimum" in schema or "exclusiveMinimum" in schema or "multipleOf" in schema:
        return "number"
    return "string" if "minLength" in schema or "format" in schema or "pattern" in schema else "null"


def _object(schema: dict, root: Any, depth: int) -> Any:
    known = schema.get("properties", {})
    names = list(dict.fromkeys(schema.get("required", [])))
    names += [n for n in known if n not in names][: max(0, schema.get("minProperties", 0) - len(names))]
    out = {name: _build(known.get(name, True), root, depth + 1) for name in names}
    return NOTHING if NOTHING in out.values() else out


def _array(schema: dict, root: Any, depth: int) -> Any:
    first, rest = schema.get("prefixItems", []), schema.get("items", True)
    least = min(max(schema.get("minItems", 0), len(first) if rest is False else 0), _MAX_LENGTH)
    out = [_build(first[i] if i < len(first) else rest, root, depth + 1) for i in range(least)]
    if schema.get("uniqueItems") and least > 1 and all(type(v) is int for v in out):
        out = [v + i for i, v in enumerate(out)]
    return NOTHING if NOTHING in out else out


def _string(schema: dict, root: Any, depth: int) -> Any:
    text = FORMATS.get(schema.get("format"), "")
    least = schema.get("minLength", 1)
    return (text or "a").ljust(min(least, _MAX_LENGTH), "a") if not ("pattern" in schema and not text) else NOTHING


def _number(schema: dict, root: Any, depth: int) -> Any:
    step = schema.get("multipleOf", 1)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    value = 0 if low is None or low < 0 else math.ceil(low / step) * step
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        value += step
    if high is not None and (value > high or (value == high and "exclusiveMaximum" in schema)):
        # Between two bounds closer than a whole step, or below zero.
        value = math.floor(high / step) * step if low is None else (low + high) / 2
        if "exclusiveMaximum" in schema and value >= high:
            value -= step
    return value


def _constant(schema: dict, root: Any, depth: int) -> Any:
    return True if schema.get("type") == "boolean" else None
