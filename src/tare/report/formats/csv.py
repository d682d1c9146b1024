"""CSV, for a spreadsheet or a data frame: one line per record with its case, status and figures in SI units."""

import csv
import io
from collections.abc import Sequence

import msgspec

from tare.records.figures import device_peak, device_time, gross, host_peak, latency, net, preparation, tare
from tare.records.record import Record
from tare.report.formats import record_format

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
    step, delay = gross(record), latency(record)
    cold, warm = preparation(record)
    case = msgspec.structs.asdict(record.case)
    case["sizes"] = " ".join(f"{name}={value}" for name, value in record.case.sizes.items())
    return case | {
        "id": record.id,
        "run": record.run,
        "created": record.created,
        "status": record.failure.cause if record.failure else "ok",
        "parity": record.parity.status,
        "parity_error": record.parity.error,
        "rounds": len(record.rounds),
        "gross_s": step and step.mid,
        "gross_low_s": step and step.low,
        "gross_high_s": step and step.high,
        "net_s": net(record),
        "tare_s": tare(record),
        "latency_s": delay and delay.mid,
        "device_s": device_time(record),
        "prepare_cold_s": cold,
        "prepare_warm_s": warm,
        "host_peak_bytes": host_peak(record),
        "device_peak_bytes": device_peak(record),
        "environment": record.environment.id,
    }
