"""The tables of a store. Their layout changes by the migrations in migrations/; `REVISION` is the last of them."""

import hashlib
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from tare.cases.case import COUNTS, Case
from tare.records.codec import encode
from tare.records.figures import device_peak, gross, host_peak, latency, net, preparation
from tare.records.record import Record

REVISION = "0001"
# Alembic's own table, by its usual name.
REVISION_TABLE = "alembic_version"

# PostgreSQL compares texts by the rules of a language, which differ between servers, unless it is told not to. In
# byte order the beginning of a key is found by an index.
PLAIN = Text().with_variant(Text(collation="C"), "postgresql")
# An id of another tool's record may have 64 characters.
ID = String(64).with_variant(String(64, collation="C"), "postgresql")
MOMENT = String(40).with_variant(String(40, collation="C"), "postgresql")

metadata = MetaData()

revision = Table(REVISION_TABLE, metadata, Column("version_num", String(32), primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("id", ID, primary_key=True),
    Column("created", MOMENT, nullable=False),
    Column("name", Text, nullable=False),
    # Identifies the plan and its options, so that --resume finds the run.
    Column("fingerprint", String(32), nullable=False),
    Column("finished", Boolean, nullable=False, default=False),
    Column("skipped", sa.JSON, nullable=False),
    # Two kinds of runs that only a check makes, beside the run that the user asked for: a run of the baseline's
    # version, and a second measurement of the cases that looked slower.
    Column("baseline_side", Boolean, nullable=False, default=False),
    Column("confirmation", Boolean, nullable=False, default=False),
    # As of a record.
    Column("project", PLAIN, nullable=False, default="", server_default=""),
    Index("runs_by_fingerprint", "fingerprint", "created"),
    Index("runs_by_created", "created"),
)

# The rounds of cases that are still being measured, for --resume after a kill. The points of a batch search are
# rounds of the case with the point's batch, all at one position; they are kept until a record holds the search.
SEARCH_POINT = -1
rounds = Table(
    "rounds",
    metadata,
    Column("run", ID, nullable=False),
    Column("key", PLAIN, nullable=False),
    Column("position", Integer, nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("run", "key", "position"),
)

# The fields of a case that a query can name. Its sizes differ between workloads and are only in the document.
CASE_FIELDS = tuple(name for name in Case.__struct_fields__ if name != "sizes")
# Every field of a record that a query can name.
FIELDS = (*CASE_FIELDS, "status", "parity", "environment", "run", "id")


def _case_columns(names: tuple[str, ...] = CASE_FIELDS) -> list[Column[Any]]:
    return [Column(name, BigInteger if name in COUNTS else PLAIN) for name in names]


# The figures that pages and lists show without decoding a record, in seconds and bytes.
FIGURES = ("gross", "gross_low", "gross_high", "net", "latency", "prepare", "host_bytes", "device_bytes")

# One row a record, narrow, because most questions read many of them. The record itself is in `documents`.
records = Table(
    "records",
    metadata,
    Column("id", ID, primary_key=True),
    Column("run", ID, nullable=False),
    Column("created", MOMENT, nullable=False),
    Column("key", PLAIN, nullable=False),
    # The key without the digest of the model's code, by which versions of a user's model are found together.
    Column("family", PLAIN, nullable=False),
    *_case_columns(),
    Column("status", PLAIN, nullable=False),
    Column("parity", PLAIN, nullable=False),
    Column("environment", String(32), nullable=False),
    # Absent for the auxiliary runs of a check, which are no points of a history.
    Column("series", String(16)),
    # On a server, whose it is: the project of the token that uploaded it.
    Column("project", PLAIN, nullable=False, server_default=""),
    # The state of the user's repository; empty if there is none.
    Column("commit", PLAIN, nullable=False, server_default=""),
    Column("branch", PLAIN, nullable=False, server_default=""),
    Column("torch", PLAIN, nullable=False, server_default=""),
    # Rounds that succeeded.
    Column("rounds", Integer, nullable=False, server_default="0"),
    *(Column(name, Float(53)) for name in FIGURES),
    UniqueConstraint("run", "key"),
    Index("records_by_key", "key", "created"),
    Index("records_by_family", "family", "created"),
    Index("records_by_workload", "workload", "created"),
    Index("records_by_series", "series", "created"),
    # With the status, so that the list of the runs is counted from the index alone.
    Index("records_by_run", "run", "status"),
    Index("records_by_created", "created"),
    Index("records_by_commit", "commit"),
)

documents = Table(
    "documents",
    metadata,
    Column("record", ID, primary_key=True),
    Column("document", Text, nullable=False),
    # Whether most raw samples were removed because of their age (tare store vacuum).
    Column("thinned", Boolean, nullable=False, default=False, server_default=sa.false()),
)

# What users say of records with --tag, to find them by.
tags = Table(
    "tags",
    metadata,
    Column("record", ID, primary_key=True),
    Column("name", PLAIN, primary_key=True),
    Column("value", PLAIN, nullable=False),
    Index("tags_by_value", "name", "value"),
)

# The newest record of all that measured one family of cases on one machine for one project.
series = Table(
    "series",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("project", PLAIN, nullable=False),
    Column("family", PLAIN, nullable=False),
    # The key of the family with a star for the rung.
    Column("ladder", PLAIN, nullable=False),
    *_case_columns(tuple(name for name in CASE_FIELDS if name != "source")),
    Column("machine", String(12), nullable=False),
    Column("points", Integer, nullable=False),
    Column("first", MOMENT, nullable=False),
    Column("last", MOMENT, nullable=False),
    Column("record", ID, nullable=False),
    Column("status", PLAIN, nullable=False),
    Column("reason", Text, nullable=False),
    Column("parity", PLAIN, nullable=False),
    Column("rounds", Integer, nullable=False),
    *(Column(name, Float(53)) for name in FIGURES),
    # Whether there are points that nobody has searched for regressions yet.
    Column("unjudged", Boolean, nullable=False),
    Index("series_by_workload", "workload", "mode", "rung"),
    Index("series_by_ladder", "ladder"),
    Index("series_by_machine", "machine", "family"),
    Index("series_by_last", "last"),
    Index("series_by_unjudged", "unjudged"),
)

machines = Table(
    "machines",
    metadata,
    Column("id", String(12), primary_key=True),
    Column("label", Text, nullable=False),
    Column("facts", sa.JSON, nullable=False),
)

# What `tare explain` found of a record, and the trace it was found in, where it was kept.
explanations = Table(
    "explanations",
    metadata,
    Column("record", ID, primary_key=True),
    Column("created", MOMENT, nullable=False),
    Column("document", Text, nullable=False),
    Column("trace", LargeBinary),
)

# A baseline is a name for a set of records; a record may be in several.
baselines = Table(
    "baselines",
    metadata,
    Column("name", PLAIN, primary_key=True),
    Column("created", MOMENT, nullable=False),
)

baseline_records = Table(
    "baseline_records",
    metadata,
    Column("baseline", PLAIN, primary_key=True),
    Column("record", ID, primary_key=True),
)

# Results of other tools. They have no case, so they are not records.
foreign_points = Table(
    "foreign_points",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("source", String(40), nullable=False),
    Column("name", PLAIN, nullable=False),
    Column("created", MOMENT, nullable=False),
    Column("document", Text, nullable=False),
    Index("foreign_points_by_name", "name", "created"),
)

# What got slower (or larger), by a change point in a series or by a check that confirmed it.
regressions = Table(
    "regressions",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("series", String(16), nullable=False),
    Column("metric", PLAIN, nullable=False),
    # `history` or `check`.
    Column("source", PLAIN, nullable=False),
    Column("found", MOMENT, nullable=False),
    # The last good point and the first bad one: records, dates, and the labels of their versions.
    Column("before_record", ID, nullable=False),
    Column("after_record", ID, nullable=False),
    Column("before_date", MOMENT, nullable=False),
    Column("after_date", MOMENT, nullable=False),
    Column("before_label", Text, nullable=False),
    Column("after_label", Text, nullable=False),
    Column("before", Float(53), nullable=False),
    Column("after", Float(53), nullable=False),
    Column("ratio", Float(53)),
    Column("low", Float(53)),
    Column("high", Float(53)),
    # open, explained or fixed.
    Column("state", PLAIN, nullable=False),
    Column("owner", Text, nullable=False, server_default=""),
    Index("regressions_by_series", "series", "metric"),
    Index("regressions_by_found", "found"),
)

notes = Table(
    "notes",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("regression", String(16), nullable=False),
    Column("created", MOMENT, nullable=False),
    Column("author", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index("notes_by_regression", "regression", "created"),
)

# Alerts that were sent or are still to be sent, so that each is sent once.
alerts = Table(
    "alerts",
    metadata,
    Column("regression", String(16), primary_key=True),
    Column("created", MOMENT, nullable=False),
    Column("delivered", MOMENT),
    Column("tries", Integer, nullable=False, server_default="0"),
)

# Who may upload to a server, and read from it. Only the digests of tokens are kept.
tokens = Table(
    "tokens",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    # Empty: every project.
    Column("project", PLAIN, nullable=False),
    Column("may_write", Boolean, nullable=False),
    Column("created", MOMENT, nullable=False),
    Column("revoked", MOMENT),
    Column("used", MOMENT),
)

# Every write through a server: who, when, what.
audit = Table(
    "audit",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("created", MOMENT, nullable=False),
    Column("token", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Index("audit_by_created", "created"),
)


def index_columns(record: Record) -> dict[str, Any]:
    """The columns of a record's row that a query can name."""
    return {
        **{name: getattr(record.case, name) for name in CASE_FIELDS},
        **{name: getattr(record, name) for name in ("id", "run", "created")},
        "key": record.case.key,
        "family": record.case.family,
        "status": record.failure.cause if record.failure else "ok",
        "parity": record.parity.status,
        "environment": record.environment.id,
    }


def record_row(record: Record, series: str | None = None, project: str = "") -> dict[str, Any]:
    repository = record.project
    return {
        **index_columns(record),
        **figure_columns(record),
        "series": series,
        "project": project,
        "commit": repository.commit if repository else "",
        "branch": repository.branch if repository else "",
        "torch": record.environment.software.get("torch", ""),
        "rounds": sum(round_.failure is None for round_ in record.rounds),
    }


def figure_columns(record: Record) -> dict[str, float | None]:
    step, alone = gross(record), latency(record)
    cold, _ = preparation(record)
    return {
        "gross": step and step.mid,
        "gross_low": step.low if step and step.sound else None,
        "gross_high": step.high if step and step.sound else None,
        "net": net(record),
        "latency": alone and alone.mid,
        "prepare": cold,
        "host_bytes": host_peak(record),
        "device_bytes": device_peak(record),
    }


def document_row(record: Record) -> dict[str, Any]:
    return {"record": record.id, "document": encode(record).decode()}


def machine_id(record: Record) -> str:
    """The digest of what decides the speed of the machine."""
    machine = msgspec.json.encode(record.environment.machine, order="sorted")
    return hashlib.sha256(machine).hexdigest()[:12]


def machine_row(record: Record) -> dict[str, Any]:
    facts = record.environment.machine
    processor = f"{facts.get('cpu', 'unknown processor')}, {facts.get('cores', '?')} cores"
    label = f"{facts['gpu']} ({processor})" if facts.get("gpu") else processor
    return {"id": machine_id(record), "label": label, "facts": facts}


def series_id(project: str, family: str, machine: str) -> str:
    return hashlib.sha256("\n".join((project, family, machine)).encode()).hexdigest()[:16]


def series_row(record: Record, project: str) -> dict[str, Any]:
    """The row of the series with this record as its only one."""
    machine = machine_id(record)
    family = record.case.family
    row = record_row(record)
    copied = ("status", "parity", "rounds", *FIGURES, *(name for name in CASE_FIELDS if name != "source"))
    return {
        **{name: row[name] for name in copied},
        "id": series_id(project, family, machine),
        "project": project,
        "family": family,
        "ladder": msgspec.structs.replace(record.case, source=None).ladder,
        "machine": machine,
        "points": 1,
        "first": record.created,
        "last": record.created,
        "record": record.id,
        "reason": record.failure.message if record.failure else record.parity.missing,
        "unjudged": True,
    }


def create(connection: sa.Connection) -> None:
    """Creates the tables in their newest layout, unless another process has done so a moment ago."""
    metadata.create_all(connection)
    if connection.scalar(sa.select(revision.c.version_num)) is None:
        connection.execute(sa.insert(revision).values(version_num=REVISION))
