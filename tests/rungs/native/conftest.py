"""Programs are built once for all processes of the tests; what else lies in a home is each process's own."""

from collections.abc import Iterator

import pytest
from side_by_side import own_home


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_home(tmp_path_factory):
        yield
