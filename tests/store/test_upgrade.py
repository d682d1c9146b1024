"""A store of an older layout is upgraded whole or not at all, and keeps its records."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from builders import make_record

from tare.errors import BadInput
from tare.store import schema
from tare.store import upgrade as upgrades
from tare.store.database import Store
from tare.store.upgrade import MIGRATIONS, upgrade

LAYOUTS = Path(__file__).parent / "layouts"

SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("records") as table:
        table.add_column(sa.Column("colour", sa.Text, nullable=False, server_default="grey"))
        table.create_index("records_by_colour", ["colour"])
"""
THIRD = """
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("records") as table:
        table.drop_column("branch")
    raise ValueError("the disk of the test is full")
"""


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    """Ours, and one more."""
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    for path in MIGRATIONS.rglob("*.*"):
        if path.suffix in (".py", ".mako"):
            (folder / path.relative_to(MIGRATIONS)).write_text(path.read_text())
    (folder / "versions" / "0002_colour.py").write_text(SECOND)
    return folder


def columns(store: Store) -> set[str]:
    return {column["name"] for column in sa.inspect(store.engine).get_columns("records")}


def test_an_upgrade_keeps_the_records(address: str, migrations: Path) -> None:
    with Store(address) as store:
        store.add([make_record()])
        assert upgrade(store, migrations, "0002") == ["0002"]
        assert "colour" in columns(store)
        assert store.find() == [make_record()]
        assert upgrade(store, migrations, "0002") == []
    # This tare does not know the new layout.
    with pytest.raises(BadInput, match="layout 0002; this tare uses 0001: install a newer tare"):
        Store(address)
    with (
        Store(address, upgrading=True) as newer,
        pytest.raises(BadInput, match="layout 0002, which this tare"),
    ):
        upgrade(newer)


def test_an_upgrade_that_fails_changes_nothing(address: str, migrations: Path) -> None:
    (migrations / "versions" / "0003_fails.py").write_text(THIRD)
    with Store(address) as store:
        store.add([make_record()])
        before = columns(store)
        with pytest.raises(ValueError, match="the disk of the test"):
            upgrade(store, migrations, "0003")
        assert columns(store) == before
    with Store(address) as again:
        assert again.find() == [make_record()]


@pytest.mark.parametrize("layout", sorted(LAYOUTS.glob("*.sql")), ids=lambda path: path.stem)
def test_every_layout_there_was_becomes_the_one_of_a_new_store(layout: Path, tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    old = tmp_path / "old.db"
    with sqlite3.connect(old) as connection:
        connection.executescript(layout.read_text())
    with Store(str(old), upgrading=True) as store:
        upgrade(store)
        with store.engine.connect() as opened:
            assert compare_metadata(MigrationContext.configure(opened), schema.metadata) == []


def test_the_newest_migration_is_the_layout_of_this_tare() -> None:
    newest = max(path.name[:4] for path in (upgrades.MIGRATIONS / "versions").glob("[0-9]*.py"))
    assert newest == schema.REVISION
    assert (LAYOUTS / f"{schema.REVISION}.sql").exists()
