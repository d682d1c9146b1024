"""JAX on CUDA: the reference, in every precision, and where and how it takes its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jax_backends import forget_devices
from proof import SMALL, TRANSFORMER, check, make

from tare.cases.case import Mode, Precision
from tare.rungs import get_rung

pytestmark = pytest.mark.skipif(get_rung("jax").available("cuda") is not None, reason="no JAX for CUDA here")


@pytest.fixture(scope="module", autouse=True)
def devices_are_opened_anew() -> None:
    forget_devices()


RUNGS = ["jax", "jax:eager"]


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("workload", [*SMALL, *TRANSFORMER])
def test_same_as_the_reference(workload: str, mode: Mode, rung: str, tmp_path: Path) -> None:
    parity = check(make(workload, rung, mode, device="cuda", batch=8), tmp_path)
    assert parity.status == "same", parity


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("precision", ["tf32", "bf16", "amp-bf16"])
def test_every_precision(precision: Precision, mode: Mode, layout: str, tmp_path: Path) -> None:
    parity = check(make("mnist_cnn", "jax", mode, precision, device="cuda", batch=16, layout=layout), tmp_path)
    assert parity.status == "same", parity


def test_fp32_is_no_tf32(tmp_path: Path) -> None:
    """JAX's own default for float32 products on a GPU is TF32."""
    errors = {}
    precisions: tuple[Precision, ...] = ("fp32", "tf32")
    for precision in precisions:
        case = make("mlp", "jax", "infer", precision, device="cuda", batch=64)
        errors[precision] = check(case, tmp_path / precision).error
    assert errors["fp32"] is not None
    assert errors["tf32"] is not None
    assert errors["fp32"] < 1e-5 < errors["tf32"]


def test_it_computes_on_the_device_and_reserves_little_memory() -> None:
    """In a process of its own: here JAX may have been imported without the settings of the rung."""
    code = (
        "from proof import make; from tare.rungs import get_rung; from tare.workloads import get_workload\n"
        "from tare.measure.devices import open_gpu\n"
        "case = make('mlp', 'jax', 'infer', device='cuda'); gpu = open_gpu('cuda'); before = gpu.used()\n"
        "program = get_rung('jax').prepare(get_workload('mlp'), case); result = program.step()\n"
        "program.synchronize(); print(result.devices().pop().platform, (gpu.used() - before) // 2**20)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    platform, mebibytes = done.stdout.split()
    assert platform in ("gpu", "cuda")
    # Three quarters of any GPU would be more; a context and its libraries are not.
    assert int(mebibytes) < 4096
