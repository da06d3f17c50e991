"""Python values as tagged JSON, both ways. Runs on both sides of the sandbox (Python 3.8 or newer).

What crosses is plain data of exact built-in types. A subclass crosses as the built-in value it holds, so none of its
methods is ever called on the other side, and anything else crosses as an opaque `{"o": [type name, truth]}` that equals nothing.
"""

import collections
import datetime
import sys
from decimal import Decimal
from fractions import Fraction

MOST_NODES, MOST_DEPTH, MOST_HEX = 1_000_000, 100, 200_000
# Of a fraction, whose every reading costs a greatest common divisor; of keys with one hash, which cost the square of their number.
MOST_FRACTION_HEX, MOST_TWINS = 20_000, 64
_SMALL = 2**53


class Opaque:
    """A value that cannot cross; equal to nothing, itself included."""

    def __init__(self, type_name, truth=None):
        self.type_name, self.truth = type_name, truth

    def __eq__(self, other):
        return False

    def __ne__(self, other):
        return True

    __hash__ = object.__hash__

    def __repr__(self):
        return f"<{self.type_name}>"


class TooLarge(ValueError):
    """More data than one value may hold."""


class Encoder:
    """Turns values into tagged JSON.

    Args:
        opaque: called with a value that is no plain data; returns what stands for it.
    """

    def __init__(self, opaque=None):
        self.opaque = opaque or (lambda value: {"o": [type_name(value), None]})
        self.left = MOST_NODES

    def encode(self, value, depth=0):
        self.left -= 1
        if self.left < 0 or depth > MOST_DEPTH:
            raise TooLarge("the value is too large or nested too deeply")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        bases = kind.__mro__
        if bool in bases:
            return value
        if int in bases:
            return _whole(int.__int__(value))
        if float in bases:
            return {"f": float.hex(float.__float__(value))}
        if str in bases:
            return str.__str__(value)
        if list in bases:
            return {"l": [self.encode(item, depth + 1) for item in list.__iter__(value)]}
        if tuple in bases:
            return {"t": [self.encode(item, depth + 1) for item in tuple.__iter__(value)]}
        if dict in bases:
            return {"d": [[self.encode(k, depth + 1), self.encode(v, depth + 1)] for k, v in dict.items(value)]}
        if set in bases:
            return {"s": [self.encode(item, depth + 1) for item in set.__iter__(value)]}
        if frozenset in bases:
            return {"z": [self.encode(item, depth + 1) for item in frozenset.__iter__(value)]}
        if bytes in bases or bytearray in bases:
            return {"b": bytes(value).hex()}
        if complex in bases:
            return {"c": [float.hex(value.real), float.hex(value.imag)]}
        if kind is Fraction:
            return {"q": [_whole(value.numerator, MOST_FRACTION_HEX), _whole(value.denominator, MOST_FRACTION_HEX)]}
        if kind is Decimal:
            text = str(value)
            if len(text) > MOST_HEX:
                raise TooLarge(f"a decimal number of {len(text)} characters")
            return {"D": text}
        if kind is datetime.datetime or kind is datetime.date or kind is datetime.time:
            return {"T": [kind.__name__, value.isoformat()]}
        if kind is datetime.timedelta:
            return {"T": ["timedelta", [value.days, value.seconds, value.microseconds]]}
        if kind.__module__ == "numpy" and hasattr(kind, "tolist"):
            return self.encode(value.tolist(), depth + 1)
        return self.opaque(value)


def encode(value):
    """`value` as tagged JSON; TooLarge for too much of it."""
    return Encoder().encode(value)


def decode(tagged, handle=None):
    """The value of tagged JSON; ValueError for what is none.

    Args:
        handle: called with the body of an `{"h": ...}` tag, which stands for an object on the other side.
    """
    try:
        return _Decoder(handle).decode(tagged)
    except Exception:  # whatever a candidate makes up
        raise ValueError("no tagged value") from None


class _Decoder:
    """Reads one value; as much as an Encoder writes, and no more."""

    def __init__(self, handle):
        self.handle, self.left = handle, MOST_NODES

    def decode(self, tagged):
        kind = type(tagged)
        if kind is str or kind is int or kind is bool or tagged is None:
            return tagged
        if kind is not dict:
            raise ValueError("no tagged value")
        ((tag, body),) = tagged.items()
        return _DECODERS[tag](body, self)

    def all(self, body):
        if type(body) is not list:
            raise ValueError("no list")
        self.left -= len(body)
        if self.left < 0:
            raise TooLarge("the value is too large")
        decode = self.decode
        return [decode(item) for item in body]

    def keys(self, body):
        found = self.all(body)
        if len(found) > MOST_TWINS and max(collections.Counter(map(hash, found)).values()) > MOST_TWINS:
            raise TooLarge("too many keys with one hash")
        return found


def _decode_dict(body, decoder):
    return dict(zip(decoder.keys([k for k, _ in body]), decoder.all([v for _, v in body])))


def _decode_number(text, most):
    if len(text) > most + 3:
        raise TooLarge("a number of too many digits")
    return text


def _decode_time(body, decoder):
    name, text = body
    if name == "timedelta":
        return datetime.timedelta(*text)
    return {"date": datetime.date, "datetime": datetime.datetime, "time": datetime.time}[name].fromisoformat(text)


def _decode_fraction(body, decoder):
    parts = [part if type(part) is int else int(_decode_number(part["i"], MOST_FRACTION_HEX), 16) for part in body]
    return Fraction(*parts)


def _decode_handle(body, decoder):
    if decoder.handle is None:
        raise ValueError("a handle where none is expected")
    return decoder.handle(body)


_DECODERS = {
    "i": lambda body, decoder: int(_decode_number(body, MOST_HEX), 16),
    "f": lambda body, decoder: float.fromhex(body),
    "l": lambda body, decoder: decoder.all(body),
    "t": lambda body, decoder: tuple(decoder.all(body)),
    "s": lambda body, decoder: set(decoder.keys(body)),
    "z": lambda body, decoder: frozenset(decoder.keys(body)),
    "d": _decode_dict,
    "b": lambda body, decoder: bytes.fromhex(body),
    "c": lambda body, decoder: complex(float.fromhex(body[0]), float.fromhex(body[1])),
    "q": _decode_fraction,
    "D": lambda body, decoder: Decimal(_decode_number(body, MOST_HEX)),
    "T": _decode_time,
    "o": lambda body, decoder: Opaque(str(body[0])[:100], body[1] if type(body[1]) is bool else None),
    "h": _decode_handle,
}


def _whole(number, most_hex=MOST_HEX):
    if -_SMALL < number < _SMALL:
        return number
    if number.bit_length() > 4 * most_hex:
        raise TooLarge(f"a whole number of {number.bit_length()} bits")
    return {"i": hex(number)}


def type_name(value):
    try:
        return str(type(value).__name__)[:100]
    except BaseException:
        return "?"


def deep_enough():
    """Room for values as deep as MOST_DEPTH, whatever limit the candidate set."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * MOST_DEPTH + 500))
