"""Records to JSON and back. What comes from outside is checked, never executed, and refused in one line."""

import msgspec

from tare.errors import BadInput
from tare.records.record import VERSION, Record, Round

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)

_record = msgspec.json.Decoder(Record)
_round = msgspec.json.Decoder(Round)


class _Head(msgspec.Struct):
    version: str


_head = msgspec.json.Decoder(_Head)


def encode(document: object) -> bytes:
    return msgspec.json.encode(document)


def decode_record(text: bytes | str, where: str) -> Record:
    """A record, or BadInput that names the place, the field and, for another major version, both versions."""
    try:
        version = _head.decode(text).version
        if version.partition(".")[0] != VERSION.partition(".")[0]:
            raise BadInput(
                f"{where} holds a record of version {version[:20]}; this tare reads {VERSION}: upgrade tare-bench"
            )
        return _record.decode(text)
    except UNREADABLE as error:
        raise BadInput(f"{where} is not a record: {error}") from None


def decode_round(text: bytes | str, where: str) -> Round:
    try:
        return _round.decode(text)
    except UNREADABLE as error:
        raise BadInput(f"{where} is not a round: {error}") from None
