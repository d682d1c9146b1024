"""Rungs whose worker is an executable. Python stages the model for it and is not in the measured process."""

import json
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung, learning_rate
from tare.rungs.native.build import executable, missing_tools
from tare.workloads.base import Workload


class NativeRung(Rung):
    """`stage` runs once per case in a Python worker, and counts as preparation."""

    def available(self, device_type: str) -> Missing | None:  # noqa: ARG002
        return missing_for("libtorch")

    def program(self, case: Case) -> str:
        """The name of the executable that runs a case."""
        raise NotImplementedError

    def is_executable(self, case: Case) -> bool:  # noqa: ARG002
        """Whether this variant is an executable; the others are prepared in Python like any rung."""
        return True

    def command(self, case: Case, on_build: Callable[[], None]) -> tuple[str, ...]:
        return (str(executable(self.program(case), on_build)),)

    def staged_as(self, case: Case) -> Case:
        """The case whose staged files this one uses; another case's, where both need the same files."""
        return case

    @abstractmethod
    def stage(self, workload: Workload, case: Case, folder: Path) -> None:
        """Writes the model, its weights and the batch for the executable."""

    def prepare(self, workload: Workload, case: Case) -> Program:
        raise TypeError(f"{case.rung} of {workload.name} runs as an executable, not in Python")


def missing_for(component: str) -> Missing | None:
    """What keeps a component from being built here."""
    lacking = missing_tools(component)
    if lacking is None:
        return None
    cuda = "; a CUDA toolkit; pip install nvidia-cudnn-cu13 nvidia-cublas" if component == "vendor/cuda" else ""
    reason = f"it is built on first use, which needs {lacking}"
    return Missing(reason, f"Debian: apt-get install g++ cmake{cuda}")


def stage_batches(program: Any, folder: Path, **settings: object) -> None:
    """The batches and the settings that every LibTorch executable reads (libtorch/torch_program.hpp)."""
    import torch

    case, workload = program.case, program.workload
    tensors = [
        tensor.detach().cpu()
        for batch in program.host_batches
        for tensor in (*batch.args, *([batch.target] if program.trains else []))
    ]
    torch.save(tensors, folder / "batches.pt")
    document = {
        "batches": len(program.host_batches),
        "autocast": program.numerics.autocast,
        "learning_rate": learning_rate(workload, case),
        "momentum": workload.momentum,
        "updates": program.numerics.storage == "float32",
        **settings,
    }
    (folder / "stage.json").write_text(json.dumps(document))
