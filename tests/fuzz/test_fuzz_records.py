"""Damaged records and stores: each is either read or refused in one line. No other exception escapes."""

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from builders import make_case, make_failure, make_record, make_round, make_series
from mutate import damaged_bytes, damaged_document, odd_values, refuses

from tare.records.codec import decode_record, decode_round, encode
from tare.records.record import BatchPoint, BatchSearch, DeviceMemory, HostMemory, Record, Telemetry
from tare.report.formats import get_record_format
from tare.store import schema
from tare.store.database import Store
from tare.store.journal import begin, resume
from tare.store.selection import newest_in_each_environment, newest_run

RECORD = make_record(
    rounds=[
        make_round(
            0,
            series=[make_series("pipelined", 1e-3, blocks=3, device_ns=[5, 6, 7])],
            throttled={"pipelined": [1]},
            host_memory=HostMemory(peak=5, prepare_peak=6, start=1, method="VmHWM"),
            device_memory=DeviceMemory(reserved_peak=9),
            telemetry=Telemetry(samples=1, power_w=[300.0], cpu_pace=1.0),
        ),
        make_round(1, series=[make_series("pipelined", 2e-3, blocks=2)], failure=make_failure()),
    ],
    search=BatchSearch(
        chosen=1, stop="time", points=[BatchPoint(batch=1, round=make_round(0, 1e-3))], rung="eager"
    ),
)


def used(record: Record) -> None:
    """Does everything that is done with a record before it is shown."""
    assert decode_record(encode(record), "x") == record
    with warnings.catch_warnings():
        # A block of zero seconds has no logarithm.
        warnings.simplefilter("ignore", RuntimeWarning)
        for name in ("json", "csv", "pyperf", "markdown"):
            get_record_format(name)([record])


@pytest.mark.parametrize("seed", range(4))
def test_damaged_text(seed: int) -> None:
    chance = random.Random(seed)
    whole, done = encode(RECORD), encode(RECORD.rounds[0])
    refused = 0
    for _ in range(300):
        text, part = damaged_bytes(chance, whole), damaged_bytes(chance, done)
        refused += refuses(lambda each: used(decode_record(each, "x")), text)
        refuses(decode_round, part, "x")
    assert 0 < refused < 300, "damage that is always or never detected tests nothing"


@pytest.mark.parametrize("seed", range(4))
def test_damaged_values(seed: int) -> None:
    chance = random.Random(seed)
    whole: Any = json.loads(encode(RECORD))
    odd = odd_values(toml=False)
    refused = 0
    for _ in range(300):
        text = json.dumps(damaged_document(chance, whole, odd))
        refused += refuses(lambda each: used(decode_record(each, "x")), text)
    assert 0 < refused < 300


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A store with a record and an open round, closed and in one file."""
    path = tmp_path / "records.db"
    store = Store(str(path))
    journal = begin(store, "plan", "mark", [])
    journal.add_record(make_record(run=journal.run))
    journal.add_round(make_case(rung="compile"), make_round(0))
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


def read_all(path: Path) -> None:
    store = Store(str(path))
    try:
        newest_in_each_environment(store.find())
        newest_run(store)
        resume(store, "mark")
    finally:
        store.close()


def restore(path: Path, content: bytes) -> None:
    """Writes the database and removes SQLite's other files."""
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    path.write_bytes(content)


def change(path: Path, table: str, column: str, value: object) -> None:
    """Sets a column of every row, unless a constraint forbids the value."""
    with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.IntegrityError):
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        connection.commit()


def test_damaged_rows(stored: Path) -> None:
    chance = random.Random(7)
    values = [
        None,
        0,
        -1,
        2**63 - 1,
        1.5,
        "",
        "x",
        "{}",
        "[" * 5000,
        b"",
        b"\xff",
        b"{}",
        b"\0" * 10,
        '{"version":"9"}',
    ]
    cells = [("records", name) for name in ("id", "run", "created", "key", "batch", "gross")]
    cells += [("documents", name) for name in ("record", "document")]
    cells += [("rounds", name) for name in ("run", "key", "position", "document")]
    cells += [("runs", name) for name in ("id", "created", "name", "finished", "skipped")]
    cells += [(schema.REVISION_TABLE, "version_num")]
    whole = stored.read_bytes()
    refused = 0
    for _ in range(80):
        restore(stored, whole)
        table, column = chance.choice(cells)
        text = encode(RECORD if table == "documents" else RECORD.rounds[0])
        change(stored, table, column, chance.choice([*values, damaged_bytes(chance, text)]))
        refused += refuses(read_all, stored)
    assert 5 < refused < 80


def test_damaged_files(stored: Path) -> None:
    chance = random.Random(11)
    whole = stored.read_bytes()
    refused = 0
    for _ in range(80):
        restore(stored, damaged_bytes(chance, whole))
        refused += refuses(read_all, stored)
    assert 5 < refused < 80


@pytest.mark.parametrize("content", [b"not a database\n" * 100, None])
def test_the_command_refuses_a_bad_store_in_one_line(stored: Path, content: bytes | None) -> None:
    if content is None:
        with sqlite3.connect(stored) as connection:
            connection.execute('UPDATE documents SET document = \'{"version": "2.0"}\'')
    else:
        stored.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "tare", "show", "--store", str(stored)],
        env=os.environ | {"TARE_HOME": str(stored.parent)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("tare: ")
    assert "Traceback" not in done.stderr
