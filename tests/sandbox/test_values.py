"""Plain values cross unchanged; everything else stays outside."""

# ruff: noqa: E501

from __future__ import annotations

import datetime
import enum
import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from fractions import Fraction

import pytest
from grpo_rlvr.sandbox.inside import frames
from grpo_rlvr.sandbox.inside.values import Opaque, TooLarge, decode, encode
from hypothesis import given
from hypothesis import strategies as st

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.fractions()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner) | st.frozensets(st.integers()),
    max_leaves=20,
)


def crossed(value):
    return decode(json.loads(json.dumps(encode(value))))


@given(PLAIN)
def test_plain_values_cross_unchanged(value):
    assert repr(crossed(value)) == repr(value) or crossed(value) == value


@pytest.mark.parametrize(
    "value",
    [
        10**4200,
        -(2**64),
        math.inf,
        "\ud800",
        "é🙂",
        Decimal("1.10"),
        datetime.date(2026, 1, 2),
        datetime.timedelta(1, 2, 3),
        datetime.datetime(2026, 1, 2, 3, 4, 5),
    ],
)
def test_odd_plain_values_cross(value):
    assert crossed(value) == value and type(crossed(value)) is type(value)
    assert math.isnan(crossed(math.nan))


def test_subclasses_cross_as_what_they_hold():
    Point = namedtuple("Point", "x y")
    Color = enum.IntEnum("Color", "RED")
    counted, ordered, default = Counter("aab"), OrderedDict(a=1), defaultdict(list, a=[1])
    values = [Point(1, 2), Color.RED, counted, ordered, default, type("S", (str,), {"__eq__": lambda *_: True})("x")]
    got = crossed(values)
    assert got == [(1, 2), 1, {"a": 2, "b": 1}, {"a": 1}, {"a": [1]}, "x"]
    assert [type(item) for item in got] == [tuple, int, dict, dict, dict, str]


def test_anything_else_is_opaque_and_equals_nothing():
    for value in (object(), lambda: 1, (n for n in range(3)), range(3), type, math):
        got = crossed(value)
        assert isinstance(got, Opaque) and got != got and got != value


def test_too_much_is_refused():
    deep: list = []
    for _ in range(1000):
        deep = [deep]
    wide = [0] * 1000
    circle: list = []
    circle.append(circle)
    for value in (deep, [wide] * 1000, circle, 1 << 10_000_000, Fraction(1, 3**100_000), Decimal("1" * 300_000)):
        with pytest.raises((TooLarge, RecursionError)):
            encode(value)


@pytest.mark.parametrize(
    "tagged",
    [[1], {"x": 1}, {"l": 3}, {"l": [1], "t": []}, {"f": "nope"}, {"i": "zz"}, {"i": 3}, {"d": [[{"l": []}, 1]]}, {"s": [{"l": []}]}, {"b": "0"}, {"h": [0]},
     {"q": [1, 0]}, {"D": "x"}, {"T": ["eval", "1"]}, {"T": ["date", "x"]}, {"o": 3}, {"c": ["1"]}, 1.5],
)  # fmt: skip
def test_what_is_no_value_is_an_error_of_one_kind(tagged):
    with pytest.raises(ValueError):
        decode(tagged)


@pytest.mark.parametrize(
    "tagged",
    [{"l": [{"l": [0] * 1000}] * 1001}, {"s": [{"i": hex(k * (2**61 - 1))} for k in range(1, 100_000)]}, {"d": [[{"i": hex(k * (2**61 - 1))}, 0] for k in range(1, 100_000)]},
     {"q": [{"i": "f" * 100_000}, {"i": "e" * 100_000}]}, {"i": "f" * 300_000}, {"D": "9" * 300_000}],
    ids=["too many", "one hash", "one hash in a dict", "fraction", "whole number", "decimal number"],
)  # fmt: skip
def test_more_than_an_encoder_writes_is_refused_before_it_costs_anything(tagged):
    with pytest.raises(ValueError):
        decode(tagged)


def test_sets_of_frozen_sets_cross():
    assert crossed({frozenset({1, 2}), frozenset()}) == {frozenset({1, 2}), frozenset()}
    assert crossed({frozenset({1}): 2}) == {frozenset({1}): 2}


@given(st.binary(max_size=200), st.lists(st.integers(1, 50)))
def test_messages_are_cut_the_same_however_they_arrive(junk, cuts):
    whole = frames.pack({"a": junk.hex()}) + frames.pack([1, 2]) + frames.pack(None)
    splitter, found, at = frames.Splitter(1 << 20), [], 0
    for cut in [*cuts, len(whole)]:
        found += splitter.feed(whole[at : at + cut])
        at += cut
    found += splitter.feed(whole[at:])
    assert [json.loads(message[4:]) for message in found] == [{"a": junk.hex()}, [1, 2], None]
    with pytest.raises(ValueError):
        frames.Splitter(10).feed((11).to_bytes(4, "big"))
