"""pytest-benchmark's JSON: one process, a median a benchmark, and the commit it was saved at."""

from typing import Any

import msgspec

from tare.store.importers.point import LONGEST_NAME, ForeignPoint, Imported, known, when
from tare.system.printable import printable


class _Stats(msgspec.Struct):
    # Not a number: nothing.
    median: float | None


class _Benchmark(msgspec.Struct):
    stats: _Stats
    name: str = ""
    fullname: str = ""


class Document(msgspec.Struct):
    machine_info: dict[str, Any]
    benchmarks: list[_Benchmark]
    commit_info: dict[str, Any] = {}
    datetime: str | None = None


def read(document: Document, where: str) -> Imported:
    created = when(document.datetime, where)
    machine = document.machine_info
    cpu = machine.get("cpu")
    brand = cpu.get("brand_raw") if isinstance(cpu, dict) else cpu
    points, left_out = [], {}
    for number, benchmark in enumerate(document.benchmarks, 1):
        name = printable(benchmark.fullname or benchmark.name or f"benchmark {number}", LONGEST_NAME)
        figure = benchmark.stats.median
        if figure is None or not 0 < figure < 1e300:
            left_out[name] = f"its median is {'not a number' if figure is None else figure}"
            continue
        points.append(
            ForeignPoint(
                source="pytest-benchmark",
                name=name,
                created=created,
                unit="s",
                values=[figure],
                commit=known(commit=document.commit_info.get("id")).get("commit"),
                machine=known(cpu=brand, arch=machine.get("machine")),
                software=known(python=machine.get("python_version"), system=machine.get("system")),
            )
        )
    return Imported(source="pytest-benchmark", points=points, left_out=left_out)
