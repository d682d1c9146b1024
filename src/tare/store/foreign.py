"""Results of pyperf, pytest-benchmark and Google Benchmark: read from their JSON files, and kept in the store as
points of named series. They have no case and are not records."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from statistics import median
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from sqlalchemy import insert, select

from tare.cases.case import key_matches
from tare.errors import BadInput, brief
from tare.store import schema
from tare.store.database import Store
from tare.system.text import printable

ForeignSource = Literal["pyperf", "pytest-benchmark", "google-benchmark"]
Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]
LONGEST_NAME = 400
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
PYPERF_UNITS = {"second": "s", "byte": "B", "integer": ""}


class ForeignPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark of one run of another tool. `values` has one value a process where the tool tells processes
    apart, otherwise one a repetition; the point is their median."""

    source: ForeignSource
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    created: str
    unit: str
    values: Annotated[list[Positive], msgspec.Meta(min_length=1)]
    commit: str | None = None
    # What decides the speed: the processor, the interpreter. Not the name of the host.
    machine: dict[str, str] = {}
    software: dict[str, str] = {}

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def id(self) -> str:
        """A digest of the content, so that a result that is imported twice is one point."""
        return _digest(self)

    @property
    def place(self) -> str:
        return _digest(self.machine)


_decoder = msgspec.json.Decoder(ForeignPoint)


def add_foreign(store: Store, points: Iterable[ForeignPoint]) -> int:
    """Adds the points that are not stored yet, all or none of them; returns how many were new."""
    table, new = schema.foreign_points, 0
    with store.transaction() as connection:
        for point in points:
            if connection.scalar(select(table.c.id).where(table.c.id == point.id)) is not None:
                continue
            columns = {"source": point.source, "name": point.name, "created": point.created}
            document = msgspec.json.encode(point).decode()
            connection.execute(insert(table).values(id=point.id, document=document, **columns))
            new += 1
    return new


def find_foreign(store: Store, words: Iterable[str]) -> list[ForeignPoint]:
    """The points whose name contains every word, or fits it where it has stars, oldest first.

    A part of a name is enough, because the names are long (`benchmarks/test_model.py::test_forward[64]`).
    """
    columns = schema.foreign_points.c
    statement = select(columns.id, columns.name, columns.document).order_by(columns.created, columns.id)
    points = []
    for row in store.rows(statement):
        if not all(key_matches(row.name, word) if "*" in word else word in row.name for word in words):
            continue
        try:
            points.append(_decoder.decode(row.document))
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
            raise BadInput(f"point {row.id} in {store.where} cannot be read: {brief(error)}") from None
    return points


