"""The first layout. A new store gets the newest one at once, by `tare.store.schema.create`."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    pass
