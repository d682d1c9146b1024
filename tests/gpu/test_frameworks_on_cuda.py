"""JAX on CUDA: the reference, in every precision, and where and how it takes its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jax_backends import forget_devices
from proof import SMALL, TRANSFORMER, check, make

from tare.cases.case import Mode, Precision
from tare.commands.ranks import trace_files
from tare.rungs import get_rung
from tare.trace.breakdown import breakdown
from tare.trace.metadata import device_name
from tare.trace.read import read

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


def in_own_process(code: str, *args: str) -> str:
    """What it prints. A process has one profiler of its GPU, and here JAX's and torch's are both tried. JAX may
    also have been imported without the settings of its rung."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


NET = """
import sys
import time

import msgspec
from proof import make
from tare.rungs import get_rung
from tare.workloads import get_workload

name = sys.argv[1]
case = make("mlp", name, "infer", "bf16", device="cuda", batch=4096)
case = msgspec.structs.replace(case, sizes={**case.sizes, "width": 4096, "features": 4096, "depth": 4})
program = get_rung(name).prepare(get_workload("mlp"), case)
for _ in range(3):
    program.step()
program.synchronize()
began = time.perf_counter()
program.step()
program.synchronize()
step_s = time.perf_counter() - began
profile = program.profile(step_s)
program.close()
assert profile.net.reason == "", profile.net.reason
assert profile.net.method == "union of kernels", profile.net.method
assert profile.kernels
assert 0 < profile.net.busy_s < 1.5 * step_s, (profile.net.busy_s, step_s)
print(profile.net.busy_s)
"""


@pytest.mark.parametrize("rung", RUNGS)
def test_net_is_the_time_of_its_kernels(rung: str) -> None:
    """Products of 4096 x 4096 matrices fill the device: net of eager torch is about the same."""
    net, eager = (float(in_own_process(NET, name)) for name in (rung, "eager"))
    assert net == pytest.approx(eager, rel=0.5)


PROFILE = """
import sys

import jax
from proof import make
from tare.rungs import get_rung
from tare.workloads import get_workload

program = get_rung("jax").prepare(get_workload("mlp"), make("mlp", "jax", "train", device="cuda", batch=64))
for _ in range(3):
    program.step()
program.synchronize()
jax.profiler.start_trace(sys.argv[1])
for number in range(4):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        program.step()
        program.synchronize()
jax.profiler.stop_trace()
"""


def test_a_profile_of_a_gpu_is_explained(tmp_path: Path) -> None:
    """What jax.profiler writes, as `tare explain LOGDIR` reads it: kernels joined to their calls, in steps."""
    in_own_process(PROFILE, str(tmp_path))
    (file,) = trace_files(str(tmp_path))
    trace = read(Path(file))
    assert trace.steps.number.tolist() == [0, 1, 2, 3]
    assert device_name(trace)
    parts = breakdown(trace)
    assert parts is not None
    assert parts.active > 0
    kernels = trace.device.kernels
    assert (trace.device.call[kernels] >= 0).mean() > 0.9
    assert (trace.device.grid[kernels] > 0).all()
    assert any(
        trace.name(trace.operators, row) for row in trace.calls.operator[trace.device.call[kernels]].tolist()
    )
    # The Chrome trace beside it says the same.
    (copy,) = Path(file).parent.glob("*.trace.json.gz")
    other = breakdown(read(copy))
    assert other is not None
    assert (other.graph_kernels, other.orphans) == (parts.graph_kernels, parts.orphans)
    assert other.active == pytest.approx(parts.active, rel=0.01)


MEMORY = """
from proof import make
from tare.measure.devices import open_gpu
from tare.rungs import get_rung
from tare.workloads import get_workload

case = make("mlp", "jax", "infer", device="cuda")
gpu = open_gpu("cuda")
before = gpu.used()
program = get_rung("jax").prepare(get_workload("mlp"), case)
result = program.step()
program.synchronize()
print(result.devices().pop().platform, (gpu.used() - before) // 2**20)
"""


def test_it_computes_on_the_device_and_reserves_little_memory() -> None:
    platform, mebibytes = in_own_process(MEMORY).split()
    assert platform in ("gpu", "cuda")
    # Three quarters of any GPU would be more; a context and its libraries are not.
    assert int(mebibytes) < 4096
