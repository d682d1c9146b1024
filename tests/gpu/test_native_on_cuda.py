"""The C++ rungs on CUDA: built there, proved equal there, timed by device events, weighed."""

import pytest
from proof import make

from tare.cases.case import Mode, Precision
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor

OPTIONS = Options(rounds=1, budget=0.6, timeout=600)


# The rungs vary fastest: they follow one another in one process, which makes their reference once.
@pytest.mark.parametrize("rung", ["libtorch", "libtorch:script", "vendor", "vendor:graph"])
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("workload", ["mnist_cnn", "lstm", "resnet50"])
def test_same_as_the_reference(executor: LocalExecutor, workload: str, rung: str, mode: Mode) -> None:
    done = executor.run_round(make(workload, rung, mode, device="cuda", batch=8), 0, OPTIONS, check=True)
    assert done.failure is None, done.failure
    assert done.parity is not None
    assert done.parity.status == "same", done.parity
    pipelined = done.find("pipelined")
    assert pipelined is not None
    assert pipelined.device_ns is not None
    assert done.device_memory is not None
    assert done.device_memory.reserved_peak


@pytest.mark.parametrize("rung", ["libtorch", "libtorch:script", "vendor"])
@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16", "amp-bf16", "amp-fp16"])
def test_every_precision(executor: LocalExecutor, rung: str, precision: Precision) -> None:
    done = executor.run_round(make("mnist_cnn", rung, "infer", precision, device="cuda"), 0, OPTIONS, check=True)
    assert done.failure is None, done.failure
    assert done.parity is not None
    assert done.parity.status == "same", done.parity


@pytest.mark.parametrize("rung", ["aot", "aot:python"])
def test_compiled_ahead_of_time(executor: LocalExecutor, rung: str) -> None:
    case = make("resnet50", rung, "infer", "bf16", device="cuda", layout="channels-last")
    done = executor.run_round(case, 0, OPTIONS, check=True)
    assert done.failure is None, done.failure
    assert done.parity is not None
    assert done.parity.status == "same", done.parity


@pytest.mark.parametrize("workload", ["mnist_cnn", "lstm", "resnet50"])
@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16", "amp-bf16"])
def test_the_vendor_s_libraries_train_in_every_precision(
    executor: LocalExecutor, workload: str, precision: Precision
) -> None:
    layout = "contiguous" if workload == "lstm" else "channels-last"
    case = make(workload, "vendor:graph", "train", precision, device="cuda", batch=8, layout=layout)
    done = executor.run_round(case, 0, OPTIONS, check=True)
    assert done.failure is None, done.failure
    assert done.parity is not None
    assert done.parity.status == "same", done.parity


@pytest.mark.parametrize("rung", ["libtorch", "vendor", "vendor:graph"])
@pytest.mark.parametrize("feed", ["pinned", "pageable"])
def test_every_feed(executor: LocalExecutor, feed: str, rung: str) -> None:
    case = make("mnist_cnn", rung, "train", device="cuda", feed=feed)
    done = executor.run_round(case, 0, OPTIONS, check=True)
    assert done.parity is not None
    assert done.parity.status == "same", done.parity
