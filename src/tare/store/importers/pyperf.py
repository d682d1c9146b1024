"""pyperf's JSON: a benchmark has runs, a run is one process with its values."""

from statistics import median
from typing import Any

import msgspec

from tare.store.importers.point import LONGEST_NAME, ForeignPoint, Imported, Positive, known, when
from tare.system.printable import printable

UNITS = {"second": "s", "byte": "B", "integer": ""}


class _Run(msgspec.Struct):
    # A run that only calibrated has none.
    values: list[Positive] = []
    metadata: dict[str, Any] = {}


class _Benchmark(msgspec.Struct):
    runs: list[_Run]
    metadata: dict[str, Any] = {}


class Document(msgspec.Struct):
    version: str
    benchmarks: list[_Benchmark]
    metadata: dict[str, Any] = {}


def read(document: Document, where: str) -> Imported:
    points, left_out = [], {}
    for number, benchmark in enumerate(document.benchmarks, 1):
        common = {**document.metadata, **benchmark.metadata}
        name = printable(str(common.get("name") or f"benchmark {number}"), LONGEST_NAME)
        values = [median(run.values) for run in benchmark.runs if run.values]
        if not values:
            left_out[name] = "no run has values"
            continue
        dates = [str(run.metadata["date"]) for run in benchmark.runs if run.metadata.get("date")]
        facts = {**(benchmark.runs[0].metadata if benchmark.runs else {}), **common}
        date = dates[0] if dates else common.get("date")
        points.append(
            ForeignPoint(
                source="pyperf",
                name=name,
                created=when(str(date) if date else None, f"{where}, {name[:60]}"),
                unit=UNITS.get(str(common.get("unit", "second")), printable(str(common.get("unit")), 20)),
                values=values,
                commit=known(commit=facts.get("commit_id")).get("commit"),
                machine=known(cpu=facts.get("cpu_model_name"), cpus=facts.get("cpu_count")),
                software=known(python=facts.get("python_version"), platform=facts.get("platform")),
            )
        )
    return Imported(source="pyperf", points=points, left_out=left_out)
