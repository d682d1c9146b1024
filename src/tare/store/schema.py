"""The tables of a store, and the version of their layout."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, Index, Integer, String, Table, Text, UniqueConstraint

from tare.cases.case import COUNTS, Case
from tare.records.codec import encode
from tare.records.record import Record

VERSION = 2

metadata = sa.MetaData()

version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("created", String(40), nullable=False),
    Column("name", Text, nullable=False),
    # Identifies the plan and its options, so that --resume finds the run.
    Column("fingerprint", String(32), nullable=False),
    Column("finished", Boolean, nullable=False, default=False),
    Column("skipped", sa.JSON, nullable=False),
    # Two kinds of runs that only a check makes, beside the run that the user asked for: a run of the baseline's
    # version, and a second measurement of the cases that looked slower.
    Column("baseline_side", Boolean, nullable=False, default=False),
    Column("confirmation", Boolean, nullable=False, default=False),
    Index("runs_by_fingerprint", "fingerprint", "created"),
)

# The rounds of cases that are still being measured, for --resume after a kill. The points of a batch search are
# rounds of the case with the point's batch, all at one position; they are kept until a record holds the search.
SEARCH_POINT = -1
rounds = Table(
    "rounds",
    metadata,
    Column("run", String(32), nullable=False),
    Column("key", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("run", "key", "position"),
)

# The fields of a case that a query can name. Its sizes differ between workloads and are only in the document.
CASE_FIELDS = tuple(name for name in Case.__struct_fields__ if name != "sizes")
# Every field of a record that a query can name.
FIELDS = (*CASE_FIELDS, "status", "parity", "environment", "run", "id")

records = Table(
    "records",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("run", String(32), nullable=False),
    Column("created", String(40), nullable=False),
    Column("key", Text, nullable=False),
    # The key without the digest of the model's code, by which versions of a user's model are found together.
    Column("family", Text, nullable=False),
    *(Column(name, Integer if name in COUNTS else Text) for name in CASE_FIELDS),
    Column("status", Text, nullable=False),
    Column("parity", Text, nullable=False),
    Column("environment", String(32), nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("run", "key"),
    Index("records_by_key", "key", "created"),
    Index("records_by_family", "family", "created"),
    Index("records_by_workload", "workload", "created"),
)

# A baseline is a name for a set of records; a record may be in several.
baselines = Table(
    "baselines",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("created", String(40), nullable=False),
)

baseline_records = Table(
    "baseline_records",
    metadata,
    Column("baseline", String(80), primary_key=True),
    Column("record", String(32), primary_key=True),
)

# Results of other tools. They have no case, so they are not records.
foreign_points = Table(
    "foreign_points",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("source", String(40), nullable=False),
    Column("name", Text, nullable=False),
    Column("created", String(40), nullable=False),
    Column("document", Text, nullable=False),
    Index("foreign_points_by_name", "name", "created"),
)


def index_columns(record: Record) -> dict[str, Any]:
    """The columns of a record's row, without the document."""
    return {
        **{name: getattr(record.case, name) for name in CASE_FIELDS},
        **{name: getattr(record, name) for name in ("id", "run", "created")},
        "key": record.case.key,
        "family": record.case.family,
        "status": record.failure.cause if record.failure else "ok",
        "parity": record.parity.status,
        "environment": record.environment.id,
    }


def record_row(record: Record) -> dict[str, Any]:
    return {**index_columns(record), "document": encode(record).decode()}


def create(connection: sa.Connection) -> None:
    """Creates the tables, unless another process has done so a moment ago."""
    metadata.create_all(connection)
    if connection.scalar(sa.select(version.c.version)) is None:
        connection.execute(sa.insert(version).values(version=VERSION))
