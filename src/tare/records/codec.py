"""Records to JSON and back. What comes from outside is checked, never executed, and refused in one line."""

import gzip
import zlib
from pathlib import Path

import msgspec

from tare.errors import BadInput, brief
from tare.records.record import VERSION, Record, Round

# TypeError: a damaged database may hold no text at all where the document was.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)
# What every trace of torch.profiler holds; people give one to `show` as well.
TRACE = b'"traceEvents"'

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
        raise BadInput(f"{where} is not a record: {brief(error)}") from None


def names_file(term: str) -> bool:
    """Whether a term on the command line is a file of records, not a word to look for in a store."""
    return term.endswith((".json", ".json.gz"))


def read_records(path: Path) -> list[Record]:
    """The records in a file that `tare export --format json` wrote, compressed or not."""
    return decode_records(read_file(path), str(path))


def read_file(path: Path) -> bytes:
    """What is in a file, or in it compressed where its name ends in .gz."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be unpacked, it is damaged or cut off: {error}") from None


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
