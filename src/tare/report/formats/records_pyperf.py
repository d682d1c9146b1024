"""pyperf's JSON, version 1.0: a benchmark a case, a run a round, so that `pyperf compare_to` works."""

import json
from collections.abc import Iterable
from typing import Any

from tare.errors import BadInput
from tare.records.figures import clean_step_seconds, good_rounds
from tare.records.record import Record, Round

# pyperf needs a positive time; a block shorter than the clock's tick can only be called that.
TICK_S = 1e-9


def export(records: Iterable[Record]) -> str:
    """The newest record stands for its case: pyperf refuses two benchmarks of one name, and a file without any."""
    benchmarks = {record.case.key: made for record in records if (made := _benchmark(record))}
    if not benchmarks:
        raise BadInput("no record has a round that succeeded, and pyperf reads no file without a benchmark")
    return json.dumps({"version": "1.0", "benchmarks": list(benchmarks.values())}) + "\n"


def _benchmark(record: Record) -> dict[str, Any] | None:
    runs = [made for done in good_rounds(record) if (made := _run(done))]
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
