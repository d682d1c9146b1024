"""Records to JSON and back. Input is validated; what is malformed is refused with a one-line BadInput."""

from pathlib import Path

import msgspec

from tare.errors import BadInput, brief
from tare.records.record import VERSION, Record, Round
from tare.system.bounded_files import read_json

# TypeError: a damaged database may hold a value of another type in place of the document.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)
# Present in every trace of torch.profiler, which users sometimes pass instead of a file of records.
TRACE = b'"traceEvents"'

encode = msgspec.json.encode
_record = msgspec.json.Decoder(Record)
_round = msgspec.json.Decoder(Round)


class _Head(msgspec.Struct):
    version: str


_head = msgspec.json.Decoder(_Head)


def decode_record(text: bytes | str, where: str) -> Record:
    """BadInput names `where`, the offending field and, for an unknown version, both versions."""
    try:
        version = _head.decode(text).version
        if version != VERSION:
            raise BadInput(
                f"{where} holds a record of version {version[:20]}; this tare reads {VERSION}: upgrade tare-bench"
            )
        return _record.decode(text)
    except UNREADABLE as error:
        raise BadInput(f"{where} is not a record: {brief(error)}") from None


def names_file(term: str) -> bool:
    """Whether a term on the command line names a file of records rather than records in the store."""
    return term.endswith((".json", ".json.gz"))


def read_records(path: Path) -> list[Record]:
    """The records in a file written by `tare export --format json`, gzipped or not."""
    return decode_records(read_json(path), str(path))


def decode_records(data: bytes, where: str) -> list[Record]:
    try:
        documents = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        if TRACE in data:
            raise BadInput(f"{where} is a trace, not a file of records: tare explain {where}") from None
        raise BadInput(f"{where} is not a file of records: {error}") from None
    return [decode_record(bytes(raw), f"{where}, record {i}") for i, raw in enumerate(documents, 1)]


def decode_round(text: bytes | str, where: str) -> Round:
    try:
        return _round.decode(text)
    except UNREADABLE as error:
        raise BadInput(f"{where} is not a round: {brief(error)}") from None
