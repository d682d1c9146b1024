"""CSV, for a spreadsheet or a data frame: one line per record with its case, status and figures in SI units."""

import csv
import io
from collections.abc import Sequence

import msgspec

from tare.records.record import Record
from tare.report.formats import record_format
from tare.report.ladder import make_row, sizes

HEAD = (
    "id", "run", "created", "workload", "rung", "mode", "device", "precision", "batch", "sizes", "feed", "layout",
    "optimizer", "threads", "status", "parity", "parity_error", "rounds", "gross_s", "gross_low_s", "gross_high_s",
    "net_s", "tare_s",
    "latency_s", "device_s", "prepare_cold_s", "prepare_warm_s", "host_peak_bytes", "device_peak_bytes",
    "environment",
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
    row = make_row(record)
    figures = {name: value for name, value in msgspec.structs.asdict(row).items() if name in HEAD}
    return (
        msgspec.structs.asdict(record.case)
        | figures
        | {
            "id": record.id,
            "run": record.run,
            "created": record.created,
            "sizes": sizes(record.case.sizes),
            "status": record.failure.cause if record.failure else "ok",
            "rounds": len(record.rounds),
            "gross_s": row.gross and row.gross.mid,
            "gross_low_s": row.gross and row.gross.low,
            "gross_high_s": row.gross and row.gross.high,
            "latency_s": row.latency and row.latency.mid,
            "host_peak_bytes": row.host_bytes,
            "device_peak_bytes": row.device_bytes,
            "environment": record.environment.id,
        }
    )
