"""Brings the tables of a store to the layout of this tare, by the migrations in migrations/."""

from pathlib import Path

import sqlalchemy as sa

from tare.errors import BadInput
from tare.store import schema
from tare.store.database import Store

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(store: Store, migrations: Path = MIGRATIONS, target: str = schema.REVISION) -> list[str]:
    """The migrations that were run: all of them or, where one fails, none."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    if store.revision not in known:
        raise BadInput(
            f"the store {store.where} has layout {store.revision[:32]}, which this tare does not know: install a"
            " newer tare"
        )
    with store.transaction() as connection:
        store.one_at_a_time(connection, "create")
        # Another process may have upgraded it while this one waited.
        before = str(connection.scalar(sa.select(schema.revision.c.version_num)))
        config.attributes["connection"] = connection
        command.upgrade(config, target)
    store.revision = target
    return [revision for revision in reversed(known) if before < revision <= target]
