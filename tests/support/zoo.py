"""The workloads of the zoo as parameters of tests: @smoke in the quick tier, the others in the full tier."""

from collections.abc import Callable
from typing import Any

import pytest

from tare.workloads import Workload, all_workloads
from tare.workloads.groups import SMOKE_ZOO

ZOO = {name: workload for name, workload in all_workloads().items() if not name.startswith("planted")}


def zoo_names(condition: Callable[[Workload], bool] = lambda _: True) -> list[Any]:
    return [
        name if name in SMOKE_ZOO else pytest.param(name, marks=pytest.mark.full)
        for name, workload in ZOO.items()
        if condition(workload)
    ]
