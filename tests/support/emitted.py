"""Projects that tare emits: staged, compared with float64 and written in the test's own process, then built and
run as a user would, from the folder alone."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tare.cases.case import Case, Mode
from tare.measure.parity import Reference, load_reference
from tare.protocol.jobs import reference_case
from tare.rungs import get_rung
from tare.rungs.native import toolchain
from tare.rungs.torch.numerics import pin_flags
from tare.rungs.vendor.emission.layers import LayerFunction
from tare.rungs.vendor.emission.project import ProjectFacts, write_project
from tare.rungs.vendor.fusion.build import TARGETS
from tare.worker.reference import make_reference, widen_reference
from tare.workloads import get_workload


class Emitted(NamedTuple):
    folder: Path
    layers: list[LayerFunction]
    reference: Reference


def emit(
    name: str,
    mode: Mode,
    folder: Path,
    batch: int = 0,
    sizes: dict[str, int] | None = None,
    widened: bool = False,
    change: Callable[[Path], None] = lambda _: None,
) -> Emitted:
    """`change` may rewrite the staged plan before it becomes a project."""
    workload = get_workload(name)
    case = Case(
        workload=name,
        rung="vendor",
        mode=mode,
        batch=batch or workload.smoke_batch,
        sizes={**workload.defaults, **workload.smoke_sizes, **(sizes or {})},
        optimizer=workload.optimizer if mode == "train" else None,  # type: ignore[arg-type]
    )
    stage, expected, project = folder / "stage", folder / "reference", folder / "project"
    stage.mkdir()
    project.mkdir()
    pin_flags(case)
    # The library of the rung's own kernels is not needed, and takes long to compile.
    with patch("tare.rungs.vendor.fusion.build.build_kernels", write_source):
        get_rung("vendor").stage(workload, case, stage)  # type: ignore[attr-defined]
    change(stage)
    make_reference(reference_case(case), expected)
    if widened:
        # What parity compares with where a deep network seems to differ.
        widen_reference(reference_case(case), expected)
    reference = load_reference(expected)
    assert reference is not None
    about = ProjectFacts(f"One step of {name}", f"tare emit {name}", "fp32", reference.described, None)
    return Emitted(project, write_project(stage, reference, about, project), reference)


def write_source(source: str, device: str, folder: Path) -> None:
    (folder / TARGETS[device].source).write_text(source)


def build(project: Path) -> Path:
    """The program of a project, moved away from where it was written, and built without Python or tare."""
    moved = project.parent / "elsewhere" / "moved"
    moved.parent.mkdir(exist_ok=True)
    shutil.copytree(project, moved, dirs_exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": ""}
    commands = [
        ["cmake", "-S", str(moved), "-B", str(moved / "build"), f"-DBLAS_LIBRARY={toolchain.blas()}"],
        ["cmake", "--build", str(moved / "build"), "--parallel", "2"],
    ]
    for command in commands:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
    return moved / "build" / "step"


def run(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ""}
    # In a folder of its own: the program finds its data beside itself.
    return subprocess.run(
        [str(program), *options], env=environment, cwd=program.parent, capture_output=True, text=True, timeout=300
    )
