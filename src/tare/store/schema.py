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


def _create(connection: Connection) -> None:
    metadata.create_all(connection)


# Entry i brings a store of version i to version i + 1. Only ever append.
MIGRATIONS: list[Callable[[Connection], None]] = [_create]


def migrate(connection: Connection, where: str) -> None:
    """Brings a store up to date inside the caller's transaction; refuses one that a newer tare has written."""
    found = 0
    if inspect(connection).has_table("schema_version"):
        found = connection.execute(select(version.c.version)).scalar_one()
    if found > len(MIGRATIONS):
        raise BadInput(
            f"the store {where} has schema {found}; this tare knows up to {len(MIGRATIONS)}: upgrade tare-bench"
        )
    if found == len(MIGRATIONS):
        return
    for step in MIGRATIONS[found:]:
        step(connection)
    statement = update(version) if found else insert(version)
    connection.execute(statement.values(version=len(MIGRATIONS)))
