"""Scalars of TensorBoard event files, read without TensorBoard.

An event file is a sequence of TFRecords: length (uint64, little endian), its masked CRC (4 bytes), the data, its CRC
(https://www.tensorflow.org/tutorials/load_data/tfrecord). The data is an `Event` message of protocol buffers
(tensorflow/core/util/event.proto: step = 2, summary = 5; framework/summary.proto: value = 1, tag = 1, simple_value = 2,
tensor = 8; framework/tensor.proto: dtype = 1, tensor_content = 4, float_val = 5, double_val = 6). CRCs are not checked: a
record that was cut short ends the file, and garbage ends it too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_LARGEST = 64 << 20  # bytes of one record; images can be large, garbage lengths are larger


def scalars(path: Path) -> Iterator[tuple[int, str, float]]:
    """(step, tag, value) of each scalar in the file, in the order written."""
    with open(path, "rb") as file:
        while len(head := file.read(12)) == 12:
            (length,) = struct.unpack("<Q", head[:8])
            if length > _LARGEST:
                return
            data = file.read(length)
            if len(data) < length or len(file.read(4)) < 4:
                return
            try:
                yield from _event(data)
            except (IndexError, struct.error, ValueError):
                return


def _event(data: bytes) -> Iterator[tuple[int, str, float]]:
    step, summaries = 0, []
    for number, kind, value in fields(data):
        if number == 2 and kind == 0:
            step = value if value < 1 << 63 else value - (1 << 64)
        elif number == 5 and kind == 2:
            summaries.append(value)
    for summary in summaries:
        for number, kind, value in fields(summary):
            if number == 1 and kind == 2:
                tag, scalar = _value(value)
                if scalar is not None:
                    yield step, tag, scalar


def _value(data: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, kind, value in fields(data):
        if number == 1 and kind == 2:
            tag = value.decode("utf-8", "replace")
        elif number == 2 and kind == 5:
            (scalar,) = struct.unpack("<f", value)
        elif number == 8 and kind == 2:
            scalar = _tensor(value)
    return tag, scalar


def _tensor(data: bytes) -> float | None:
    """The value of a tensor that holds one float or double (dtype 1 or 2)."""
    dtype, found = 0, None
    for number, kind, value in fields(data):
        if number == 1 and kind == 0:
            dtype = value
        elif number in (4, 5, 6) and kind in (1, 2, 5):
            found = value
    form = {1: "<f", 2: "<d"}.get(dtype)
    return struct.unpack(form, found)[0] if form and found is not None and len(found) == struct.calcsize(form) else None


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(field number, wire type, value) of a message: an int for varints, bytes else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        length = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            length, at = _varint(data, at)
        if length is None or at + length > len(data):
            raise ValueError("not a message")
        yield number, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise ValueError("not a number")
