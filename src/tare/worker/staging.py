"""Files between processes: what is staged for an executable, the batches of a loss curve, and evidence."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.measure.parity import thinned
from tare.protocol.jobs import CurveJob, StageJob
from tare.protocol.messages import Prepared, Send
from tare.rungs import get_rung
from tare.rungs.base import Arrays
from tare.rungs.native.rung import NativeRung
from tare.rungs.torch.numerics import pin_flags
from tare.worker.preparation import limit_compilers, open_program
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


def stage(job: StageJob, _: Send) -> Prepared:
    """Exports, traces or compiles a workload for its executable. The time that takes is preparation."""
    case, folder, rung = job.case, Path(job.folder), get_rung(job.case.rung)
    assert isinstance(rung, NativeRung)
    folder.mkdir(parents=True, exist_ok=True)
    flags = pin_flags(case)
    limit_compilers(job.cores)
    began = time.perf_counter()
    rung.stage(get_workload(case.workload), case, folder)
    if job.steps:
        # Array I of the batch of step K is batches/K.I.npy.
        (folder / "batches").mkdir(exist_ok=True)
        for step, arrays in enumerate(arrays_of(case, job.data, job.steps), 1):
            for i, array in enumerate(arrays):
                np.save(folder / "batches" / f"{step}.{i}.npy", array, allow_pickle=False)
    return Prepared(build_s=0.0, prepare_s=time.perf_counter() - began, cache="cold", flags=flags)


def train_curve(job: CurveJob, _: Send) -> None:
    """Trains a rung that runs in Python, and writes its losses as an executable would."""
    with open_program(job.case, job.cache) as program:
        write_evidence(Path(job.evidence), program.curve(batches_of(job.case, job.data, job.steps)))


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
