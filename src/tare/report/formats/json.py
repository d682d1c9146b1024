"""JSON: all of every record with its raw samples, or a whole comparison."""

from collections.abc import Sequence

import msgspec

from tare.guard.changes import Report
from tare.records.codec import encode
from tare.records.record import Record
from tare.report.formats import comparison_format, record_format


@record_format("json", "every record whole, raw samples included; tare show and tare import read it")
def records_json(records: Sequence[Record]) -> str:
    return _indented(encode(list(records)))


@comparison_format("json", "the whole comparison, for scripts")
def comparison_json(report: Report) -> str:
    return _indented(msgspec.json.encode(report))


def _indented(document: bytes) -> str:
    return msgspec.json.format(document, indent=1).decode() + "\n"
