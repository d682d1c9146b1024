"""The wire format of Protocol Buffers: the fields of a message, read in place and within its bounds.

XLA's profiles are such messages. The package protobuf is no dependency: TensorFlow pins its version, and its
generated classes may be registered only once a process; six kinds of message need no more than this.
https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Iterator

# How a field's value is stored. Groups (3 and 4) are in nothing that is read here.
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
# A number has 64 bits, in bytes of seven.
LONGEST_VARINT = 10

# Where a message, a text or a fixed number begins and ends in the data.
Extent = tuple[int, int]


class DamagedMessage(ValueError):
    """The data are no message, or end within one."""


def key(number: int, kind: int) -> int:
    """What stands before a field with this number and this kind of value."""
    return number << 3 | kind


def fields(data: bytes, extent: Extent) -> Iterator[tuple[int, int, Extent]]:
    """The fields of a message: the key, the value of a varint (0 for another kind), and where the value is."""
    at, end = extent
    while at < end:
        # Nearly all keys are one byte, and a call takes longer than the rest.
        field, begin = (data[at], at + 1) if data[at] < 0x80 else varint(data, at, end)
        kind, value = field & 7, 0
        if kind == VARINT:
            short = begin < end and data[begin] < 0x80
            value, at = (data[begin], begin + 1) if short else varint(data, begin, end)
        elif kind == LENGTH:
            short = begin < end and data[begin] < 0x80
            size, begin = (data[begin], begin + 1) if short else varint(data, begin, end)
            at = begin + size
        elif kind in _SIZES:
            at = begin + _SIZES[kind]
        else:
            raise DamagedMessage(f"a field of the unknown kind {kind}")
        if at > end:
            raise DamagedMessage("it ends within a field")
        yield field, value, (begin, at)


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins here, and where it ends."""
    value = 0
    for shift in range(0, 7 * LONGEST_VARINT, 7):
        if at >= end:
            raise DamagedMessage("it ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise DamagedMessage("a number of more than 64 bits")


def signed(value: int) -> int:
    """The value of a varint that is an int64."""
    return value - (1 << 64) if value >> 63 else value


def text(data: bytes, extent: Extent) -> str:
    return data[slice(*extent)].decode("utf-8", "replace")
