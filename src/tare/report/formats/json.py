"""JSON: all of every record with its raw samples and its figures, or a whole comparison."""

from collections.abc import Sequence

import msgspec

from tare.guard.changes import Report
from tare.records.codec import encode
from tare.records.figures import Figures, make_figures
from tare.records.record import VERSION, Record
from tare.report.formats import comparison_format, record_format

# What msgspec writes.
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class RecordDocument(Record, frozen=True, kw_only=True):
    """A record as `tare export` writes it. `tare import` ignores the figures, and computes them anew."""

    figures: Figures


@record_format("json", "every record whole, raw samples included; tare show and tare import read it")
def records_json(records: Sequence[Record]) -> str:
    return _indented(encode([_document(record) for record in records]))


def schema_text() -> str:
    """The JSON Schema of what `records_json` writes. Every number has its `unit` there."""
    head = {"$schema": DIALECT, "title": f"Records of tare, version {VERSION}"}
    text = _indented(encode({**head, **msgspec.json.schema(list[RecordDocument])}))
    # Other languages do not know Python's \\Z; their $ matches only at the very end.
    return text.replace(r'\\Z"', '$"')


def _document(record: Record) -> RecordDocument:
    return RecordDocument(
        **{name: getattr(record, name) for name in Record.__struct_fields__}, figures=make_figures(record)
    )


@comparison_format("json", "the whole comparison, for scripts")
def comparison_json(report: Report) -> str:
    return _indented(msgspec.json.encode(report))


def _indented(document: bytes) -> str:
    return msgspec.json.format(document, indent=1).decode() + "\n"
