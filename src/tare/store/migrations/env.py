"""Alembic's environment: it migrates the connection that `tare.store.upgrade` gives it."""

from alembic import context

from tare.store.schema import REVISION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=REVISION_TABLE,
    # SQLite changes most of a table only by copying it.
    render_as_batch=True,
)
context.run_migrations()
