"""Two rungs whose steps sleep for PLANTED_NAP_MS (2) and compute next to nothing: many cases on few cores."""

import os
import time
from typing import Any

import numpy as np
import planted  # noqa: F401 - the workloads

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Workload

NAP_S = float(os.environ.get("PLANTED_NAP_MS", "2")) / 1000


class Nap(Program):
    def __init__(self, batch: int) -> None:
        self._batch = batch
        self.select(0)

    def select(self, batch: int) -> None:
        self._values = np.random.default_rng(batch).standard_normal((self._batch, 8))

    def disturb(self, attempt: int) -> bool:
        self.select(100 + attempt)
        return True

    def step(self) -> Any:
        time.sleep(NAP_S)
        return 2 * self._values


@rung
class PlantedNap(Rung):
    name = "planted_nap"
    summary = "sleeps"
    not_by_default = {"": "planted"}

    def prepare(self, workload: Workload, case: Case) -> Program:  # noqa: ARG002
        return Nap(case.batch)


@rung
class PlantedDoze(PlantedNap):
    name = "planted_doze"
    summary = "sleeps as well"
