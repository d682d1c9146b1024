"""Everything in this folder needs a CUDA device; without one it is skipped, with that reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from side_by_side import own_home

from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.execute.preload import DYNAMO, EXPORT

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_home(tmp_path_factory):
        yield


@pytest.fixture(scope="session")
def executor(_home: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    """One fork server a process, and every reference and every export made once in it."""
    launcher = make_launcher("fork", ("torchvision", "sklearn", DYNAMO, EXPORT))
    made = LocalExecutor(launcher, tmp_path_factory.mktemp("scratch"))
    made.probe()
    yield made
    made.close()
