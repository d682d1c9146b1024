"""How long the site takes for each page, over a store of a million records, made for it:
python -m benchmarks.site --store FILE|URL --json results/site/pages.json."""

import argparse
import json
import platform
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

REPEATS = 15


def addresses(client: Any, source: random.Random) -> Iterator[tuple[str, str]]:
    """Each kind of page with an address of it, another one each time."""
    grid = client.get("/grid/data.json").json()["tables"]["grid"]
    row = source.choice(grid)
    machine = client.get("/machines/data.json").json()["tables"]["machines"]
    runs = client.get("/runs/data.json").json()["tables"]["runs"]
    series = source.choice([row[name] for name in row if name.endswith(" path") and row[name]])
    record = source.choice(client.get(f"/{series}data.json").json()["tables"]["points"])["path"]
    found = client.get("/regressions/data.json?days=3650").json()["tables"]["regressions"]
    yield "what got slower this week", "/"
    yield "all regressions", "/regressions/?days=3650"
    if found:
        yield "a regression", f"/{source.choice(found)['path']}"
    yield "workloads", "/workloads/"
    yield "a workload", f"/workloads/{row['workload']}/"
    yield "a ladder", f"/{row['path']}"
    yield "a series over time", f"/{series}"
    yield "a record", f"/{record}"
    yield "the grid", "/grid/"
    yield "the grid, filtered", f"/grid/?mode=train&precision=fp32&machine={machine[-1]['id']}&figure=speedup"
    yield "the grid, a later page", "/grid/?page=3"
    yield "runs", "/runs/"
    yield "a run", f"/{source.choice(runs)['path']}"
    yield "machines", "/machines/"
    yield "a machine", f"/{source.choice(machine)['path']}"
    yield "two machines side by side", f"/compare/?a=machine:{machine[0]['id']}&b=machine:{machine[-1]['id']}"
    first, second = (f"commit={night:08x}" for night in (20, 40))
    workload = f"workload={row['workload']}"
    yield "two versions side by side", f"/compare/?a={first}+{workload}&b={second}+{workload}"
    yield "coverage", "/coverage/"
    yield "search for a workload", f"/search/?q={row['workload'][:5]}"
    yield "search for a commit", "/search/?q=00000014"
    yield "search for a record", f"/search/?q={record.split('/')[1]}"


def measure(store: Any, repeats: int) -> dict[str, dict[str, Any]]:
    from starlette.testclient import TestClient

    from tare.site.server import Site, SiteOptions

    taken: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    with TestClient(Site(store, SiteOptions(maintains=False)).app()) as client:
        for repeat in range(repeats):
            for name, address in addresses(client, random.Random(repeat)):
                start = time.perf_counter()
                answer = client.get(address)
                seconds = time.perf_counter() - start
                assert answer.status_code == 200, (address, answer.text[:500])
                sizes[name] = len(answer.content)
                # The first request of each kind also loads templates and modules.
                if repeat:
                    taken.setdefault(name, []).append(seconds)
    return {
        name: {"median_ms": round(1e3 * median(times), 1), "worst_ms": round(1e3 * max(times), 1), "n": len(times),
               "bytes": sizes[name]}
        for name, times in taken.items()
    }  # fmt: skip


def pages_table(document: dict[str, Any]) -> str:
    """What docs/team.md shows: a row for each page, the databases side by side."""
    kinds = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    shown = [kind for kind in kinds if kind in document]
    lines = ["| page | " + " | ".join(f"{kinds[kind]}, ms | worst" for kind in shown) + " | kB |"]
    lines.append("| --- |" + " ---: | ---: |" * len(shown) + " ---: |")
    for name, figures in document[shown[0]]["pages"].items():
        times = [document[kind]["pages"][name] for kind in shown]
        cells = [f"{each['median_ms']:.0f} | {each['worst_ms']:.0f}" for each in times]
        lines.append(f"| {name} | {' | '.join(cells)} | {figures['bytes'] / 1e3:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True, help="a file or a database URL; filled if it is empty")
    parser.add_argument("--workloads", type=int, default=500)
    parser.add_argument("--machines", type=int, default=5)
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    from synthetic_store import Size, fill

    from tare.guard.regressions import judge_series
    from tare.store.database import Store
    from tare.store.maintenance import count_records

    with Store(arguments.store) as store:
        if not count_records(store):
            size = Size(arguments.workloads, arguments.machines, arguments.nights)
            start = time.perf_counter()
            fill(store, size)
            print(f"{size.records:,} records in {time.perf_counter() - start:.0f} s", flush=True)
        start, judged = time.perf_counter(), 0
        while count := judge_series(store):
            judged += count
        if judged:
            print(f"{judged:,} series judged in {time.perf_counter() - start:.0f} s", flush=True)
        pages = measure(store, arguments.repeats)
        records = count_records(store)
        dialect = store.engine.dialect.name
    for name, figures in pages.items():
        times = f"{figures['median_ms']:8.1f} ms, worst {figures['worst_ms']:8.1f} ms"
        print(f"{name:28} {times}  {figures['bytes']:9,} B")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
        known[dialect] = {"records": records, "machine": f"{platform.machine()}, 2 cores", "pages": pages}
        arguments.json.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
