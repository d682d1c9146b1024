"""Loss curves: many training steps on real data, each on its own batch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.protocol.jobs import CurveJob
from tare.rungs import get_rung
from tare.rungs.base import Arrays
from tare.rungs.torch.evidence import thinned
from tare.rungs.torch.numerics import pin_flags
from tare.workloads import Batch, get_workload
from tare.workloads.datasets import Shapes, load, make_batches


def arrays_of(case: Case, data: str, steps: int) -> list[list[NDArray[np.float32]]]:
    """The batches of a case from a dataset, in the shapes of its example batch."""
    example = get_workload(case.workload).inputs(case.batch, case.sizes)
    shapes = Shapes(
        args=tuple(tuple(arg.shape) for arg in example.args),
        target=tuple(example.target.shape),
        classes=case.sizes.get("classes"),
    )
    return make_batches(load(data), shapes, steps)


def batches_of(case: Case, data: str, steps: int) -> list[Batch]:
    """The same as tensors; the target gets the type of the workload's own target."""
    import torch

    kind = get_workload(case.workload).inputs(case.batch, case.sizes).target.dtype
    return [
        Batch(tuple(map(torch.from_numpy, args)), torch.from_numpy(target).to(kind))
        for *args, target in arrays_of(case, data, steps)
    ]


def stage_batches(case: Case, data: str, steps: int, folder: Path) -> None:
    """For executables: array I of the batch of step K as batches/K.I.npy."""
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    for step, arrays in enumerate(arrays_of(case, data, steps), 1):
        for i, array in enumerate(arrays):
            np.save(folder / "batches" / f"{step}.{i}.npy", array, allow_pickle=False)


def follow(job: CurveJob) -> None:
    """Writes the losses of a rung that runs in Python, as an executable would."""
    case = job.case
    pin_flags(case)
    program = get_rung(case.rung).prepare(get_workload(case.workload), case)
    try:
        write_evidence(Path(job.evidence), program.curve(batches_of(case, job.data, job.steps)))
    finally:
        program.close()


def write_evidence(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """The format of native/worker/npy.hpp: names.json comes last, so that a partial folder is never read."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, values in enumerate(arrays.values()):
        np.save(folder / f"{i}.npy", values, allow_pickle=False)
    (folder / "names.json").write_text(json.dumps(list(arrays)))


def read_evidence(folder: Path) -> Arrays:
    """Reads what an executable or `write_evidence` wrote, without unpickling."""
    names = json.loads((folder / "names.json").read_text())
    return {name: thinned(np.load(folder / f"{i}.npy", allow_pickle=False)) for i, name in enumerate(names)}
