"""Workloads on the package smallnet, loaded through TARE_PLUGINS. The models, and with them torch, are imported
where they are built: the process that only asks what there is shall stay light."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload

# Each workload with its batch.
BATCHES = {"small_vision": 2, "small_recommender": 128, "small_actor": 256, "small_quantised": 8}


def _register(name: str, batch: int) -> None:
    @workload(name, domain="other", task="regression", source="benchmarks/seven", batch=batch)
    class Small:
        def build(self) -> Any:
            from smallnet_models import MODELS

            return MODELS[name][0]()

        def inputs(self, batch: int) -> Batch:
            from smallnet_models import MODELS

            return Batch((MODELS[name][1](batch),))


for _name, _batch in BATCHES.items():
    _register(_name, _batch)