def _digest(document: object) -> str:
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()[:16]


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The points in a file, and the benchmarks without a figure, each with the reason."""

    source: ForeignSource
    points: list[ForeignPoint]
    skipped: dict[str, str] = {}


class ForeignBenchmark(NamedTuple):
    """One benchmark of a file. Values that are not positive numbers are dropped; where none is left, it is skipped
    for the `reason`. `facts` are the other fields of its ForeignPoint."""

    name: str
    values: list[float]
    reason: str
    facts: dict[str, Any]


class PyperfRun(msgspec.Struct):
    """One process. A run that only calibrated has no values."""

    values: list[Positive] = []
    metadata: dict[str, Any] = {}


class PyperfBenchmark(msgspec.Struct):
    runs: list[PyperfRun]
    metadata: dict[str, Any] = {}


class PyperfDocument(msgspec.Struct):
    version: str
    benchmarks: list[PyperfBenchmark]
    metadata: dict[str, Any] = {}

    def read(self, where: str) -> Iterator[ForeignBenchmark]:
        for benchmark in self.benchmarks:
            metadata = {**self.metadata, **benchmark.metadata}
            first = {**(benchmark.runs[0].metadata if benchmark.runs else {}), **metadata}
            dates = [date for run in benchmark.runs if (date := run.metadata.get("date"))]
            unit = str(metadata.get("unit", "second"))
            values = [median(run.values) for run in benchmark.runs if run.values]
            facts = {
                "created": _utc([*dates, metadata.get("date")][0], where) if values else "",
                "unit": PYPERF_UNITS.get(unit, printable(unit, 20)),
                "commit": _text(first.get("commit_id")),
                "machine": _texts(cpu=first.get("cpu_model_name"), cpus=first.get("cpu_count")),
                "software": _texts(python=first.get("python_version"), platform=first.get("platform")),
            }
            yield ForeignBenchmark(str(metadata.get("name") or ""), values, "no run has values", facts)


class PytestStats(msgspec.Struct):
    median: float


class PytestBenchmark(msgspec.Struct):
    stats: PytestStats
    name: str = ""
    fullname: str = ""


class PytestDocument(msgspec.Struct):
    """One process; the file has the commit and one date for all benchmarks."""

    machine_info: dict[str, Any]
    benchmarks: list[PytestBenchmark]
    commit_info: dict[str, Any] = {}
    datetime: str | None = None

    def read(self, where: str) -> Iterator[ForeignBenchmark]:
        machine = self.machine_info
        cpu = machine.get("cpu")
        facts = {
            "created": _utc(self.datetime, where),
            "unit": "s",
            "commit": _text(self.commit_info.get("id")),
            "machine": _texts(
                cpu=cpu.get("brand_raw") if isinstance(cpu, dict) else cpu, arch=machine.get("machine")
            ),
            "software": _texts(python=machine.get("python_version"), system=machine.get("system")),
        }
        for benchmark in self.benchmarks:
            value = benchmark.stats.median
            yield ForeignBenchmark(benchmark.fullname or benchmark.name, [value], f"its median is {value}", facts)


class GoogleEntry(msgspec.Struct):
    """One repetition of a benchmark, or an aggregate over them. Entries about complexity have no time."""

    name: str
    real_time: float | None = None
    time_unit: str = "ns"
    run_name: str | None = None
    aggregate_name: str = ""
    error_occurred: bool = False
    error_message: str = ""

    @property
    def problem(self) -> str:
        if self.error_occurred and self.error_message:
            return printable(self.error_message, 200)
        if self.real_time is not None and self.time_unit not in SECONDS:
            return f"its time is in '{printable(self.time_unit, 20)}' (known: {', '.join(SECONDS)})"
        return "it has no time" if self.error_occurred or self.real_time is None else ""


class GoogleDocument(msgspec.Struct):
    context: dict[str, Any]
    benchmarks: list[GoogleEntry]

    def read(self, where: str) -> Iterator[ForeignBenchmark]:
        context = self.context
        caches = context.get("caches")
        caches = caches if isinstance(caches, list) else []
        sizes = [str(cache.get("size")) for cache in caches if isinstance(cache, dict)]
        facts = {
            "created": _utc(context.get("date"), where),
            "unit": "s",
            "commit": _text(context.get("commit") or context.get("git_commit")),
            # The file does not name the processor, and its clock changes: cores and caches identify it.
            "machine": _texts(cpus=context.get("num_cpus"), caches=" ".join(sizes)),
            "software": _texts(build=context.get("library_build_type"), library=context.get("library_version")),
        }
        groups: dict[str, list[GoogleEntry]] = {}
        for entry in self.benchmarks:
            groups.setdefault(entry.run_name or entry.name, []).append(entry)
        for name, entries in groups.items():
            # The repetitions; where the file has only aggregates, the median or else the mean.
            values: list[float] = []
            for kind in ("", "median", "mean"):
                timed = [entry for entry in entries if entry.aggregate_name == kind and not entry.problem]
                values = values or [(entry.real_time or 0) * SECONDS[entry.time_unit] for entry in timed]
            reason = next((entry.problem for entry in entries if entry.problem), "it has no time")
            yield ForeignBenchmark(name, values, reason, facts)


# By their sources, the fields that identify a format, and its type.
FORMATS: dict[ForeignSource, tuple[set[str], type[PyperfDocument | PytestDocument | GoogleDocument]]] = {
    "pytest-benchmark": ({"machine_info"}, PytestDocument),
    "google-benchmark": ({"context"}, GoogleDocument),
    "pyperf": ({"benchmarks", "version"}, PyperfDocument),
}


def decode_foreign(data: bytes, where: str) -> Imported:
    try:
        # Not msgspec's decoder: these tools write NaN and Infinity, which are not JSON, and byte order marks.
        document = msgspec.convert(json.loads(data), dict[str, Any])
        source = next((name for name, (fields, _) in FORMATS.items() if fields <= document.keys()), None)
        if source is None:
            raise BadInput(f"{where} is of no known format (known: {', '.join(FORMATS)}, tare JSON)")
        benchmarks = list(msgspec.convert(document, FORMATS[source][1]).read(where))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not the JSON of {', '.join(FORMATS)}: {brief(error)}") from None
    points, skipped = [], {}
    for number, (name, all_values, reason, facts) in enumerate(benchmarks, 1):
        name = printable(name or f"benchmark {number}", LONGEST_NAME)
        if values := [value for value in all_values if 0 < value < 1e300]:
            points.append(ForeignPoint(source=source, name=name, values=values, **facts))
        else:
            skipped[name] = reason
    if not points:
        example = next((f": {name[:60]}, {reason}" for name, reason in skipped.items()), "")
        raise BadInput(f"{where} ({source}) holds no benchmark with a figure{example}")
    return Imported(source=source, points=points, skipped=skipped)


def _utc(date: object, where: str) -> str:
    """A date as these tools write it, in UTC; a date without a time zone is taken as UTC."""
    if not date:
        raise BadInput(f"{where} does not say when it was measured")
    try:
        moment = datetime.fromisoformat(str(date).strip())
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        raise BadInput(f"{where}: '{str(date)[:40]}' is not a date") from None


def _text(value: object) -> str | None:
    return None if value in (None, "", [], {}) else printable(str(value), 200)


def _texts(**values: object) -> dict[str, str]:
    """The values that are present, as short texts."""
    return {name: text for name, value in values.items() if (text := _text(value)) is not None}
