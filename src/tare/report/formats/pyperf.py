"""pyperf's JSON, version 1.0, for `pyperf compare_to`: a case is a benchmark, a round is a run."""

import json
from collections.abc import Sequence
from typing import Any

from tare.errors import BadInput
from tare.records.figures import clean_step_seconds, good_rounds, samples_per_second, tokens_per_second
from tare.records.record import Record, Round
from tare.report.formats import record_format

# pyperf refuses a time of zero, which a block shorter than the clock's resolution has.
TICK_S = 1e-9


@record_format("pyperf", "pyperf JSON, for pyperf compare_to")
def records_pyperf(records: Sequence[Record]) -> str:
    """The newest record of each case: pyperf refuses two benchmarks of one name, and an empty file."""
    benchmarks = {record.case.key: benchmark for record in records if (benchmark := _benchmark(record))}
    if not benchmarks:
        raise BadInput("no record has a round that succeeded, and pyperf reads no file without a benchmark")
    return json.dumps({"version": "1.0", "benchmarks": list(benchmarks.values())}) + "\n"


def _benchmark(record: Record) -> dict[str, Any] | None:
    runs = [run for done in good_rounds(record) if (run := _run(done))]
    if not runs:
        return None
    software = record.environment.software
    metadata = {
        "name": record.case.key,
        "unit": "second",
        "tare_record": record.id,
        "tare_parity": record.parity.status,
        "torch_version": software.get("torch"),
        "python_version": software.get("python"),
        "tare_samples_per_s": rate.mid if (rate := samples_per_second(record)) else None,
        "tare_tokens_per_s": rate.mid if (rate := tokens_per_second(record)) else None,
        "cpu_model_name": record.environment.machine.get("cpu"),
    }
    # pyperf refuses metadata without a value.
    return {"metadata": {name: value for name, value in metadata.items() if value}, "runs": runs}


def _run(done: Round) -> dict[str, Any] | None:
    series, warm = done.find("pipelined"), done.find("warmup")
    if series is None or not series.wall_ns:
        return None
    run: dict[str, Any] = {"values": [max(value, TICK_S) for value in clean_step_seconds(done, "pipelined")]}
    run["metadata"] = {
        "date": done.started.replace("T", " ").removesuffix("+00:00"),
        "duration": done.seconds,
    }
    if warm and warm.wall_ns:
        run["warmups"] = [
            [steps, max(value, TICK_S)] for steps, value in zip(warm.steps, warm.step_seconds(), strict=True)
        ]
    return run
