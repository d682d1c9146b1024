"""The tables, and how an older store becomes a newer one."""

from collections.abc import Callable

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError

from tare.errors import BadInput

metadata = MetaData()

version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("created", String(40), nullable=False),
    Column("name", Text, nullable=False),
    # What identifies the plan and its options, so that --resume finds the run it belongs to.
    Column("fingerprint", String(32), nullable=False),
    Column("finished", Boolean, nullable=False, default=False),
    Column("skipped", JSON, nullable=False),
    Index("runs_by_fingerprint", "fingerprint", "created"),
)

# The rounds of cases that are still being measured: what a killed run leaves for --resume.
rounds = Table(
    "rounds",
    metadata,
    Column("run", String(32), nullable=False),
    Column("key", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("run", "key", "position"),
)

# The points of searches for a batch: what was measured of a curve, until a record holds all of it.
search_points = Table(
    "search_points",
    metadata,
    Column("run", String(32), nullable=False),
    # Of the case with the point's own batch.
    Column("key", Text, nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("run", "key"),
)

records = Table(
    "records",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("run", String(32), nullable=False),
    Column("created", String(40), nullable=False),
    Column("key", Text, nullable=False),
    Column("workload", Text, nullable=False),
    Column("rung", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("precision", Text, nullable=False),
    Column("batch", Integer, nullable=False),
    Column("sizes", JSON, nullable=False),
    Column("feed", Text, nullable=False),
    Column("layout", Text, nullable=False),
    Column("optimizer", Text),
    Column("threads", Integer),
    Column("status", Text, nullable=False),
    Column("parity", Text, nullable=False),
    Column("environment", String(32), nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("run", "key"),
    Index("records_by_key", "key", "created"),
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

# Results of other tools: they have no case, so they are no records.
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


def _add_baselines(connection: Connection) -> None:
    metadata.create_all(connection, tables=[baselines, baseline_records])


def _add_foreign_points(connection: Connection) -> None:
    metadata.create_all(connection, tables=[foreign_points])


def _add_search_points(connection: Connection) -> None:
    metadata.create_all(connection, tables=[search_points])


# The tables above are the newest version, and a new store gets them as they are: its version is 1 more than the
# number of migrations. Entry i brings an older store of version i + 1 to version i + 2. Only ever append.
MIGRATIONS: list[Callable[[Connection], None]] = [_add_baselines, _add_foreign_points, _add_search_points]


def migrate(connection: Connection, where: str) -> None:
    """Brings a store up to date inside the caller's transaction; refuses one that a newer tare has written."""
    newest = _newest()
    found = _found_version(connection, where)
    if found is None:
        metadata.create_all(connection)
        connection.execute(insert(version).values(version=newest))
        return
    if found == newest:
        return
    for step in MIGRATIONS[found - 1 :]:
        step(connection)
    connection.execute(update(version).values(version=newest))


def require_newest(connection: Connection, where: str) -> None:
    """Refuses a store that would have to be brought up to date and cannot be written."""
    found = _found_version(connection, where)
    if found != _newest():
        lacks = f"has schema {found}, not {_newest()}" if found else "is empty"
        raise BadInput(f"the store {where} {lacks}, and is read-only: copy it to where it can be written")


def _newest() -> int:
    return len(MIGRATIONS) + 1


def _found_version(connection: Connection, where: str) -> int | None:
    """None in a database that is not a store yet; BadInput where it is damaged, something else's or a newer
    tare's."""
    try:
        if not inspect(connection).has_table("schema_version"):
            return None
        found: list[int] = list(connection.execute(select(version.c.version)).scalars())
    except DatabaseError as error:
        raise BadInput(f"{where} is not a store: {error.orig}") from None
    if len(found) != 1 or found[0] < 1:
        raise BadInput(f"{where} is not a store: it does not say the version of its schema")
    if found[0] > _newest():
        raise BadInput(
            f"the store {where} has schema {found[0]}; this tare knows up to {_newest()}: upgrade tare-bench"
        )
    return found[0]
