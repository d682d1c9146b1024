"""All of every record, raw samples included, as one JSON array."""

from collections.abc import Iterable

import msgspec

from tare.records.codec import encode
from tare.records.record import Record


def export(records: Iterable[Record]) -> str:
    return msgspec.json.format(encode(list(records)), indent=1).decode() + "\n"
