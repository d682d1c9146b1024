"""Rounds on a GPU through the real executor: meters, telemetry, out of memory."""

from collections.abc import Iterator

import msgspec
import pytest
import torch
from proof import make

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.records.figures import round_median
from tare.records.record import Round
from tare.workloads import get_workload

pytestmark = pytest.mark.alone

OPTIONS = Options(rounds=1, budget=3, width=0.001)


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    folder = tmp_path_factory.mktemp("gpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_HOME", str(folder))
        made = LocalExecutor(make_launcher("fork", ("torchvision",)), folder / "scratch")
        assert "cuda" in made.probe().devices
        yield made
        made.close()


@pytest.fixture(scope="module")
def done(executor: LocalExecutor) -> Round:
    return executor.run_round(
        make("mnist_cnn", "eager", "train", device="cuda", batch=256), 0, OPTIONS, check=True
    )


def test_events_and_wall_clock_agree_on_pipelined_steps(done: Round) -> None:
    assert done.failure is None
    series = done.find("pipelined")
    assert series is not None
    assert series.device_ns is not None
    for wall, device in zip(series.wall_ns, series.device_ns, strict=True):
        assert device <= wall * 1.01
        assert device >= wall * 0.5


def test_parity_was_proved_on_the_gpu(done: Round) -> None:
    assert done.parity is not None
    assert done.parity.status == "same"
    assert done.parity.reference == "eager float64 on cuda"


def test_the_three_memory_figures_are_there_and_ordered(done: Round) -> None:
    memory = done.device_memory
    assert memory is not None
    assert memory.allocated_peak
    assert memory.reserved_peak
    assert memory.allocated_peak <= memory.reserved_peak
    assert memory.nvml is None or memory.nvml > 0


def test_the_capture_of_a_graph_belongs_to_its_preparation(executor: LocalExecutor) -> None:
    case = make("mnist_cnn", "cudagraph", "train", device="cuda", batch=256)
    memory = executor.run_round(case, 0, OPTIONS, check=False).device_memory
    assert memory is not None
    assert memory.prepare_allocated_peak is not None
    assert memory.allocated_peak is not None
    # The activations live in the graph's pool: capturing allocates them, replaying does not.
    assert memory.prepare_allocated_peak > memory.allocated_peak


def test_a_step_that_no_graph_can_hold_is_told_by_its_line(executor: LocalExecutor) -> None:
    """torch says only that the capture is broken, once it has ended it."""
    pytest.importorskip("torchaudio")
    sizes = get_workload("conformer").smoke_sizes
    case = Case(workload="conformer", rung="cudagraph", device="cuda", batch=2, sizes=sizes)
    failure = executor.run_round(case, 0, OPTIONS, check=False).failure
    assert failure is not None
    assert failure.cause == "unsupported"
    assert ".item()" in failure.message


def test_the_machine_was_watched(done: Round) -> None:
    seen = done.telemetry
    assert seen is not None
    assert seen.sm_clock_mhz is not None
    assert seen.sm_clock_mhz[2] > 500
    assert seen.temperature_c is not None
    assert seen.power_w is not None
    assert seen.energy_j_per_step is not None
    step = round_median(done, "pipelined")
    assert step is not None
    # Energy over time is power: between a tenth of a GPU at rest and the largest there is.
    assert 10 < seen.energy_j_per_step / step.mid < 2000


def test_out_of_device_memory_is_its_own_cause_and_the_next_case_runs(executor: LocalExecutor) -> None:
    # A small input with activations larger than the device.
    width = 16384
    batch = torch.cuda.get_device_properties(0).total_memory // (4 * width) + 2**16
    sizes = {"width": width, "depth": 1, "features": 8, "classes": 10}
    huge = msgspec.structs.replace(make("mlp", "eager", "infer", device="cuda"), batch=batch, sizes=sizes)
    failed = executor.run_round(huge, 0, OPTIONS, check=False)
    assert failed.failure is not None
    assert failed.failure.cause == "device-oom"
    again = executor.run_round(make("mlp", "cudagraph", "infer", device="cuda"), 0, OPTIONS, check=True)
    assert again.failure is None
    assert again.parity is not None
    assert again.parity.status == "same"


def test_the_kernels_of_a_step_are_counted_in_the_first_round(executor: LocalExecutor) -> None:
    case = make("mlp", "eager", "infer", device="cuda", batch=8)
    first, second = (executor.run_round(case, i, OPTIONS, check=False) for i in (0, 1))
    assert first.counts["kernels"] == sum(first.kernels.values()) > 0
    assert "kernels" not in second.counts
    assert first.counts["operators"] == second.counts["operators"] == sum(first.operators.values())
