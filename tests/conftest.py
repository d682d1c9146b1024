"""What holds for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
# Folders whose tests run beside no other: what is killed or timed, and programs that use every core and spin.
ALONE = (HERE / "faults", HERE / "native")

# Tests run side by side, each with a data folder of its own: they do not take turns at one lock for the machine.
os.environ["TARE_LOCK"] = ""

# A test never fails for having taken long: these machines are shared.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in ALONE):
            item.add_marker(pytest.mark.alone)
