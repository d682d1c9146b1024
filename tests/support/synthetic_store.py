"""A store of many synthetic records, made in seconds: nights of many workloads on several machines, with noise, a
few regressions, failures, and projects of users."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round, make_series

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.records.record import Parity, Record
from tare.store import schema
from tare.store.database import Store, portions
from tare.store.insert import insert_missing
from tare.system.repository import Repository

RUNGS = ("eager", "compile", "cudagraph", "vendor")
MODES = ("infer", "train")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
# Stand in the document for what differs from night to night.
STEP_S = 0.0123456
MARKS = {"id": "ID-OF-RECORD", "run": "RUN-OF-RECORD", "created": "2000-01-01T00:00:00+00:00", "commit": "c" * 40}


class Size(NamedTuple):
    workloads: int
    machines: int
    nights: int

    @property
    def records(self) -> int:
        return self.workloads * self.machines * self.nights * len(RUNGS)


def machine(number: int) -> Environment:
    facts = {"cpu": f"processor {number % 3}", "cores": "16", "system": "Linux", "gpu": f"NVIDIA H{number}00"}
    return msgspec.structs.replace(ENVIRONMENT, machine=facts)


def cases(workloads: int) -> Iterator[Case]:
    for number in range(workloads):
        mode = MODES[number % 2]
        for rung in RUNGS:
            yield make_case(
                workload=f"net{number:04}", rung=rung, mode=mode, device="cuda", batch=8 << number % 4, sizes={}
            )


def template(case: Case, environment: Environment) -> Record:
    """The record of a night, with marks in the place of what differs."""
    identity: dict[str, Any] = {name: MARKS[name] for name in ("id", "run", "created")}
    if hash_of(case) % 40 == 0:
        failed = make_round(0, failure=make_failure(message="out of memory in a test"), series=[])
        return make_record(case, environment=environment, rounds=[failed], failure=failed.failure,
                           parity=Parity(status="unchecked", reason="no round succeeded"), **identity)  # fmt: skip
    rounds = [
        make_round(index, series=[make_series("pipelined", STEP_S, 6, 1), make_series("latency", STEP_S, 6, 1)])
        for index in range(3)
    ]
    project = Repository(commit=MARKS["commit"], branch="main")
    return make_record(case, environment=environment, rounds=rounds, project=project, **identity)


def hash_of(case: Case) -> int:
    return sum(case.key.encode())


def fill(store: Store, size: Size, seed: int = 1) -> None:
    """As if every night had measured every case on every machine."""
    source = random.Random(seed)
    environments = [machine(number) for number in range(size.machines)]
    with store.transaction() as connection:
        for place in range(size.machines):
            for night in range(size.nights):
                run = {"id": run_of(night, place), "created": moment(night, 0), "name": "night", "fingerprint": "",
                       "finished": True, "skipped": []}  # fmt: skip
                insert_missing(connection, schema.runs, run)
    made = (
        (case, place, environment)
        for case in cases(size.workloads)
        for place, environment in enumerate(environments)
    )
    for number, (case, place, environment) in enumerate(made):
        _fill_series(store, template(case, environment), place, levels(number, size.nights), number, source)


def levels(number: int, nights: int) -> list[float]:
    """Most series are quiet, and one in fifty gets slower by a tenth in the last eight nights."""
    step = 1e-3 * (1 + number % 7)
    slower = nights - 8 if number % 50 == 7 else nights
    return [step * (1.1 if night >= slower else 1.0) for night in range(nights)]


def moment(night: int, number: int) -> str:
    now = datetime.now(UTC).replace(hour=3, minute=0, second=0, microsecond=0)
    return (now - timedelta(days=400) + timedelta(days=400 * night / 400, seconds=number % 3600)).isoformat()


def run_of(night: int, place: int) -> str:
    return f"night{night:05}m{place}"


def _fill_series(
    store: Store, record: Record, place: int, steps: Sequence[float], number: int, source: random.Random
) -> None:
    text = msgspec.json.encode(record).decode()
    marked = str(round(STEP_S * 1e9))
    row = schema.record_row(record)
    nights = len(steps)
    rows: list[dict[str, Any]] = []
    documents: list[dict[str, Any]] = []
    series = schema.series_row(record, "")
    for night, step in enumerate(steps):
        value = step * source.gauss(1, 0.01)
        id_, created = f"s{number:05}n{night:05}", moment(night + 400 - nights, number)
        commit = f"{night:08x}{0:032}"
        replaced = {MARKS["id"]: id_, MARKS["run"]: run_of(night, place), MARKS["created"]: created,
                    MARKS["commit"]: commit, marked: str(round(value * 1e9))}  # fmt: skip
        document = text
        for mark, actual in replaced.items():
            document = document.replace(mark, actual)
        figures = {}
        if record.failure is None:
            figures = {"gross": value, "gross_low": value * 0.99, "gross_high": value * 1.01, "latency": value}
        rows.append({**row, **figures, "id": id_, "run": run_of(night, place), "created": created,
                     "commit": commit if record.project else "", "series": series["id"]})  # fmt: skip
        documents.append({"record": id_, "document": document})
    newest = {"points": nights, "first": rows[0]["created"], "last": rows[-1]["created"], "record": rows[-1]["id"]}
    figures = {name: rows[-1][name] for name in schema.FIGURES}
    with store.transaction() as connection:
        for portion in portions(rows):
            connection.execute(sa.insert(schema.records), portion)
        for portion in portions(documents):
            connection.execute(sa.insert(schema.documents), portion)
        insert_missing(connection, schema.machines, schema.machine_row(record))
        connection.execute(sa.insert(schema.series).values({**series, **newest, **figures}))
