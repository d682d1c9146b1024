"""The wire format: what an encoder writes is read back, and anything else is refused without harm."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xspaces import field, varint

from tare.system import protobuf
from tare.system.protobuf import FIXED64, LENGTH, VARINT, DamagedMessage, fields, key, signed, text

VALUES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(), st.binary())


def read(data: bytes) -> list[tuple[int, int, protobuf.Extent]]:
    return list(fields(data, (0, len(data))))


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), VALUES)))
def test_what_is_written_is_read(written: list[tuple[int, Any]]) -> None:
    data = b"".join(field(number, value) for number, value in written)
    for (number, value), (found, varied, extent) in zip(written, read(data), strict=True):
        if isinstance(value, int):
            assert (found, signed(varied)) == (key(number, VARINT), value)
        elif isinstance(value, float):
            assert (found, data[slice(*extent)]) == (key(number, FIXED64), field(1, value)[1:])
        else:
            assert found == key(number, LENGTH)
            assert data[slice(*extent)] == (value.encode() if isinstance(value, str) else value)


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_within_them_or_refused(data: bytes) -> None:
    with suppress(DamagedMessage):
        for _, value, (begin, end) in read(data):
            assert 0 <= begin <= end <= len(data)
            assert 0 <= value < 2**64


@given(st.lists(st.tuples(st.integers(1, 40), VALUES), min_size=1), st.data())
def test_a_message_that_is_cut_within_a_field_is_refused(
    written: list[tuple[int, Any]], data: st.DataObject
) -> None:
    parts = [field(number, value) for number, value in written]
    whole = b"".join(parts)
    cut = data.draw(st.integers(len(whole) - len(parts[-1]) + 1, len(whole) - 1))
    with pytest.raises(DamagedMessage):
        read(whole[:cut])


@pytest.mark.parametrize(
    "data",
    [
        varint(1 << 3 | 3),
        varint(1 << 3 | 4),
        varint(1 << 3 | 7),
        b"\x80" * 11,
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x09abc",
    ],
    ids=[
        "begin of a group",
        "end of a group",
        "no kind",
        "a number without end",
        "a length beyond the end",
        "a short double",
    ],
)
def test_what_no_message_contains_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedMessage):
        read(data)


def test_text_that_is_no_utf_8_is_marked() -> None:
    assert text(b"a\xffb", (0, 3)) == "a\ufffdb"
