"""Files between processes: what is staged for an executable, and evidence."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare.measure.parity import thinned
from tare.protocol.jobs import CurveJob, StageJob
from tare.protocol.messages import Prepared, Send
from tare.rungs import get_rung
from tare.rungs.base import Arrays
from tare.rungs.native.rung import NativeRung
from tare.rungs.torch.numerics import pin_flags
from tare.worker.batches import batches_of
from tare.worker.preparation import limit_compilers, open_program, with_rate
from tare.workloads import get_workload


def stage(job: StageJob, _: Send) -> Prepared:
    """Exports, traces or compiles a workload for its executable. The time that takes is preparation."""
    case, folder, rung = job.case, Path(job.folder), get_rung(job.case.rung)
    assert isinstance(rung, NativeRung)
    folder.mkdir(parents=True, exist_ok=True)
    flags = pin_flags(case)
    limit_compilers(job.cores)
    began = time.perf_counter()
    rung.stage(with_rate(get_workload(case.workload), job.learning_rate), case, folder)
    return Prepared(build_s=0.0, prepare_s=time.perf_counter() - began, cache="cold", flags=flags)


def train_curve(job: CurveJob, _: Send) -> None:
    """Trains a rung that runs in Python, and writes its losses as an executable would."""
    with open_program(job.case, job.cache) as program:
        write_evidence(Path(job.evidence), program.curve(batches_of(job.case, job.batches)))


def write_evidence(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """The format of native/worker/npy.hpp: names.json comes last, so that a partial folder is never read."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, values in enumerate(arrays.values()):
        np.save(folder / f"{i}.npy", values, allow_pickle=False)
    (folder / "names.json").write_text(json.dumps(list(arrays)))


def read_arrays(folder: Path) -> Arrays:
    """Reads what an executable or `write_evidence` wrote, without unpickling."""
    names = json.loads((folder / "names.json").read_text())
    return {name: np.load(folder / f"{i}.npy", allow_pickle=False) for i, name in enumerate(names)}


def read_evidence(folder: Path) -> Arrays:
    """The same, with large arrays thinned."""
    return {name: thinned(array) for name, array in read_arrays(folder).items()}
