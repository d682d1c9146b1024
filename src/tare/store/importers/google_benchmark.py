"""Google Benchmark's JSON: repetitions of a benchmark by name, or only their aggregates."""

from typing import Any

import msgspec

from tare.store.importers.point import LONGEST_NAME, ForeignPoint, Imported, known, when
from tare.system.printable import printable

AGGREGATES = ("mean", "median", "stddev")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class _Benchmark(msgspec.Struct):
    name: str
    # Entries that tell of complexity have no times.
    real_time: float | None = None
    time_unit: str = "ns"
    run_name: str | None = None
    run_type: str = ""
    aggregate_name: str | None = None
    error_occurred: bool = False
    error_message: str = ""

    def __post_init__(self) -> None:
        """Before version 1.5 an aggregate was known by its name alone."""
        stem, _, last = self.name.rpartition("_")
        if not self.run_type and stem and last in AGGREGATES:
            self.run_type, self.run_name, self.aggregate_name = "aggregate", self.run_name or stem, last
        self.run_type = self.run_type or "iteration"


class Document(msgspec.Struct):
    context: dict[str, Any]
    benchmarks: list[_Benchmark]


def read(document: Document, where: str) -> Imported:
    context = document.context
    date = context.get("date")
    created = when(str(date) if date else None, where)
    points, left_out = [], {}
    groups: dict[str, list[_Benchmark]] = {}
    for each in document.benchmarks:
        groups.setdefault(printable(each.run_name or each.name or "unnamed", LONGEST_NAME), []).append(each)
    for name, group in groups.items():
        values = _values(group)
        if not values:
            left_out[name] = _reason(group)
            continue
        points.append(
            ForeignPoint(
                source="google-benchmark",
                name=name,
                created=created,
                unit="s",
                values=values,
                commit=known(commit=context.get("commit") or context.get("git_commit")).get("commit"),
                machine=known(cpus=context.get("num_cpus"), caches=_caches(context.get("caches"))),
                software=known(build=context.get("library_build_type"), library=context.get("library_version")),
            )
        )
    return Imported(source="google-benchmark", points=points, left_out=left_out)


def _reason(group: list[_Benchmark]) -> str:
    for each in group:
        if each.error_occurred and each.error_message:
            return printable(each.error_message, 200)
        if each.real_time is not None and each.time_unit not in SECONDS:
            return f"its time is in '{printable(each.time_unit, 20)}' (known: {', '.join(SECONDS)})"
    return "it has no time"


def _caches(caches: object) -> str:
    """All that the format says of the processor besides its cores: it names none, and its clock changes."""
    sizes = (
        [str(each.get("size")) for each in caches if isinstance(each, dict)] if isinstance(caches, list) else []
    )
    return " ".join(sizes)


def _values(group: list[_Benchmark]) -> list[float]:
    """The repetitions; where only aggregates were written, the median or else the mean."""
    good = [each for each in group if not each.error_occurred and each.real_time is not None]
    single = [each for each in good if each.run_type == "iteration"]
    for chosen in (single, *([e for e in good if e.aggregate_name == kind] for kind in ("median", "mean"))):
        seconds = [
            (each.real_time or 0.0) * SECONDS[each.time_unit] for each in chosen if each.time_unit in SECONDS
        ]
        positive = [value for value in seconds if 0 < value < 1e300]
        if positive:
            return positive
    return []
