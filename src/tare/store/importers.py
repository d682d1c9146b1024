"""Reading the JSON files of pyperf, pytest-benchmark and Google Benchmark. The format follows from the content."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median
from typing import Any

import msgspec

from tare.errors import BadInput, brief
from tare.store.foreign import LONGEST_NAME, ForeignPoint, ForeignSource, Positive
from tare.system.text import printable

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
PYPERF_UNITS = {"second": "s", "byte": "B", "integer": ""}


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The points in a file, and the benchmarks without a figure, each with the reason."""

    source: ForeignSource
    points: list[ForeignPoint]
    skipped: dict[str, str] = {}


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

    def read(self, where: str) -> Iterator[tuple[str, ForeignPoint | str]]:
        for number, benchmark in enumerate(self.benchmarks, 1):
            metadata = {**self.metadata, **benchmark.metadata}
            name = _name(str(metadata.get("name") or ""), number)
            values = [median(run.values) for run in benchmark.runs if run.values]
            if not values:
                yield name, "no run has values"
                continue
            dates = [run.metadata["date"] for run in benchmark.runs if run.metadata.get("date")]
            facts = {**(benchmark.runs[0].metadata if benchmark.runs else {}), **metadata}
            unit = str(metadata.get("unit", "second"))
            yield (
                name,
                ForeignPoint(
                    source="pyperf",
                    name=name,
                    created=_utc([*dates, metadata.get("date")][0], f"{where}, {name[:60]}"),
                    unit=PYPERF_UNITS.get(unit, printable(unit, 20)),
                    values=values,
                    commit=_text(facts.get("commit_id")),
                    machine=_texts(cpu=facts.get("cpu_model_name"), cpus=facts.get("cpu_count")),
                    software=_texts(python=facts.get("python_version"), platform=facts.get("platform")),
                ),
            )


class PytestStats(msgspec.Struct):
    # None where the file has NaN.
    median: float | None


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

    def read(self, where: str) -> Iterator[tuple[str, ForeignPoint | str]]:
        created = _utc(self.datetime, where)
        machine = self.machine_info
        cpu = machine.get("cpu")
        for number, benchmark in enumerate(self.benchmarks, 1):
            name = _name(benchmark.fullname or benchmark.name, number)
            value = benchmark.stats.median
            if value is None or not 0 < value < 1e300:
                yield name, f"its median is {'not a number' if value is None else value}"
                continue
            yield (
                name,
                ForeignPoint(
                    source="pytest-benchmark",
                    name=name,
                    created=created,
                    unit="s",
                    values=[value],
                    commit=_text(self.commit_info.get("id")),
                    machine=_texts(
                        cpu=cpu.get("brand_raw") if isinstance(cpu, dict) else cpu, arch=machine.get("machine")
                    ),
                    software=_texts(python=machine.get("python_version"), system=machine.get("system")),
                ),
            )


class GoogleBenchmark(msgspec.Struct):
    """One repetition of a benchmark, or an aggregate over them. Entries about complexity have no time."""

    name: str
    real_time: float | None = None
    time_unit: str = "ns"
    run_name: str | None = None
    run_type: str = "iteration"
    aggregate_name: str | None = None
    error_occurred: bool = False
    error_message: str = ""

    @property
    def seconds(self) -> float | None:
        if self.error_occurred or self.real_time is None or self.time_unit not in SECONDS:
            return None
        seconds = self.real_time * SECONDS[self.time_unit]
        return seconds if 0 < seconds < 1e300 else None


class GoogleDocument(msgspec.Struct):
    context: dict[str, Any]
    benchmarks: list[GoogleBenchmark]

    def read(self, where: str) -> Iterator[tuple[str, ForeignPoint | str]]:
        context = self.context
        created = _utc(context.get("date"), where)
        groups: dict[str, list[GoogleBenchmark]] = {}
        for number, entry in enumerate(self.benchmarks, 1):
            groups.setdefault(_name(entry.run_name or entry.name, number), []).append(entry)
        caches = context.get("caches")
        caches = caches if isinstance(caches, list) else []
        sizes = " ".join(str(cache.get("size")) for cache in caches if isinstance(cache, dict))
        for name, entries in groups.items():
            values = _google_values(entries)
            if not values:
                yield name, _google_reason(entries)
                continue
            yield (
                name,
                ForeignPoint(
                    source="google-benchmark",
                    name=name,
                    created=created,
                    unit="s",
                    values=values,
                    commit=_text(context.get("commit") or context.get("git_commit")),
                    # The file does not name the processor, and its clock changes: cores and caches identify it.
                    machine=_texts(cpus=context.get("num_cpus"), caches=sizes),
                    software=_texts(
                        build=context.get("library_build_type"), library=context.get("library_version")
                    ),
                ),
            )


def _google_values(entries: list[GoogleBenchmark]) -> list[float]:
    """The repetitions; where the file has only aggregates, the median or else the mean."""
    repetitions = [entry for entry in entries if entry.run_type == "iteration"]
    aggregates = ([entry for entry in entries if entry.aggregate_name == name] for name in ("median", "mean"))
    for group in (repetitions, *aggregates):
        if values := [entry.seconds for entry in group if entry.seconds is not None]:
            return values
    return []


def _google_reason(entries: list[GoogleBenchmark]) -> str:
    for entry in entries:
        if entry.error_occurred and entry.error_message:
            return printable(entry.error_message, 200)
        if entry.real_time is not None and entry.time_unit not in SECONDS:
            return f"its time is in '{printable(entry.time_unit, 20)}' (known: {', '.join(SECONDS)})"
    return "it has no time"


def decode_foreign(data: bytes, where: str) -> Imported:
    try:
        data = _as_json(data)
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
        document: PyperfDocument | PytestDocument | GoogleDocument
        source: ForeignSource
        if "machine_info" in keys:
            source, document = "pytest-benchmark", msgspec.json.decode(data, type=PytestDocument)
        elif "context" in keys:
            source, document = "google-benchmark", msgspec.json.decode(data, type=GoogleDocument)
        elif "benchmarks" in keys and "version" in keys:
            source, document = "pyperf", msgspec.json.decode(data, type=PyperfDocument)
        else:
            raise BadInput(
                f"{where} is of no known format (known: pyperf, pytest-benchmark, google-benchmark, tare JSON)"
            )
        entries = list(document.read(where))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(
            f"{where} is not the JSON of pyperf, pytest-benchmark or google-benchmark: {brief(error)}"
        ) from None
    points = [entry for _, entry in entries if isinstance(entry, ForeignPoint)]
    skipped = {name: entry for name, entry in entries if isinstance(entry, str)}
    if not points:
        reason = next((f": {name[:60]}, {why}" for name, why in skipped.items()), "")
        raise BadInput(f"{where} ({source}) holds no benchmark with a figure{reason}")
    return Imported(source=source, points=points, skipped=skipped)


def _as_json(data: bytes) -> bytes:
    """Both Python's json and Google Benchmark write NaN and Infinity, which are not JSON: they become null. A byte
    order mark is removed."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
        return data
    except msgspec.DecodeError as error:
        try:
            return msgspec.json.encode(json.loads(data))
        except ValueError:
            raise error from None


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


def _name(name: str, number: int) -> str:
    return printable(name or f"benchmark {number}", LONGEST_NAME)


def _text(value: object) -> str | None:
    return None if value in (None, "", [], {}) else printable(str(value), 200)


def _texts(**values: object) -> dict[str, str]:
    """The values that are present, as short texts."""
    return {name: text for name, value in values.items() if (text := _text(value)) is not None}
