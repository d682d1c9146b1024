"""One filled store for all tests that only read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sites import client_of, filled_store
from starlette.testclient import TestClient

from tare.store.database import Store


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled_store(tmp_path_factory.mktemp("site") / "filled.db") as store:
        yield store


@pytest.fixture(scope="session")
def client(filled: Store) -> Iterator[TestClient]:
    with client_of(filled) as client:
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty one, to write to."""
    with Store(str(tmp_path / "records.db")) as store:
        yield store
