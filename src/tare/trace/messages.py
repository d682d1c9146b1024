"""What the profiler records of a collective's message: operation, element type, sizes, and the group of ranks.

Since torch 2.2 these are arguments of the kernel and of the operator record_param_comms. They are untrusted:
what is malformed counts as not recorded.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from tare.system.text import printable

# Bytes of an element by its name in the trace: c10::ScalarType's, as torch writes it.
ELEMENT_BYTES = {
    "float": 4, "double": 8, "half": 2, "bfloat16": 2, "int": 4, "long": 8, "short": 2, "char": 1, "byte": 1,
    "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "complexfloat": 8,
}  # fmt: skip


class CollectiveMessage(NamedTuple):
    """`sent` and `received` are bytes; -1 and the empty text where the profiler did not record it."""

    operation: str = ""
    sent: int = -1
    received: int = -1
    ranks: int = -1
    group: str = ""
    # The ranks of the group as torch writes them, which cuts long lists: '[0, 1, 2, 3]'.
    members: str = ""


def read_message(texts: Sequence[bytes]) -> CollectiveMessage:
    """From the JSON of operation, element type, sent and received elements, group size, group name and
    members."""
    if len(texts) != 7:
        return CollectiveMessage()
    operation, element, sent, received, ranks, group, members = map(_value, texts)
    size = ELEMENT_BYTES.get(str(element).lower().rpartition("::")[2], -1)
    counts = [_count(value) for value in (sent, received)]
    bytes_ = [count * size if count >= 0 and size > 0 else -1 for count in counts]
    # torch says 0 ranks where it does not know the group.
    return CollectiveMessage(
        _text(operation), bytes_[0], bytes_[1], _count(ranks) or -1, _text(group), _text(members)
    )


def _value(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None


def _text(value: Any) -> str:
    return printable(str(value), 80) if isinstance(value, str | int) else ""


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 18:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50 else -1
