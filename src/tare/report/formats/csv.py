"""CSV, for a spreadsheet or a data frame: one line per record with its case, status and figures in SI units."""

import csv
import io
from collections.abc import Sequence

import msgspec

from tare.cases.case import Case
from tare.records.figures import Figures, make_figures
from tare.records.record import Record
from tare.report.formats import record_format
from tare.report.ladder import sizes

HEAD = (
    "id", "run", "created", *Case.__struct_fields__, "status", "parity", "parity_error", "rounds",
    *Figures.__struct_fields__, "tokens_per_step", "environment",
)  # fmt: skip


@record_format("csv", "one line per record, in SI units")
def records_csv(records: Sequence[Record]) -> str:
    text = io.StringIO()
    lines = csv.DictWriter(text, HEAD)
    lines.writeheader()
    for record in records:
        lines.writerow(_line(record))
    return text.getvalue()


def _line(record: Record) -> dict[str, object]:
    return (
        msgspec.structs.asdict(record.case)
        | msgspec.structs.asdict(make_figures(record))
        | {
            "id": record.id,
            "run": record.run,
            "created": record.created,
            "sizes": sizes(record.case.sizes),
            "status": record.failure.cause if record.failure else "ok",
            "parity": record.parity.status,
            "parity_error": record.parity.error,
            "rounds": len(record.rounds),
            "tokens_per_step": record.tokens_per_step,
            "environment": record.environment.id,
        }
    )
