"""Files of other profilers with random damage: explained, or refused in one line."""

import gzip
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mutate import damaged_bytes, damaged_document, odd_values, refuses
from nsight_exports import TABLES, write_nsight
from ranks import job
from rocprof_files import write_pftrace_json, write_rocprof, write_rocprof_v1
from traces import TraceBuilder
from xspaces import write_chrome, write_xspace

from tare.findings.diagnosis import diagnose
from tare.trace.explanation import About, explain
from tare.trace.read import read_ranks

ROUNDS = 25
ODD = odd_values(toml=False)


def program() -> TraceBuilder:
    (trace,) = job(ranks=1, steps=3)
    for at in (1000, 1340):
        trace.copy("HtoD (Pageable -> Device)", at + 1, at + 4, trace.call("cudaMemcpyAsync", at, at + 1), 64)
    return trace


def explained(path: Path) -> None:
    for trace in read_ranks(path):
        explain(trace, About(title="t"))
        diagnose(trace)


def chrome(trace: TraceBuilder, path: Path) -> Path:
    packed = write_chrome(write_xspace(trace, path.with_suffix(".pb")), path.with_suffix(".json.gz"))
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


@pytest.mark.parametrize("write", [write_rocprof, write_rocprof_v1, write_pftrace_json, chrome])
def test_documents(tmp_path: Path, write: Callable[[TraceBuilder, Path], Path]) -> None:
    path = write(program(), tmp_path / "t.json")
    document, chance = json.loads(path.read_text()), random.Random(write.__name__)
    refused = 0
    for _ in range(ROUNDS):
        path.write_text(json.dumps(damaged_document(chance, document, ODD)))
        refused += refuses(explained, path)
    assert refused < ROUNDS


@pytest.mark.parametrize("write", [write_rocprof, write_xspace, write_nsight])
def test_bytes(tmp_path: Path, write: Callable[[TraceBuilder, Path], Path]) -> None:
    path = write(program(), tmp_path / "t")
    data, chance = path.read_bytes(), random.Random(write.__name__)
    for _ in range(ROUNDS):
        path.write_bytes(damaged_bytes(chance, data))
        refuses(explained, path)


def test_cells_of_a_database(tmp_path: Path) -> None:
    """SQLite stores a value of any type in any column."""
    path, chance = write_nsight(program(), tmp_path / "t.sqlite"), random.Random(5)
    plain: list[Any] = [odd for odd in ODD if isinstance(odd, int | float | str) or odd is None]
    values = [value for value in [*plain, b"", b"\xff" * 50] if not isinstance(value, int) or abs(value) < 2**63]
    data, refused = path.read_bytes(), 0
    for _ in range(ROUNDS):
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as database, database:
            for _ in range(chance.choice((1, 1, 2, 9))):
                table = chance.choice(list(TABLES))
                column = chance.choice(TABLES[table].split())
                row = chance.randrange(1, 12)
                database.execute(
                    f'UPDATE {table} SET "{column}" = ? WHERE rowid % 7 = ? % 7', (chance.choice(values), row)
                )
        refused += refuses(explained, path)
    assert refused < ROUNDS / 2
