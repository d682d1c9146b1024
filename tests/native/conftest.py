"""Programs are built once for all processes of the tests; what else lies in a home is each process's own."""

import os
from collections.abc import Iterator

import pytest
from side_by_side import own_home


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    with own_home(tmp_path_factory.mktemp("home")):
        yield
