"""A store for each kind of database: a file of SQLite, and a database of a real PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import PostgresServer, running_server

from tare.store.database import Store


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """What --store names."""
    if request.param == "sqlite":
        yield str(tmp_path / "records.db")
        return
    server = request.getfixturevalue("server")
    url = server.new_database()
    yield url
    server.drop_database(url)


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with Store(address) as store:
        yield store
