"""Tests that need a CUDA device. Without one they are not collected."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from side_by_side import own_home

from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.execute.preload import DYNAMO, EXPORT

FOLDER = Path(__file__).parent
collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_home(tmp_path_factory):
        yield


@pytest.fixture(scope="session")
def executor(_home: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    """One fork server per process, which caches references and exports."""
    launcher = make_launcher("fork", ("torchvision", "sklearn", DYNAMO, EXPORT))
    executor = LocalExecutor(launcher, tmp_path_factory.mktemp("scratch"))
    executor.probe()
    yield executor
    executor.close()
