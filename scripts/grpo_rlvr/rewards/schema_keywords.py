"""Keywords of JSON Schema that jsonschema checks with rounding, in quadratic time, or with patterns that may never end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

PATTERN_S = 1.0


def multiple_of(validator: Any, step: Any, value: Any, schema: Any) -> Iterator:
    """0.3 is a multiple of 0.1: decimals are what they are written as, not what floats make of them."""
    from jsonschema import ValidationError

    if validator.is_type(value, "number") and Fraction(str(value)) % Fraction(str(step)):
        yield ValidationError(f"no multiple of {step}")


def unique_items(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator:
    """In linear time; jsonschema compares every object of a list with every other."""
    from jsonschema import ValidationError

    if wanted and validator.is_type(value, "array") and len({_comparable(item) for item in value}) != len(value):
        yield ValidationError("two items are equal")


def _comparable(value: Any) -> Any:
    """A hashable value that is equal for equal JSON: 1 is 1.0, true is not 1, key order does not count."""
    if isinstance(value, dict):
        return ("object", frozenset((key, _comparable(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_comparable(item) for item in value))
    return ("bool", value) if isinstance(value, bool) else value


def pattern(validator: Any, wanted: str, value: Any, schema: Any) -> Iterator:
    """See `searcher`."""
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and not searcher(wanted)(value):
        yield ValidationError("does not match the pattern")


def pattern_properties(validator: Any, patterns: dict, value: Any, schema: Any) -> Iterator:
    """Names that match a pattern have values of its schema."""
    if validator.is_type(value, "object"):
        for wanted, part in patterns.items():
            for name, item in value.items():
                if searcher(wanted)(name):
                    yield from validator.descend(item, part, path=name, schema_path=wanted)


def additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator:
    """What neither `properties` nor `patternProperties` names."""
    from jsonschema import ValidationError

    if not validator.is_type(value, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in value:
        if name in known or any(searcher(wanted)(name) for wanted in patterns):
            continue
        if allowed is False:
            yield ValidationError("a property that is not allowed")
        elif allowed is not True:
            yield from validator.descend(value[name], allowed, path=name)


KEYWORDS = {
    "multipleOf": multiple_of,
    "uniqueItems": unique_items,
    "pattern": pattern,
    "patternProperties": pattern_properties,
    "additionalProperties": additional_properties,
}


@lru_cache(maxsize=1024)
def searcher(wanted: str) -> Callable[[str], Any]:
    """A search for a pattern of a schema. Raises re.error for a pattern that Python cannot read.

    As in JavaScript, whose patterns these are, `$` is the end and not the line end before it. A search of more than `PATTERN_S` seconds
    raises TimeoutError, so that a text cannot stall the run by a pattern such as `^(a+)+$`; that needs the package `regex`,
    which transformers brings along. Without it there is no limit.
    """
    source = _ends_at_the_end(wanted)
    compiled = re.compile(source)
    try:
        import regex

        limited = regex.compile(source)
    except Exception:  # not installed, or a pattern that only `re` can read
        return compiled.search
    return lambda text: limited.search(text, timeout=PATTERN_S)


def _ends_at_the_end(wanted: str) -> str:
    r"""`wanted` with `\Z` for each `$` that stands outside of a class and is no escape."""
    out, in_class, i = [], False, 0
    while i < len(wanted):
        c = wanted[i]
        if c == "\\":
            out.append(wanted[i : i + 2])
            i += 2
            continue
        in_class = c == "[" or (in_class and c != "]")
        out.append("\\Z" if c == "$" and not in_class else c)
        i += 1
    return "".join(out)
