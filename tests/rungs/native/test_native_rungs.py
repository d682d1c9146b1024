"""The native rungs on the CPU: built on first use, equal to the reference, and without Python in the process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from proof import make

from tare.cases.case import Case, Mode, Optimizer, Precision
from tare.cases.options import Options
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.rungs import get_rung
from tare.rungs.native import build
from tare.workloads import get_workload

# Short rounds: no test here looks at times.
OPTIONS = Options(rounds=1, budget=0.05, timeout=600)


def full(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.full)


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    """Builds into the user's own cache, because a build takes a minute."""
    executor = LocalExecutor(make_launcher("fork", ("torchvision",)), tmp_path_factory.mktemp("scratch"))
    yield executor
    executor.close()


# Building the LibTorch rungs takes minutes; the quick tier builds and compares the vendor rung.
@pytest.mark.full
@pytest.mark.parametrize("workload", ["mnist_cnn", "lstm", "resnet50"])
@pytest.mark.parametrize("rung", ["libtorch", "libtorch:script"])
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_same_as_the_reference(executor: LocalExecutor, workload: str, rung: str, mode: Mode) -> None:
    round_ = executor.run_round(make(workload, rung, mode), 0, OPTIONS, check=True)
    assert round_.failure is None, round_.failure
    assert round_.isolation == "executable"
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity
    assert round_.parity.undecided == 0
    if mode == "train":
        parameters = len(list(get_workload(workload).build(make(workload, rung, mode).sizes).parameters()))
        assert round_.parity.compared == 4 + 2 * parameters


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_tied_weights_are_one_weight_in_a_script(executor: LocalExecutor, optimizer: Optimizer) -> None:
    """GPT-2 uses one matrix for its input and output embeddings."""
    pytest.importorskip("transformers")
    workload = get_workload("hf_GPT2")
    case = Case(
        workload="hf_GPT2",
        rung="libtorch:script",
        mode="train",
        batch=workload.smoke_batch,
        sizes={**workload.defaults, **workload.smoke_sizes},
        optimizer=optimizer,
    )
    round_ = executor.run_round(case, 0, OPTIONS, check=True)
    assert round_.failure is None, round_.failure
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity


# test_vendor_operators.py tests every operator in both layouts, so each larger workload runs in one layout.
VENDOR = [
    ("mnist_cnn", "infer", "contiguous"),
    ("mnist_cnn", "train", "channels-last"),
    full("mnist_cnn", "infer", "channels-last"),
    full("mnist_cnn", "train", "contiguous"),
    full("mlp", "infer", "contiguous"),
    full("mlp", "train", "contiguous"),
    full("lstm", "infer", "contiguous"),
    full("lstm", "train", "contiguous"),
    full("resnet50", "infer", "contiguous"),
    full("resnet50", "train", "channels-last"),
]


@pytest.mark.parametrize(("workload", "mode", "layout"), VENDOR)
def test_vendor_is_the_same(executor: LocalExecutor, workload: str, mode: Mode, layout: str) -> None:
    round_ = executor.run_round(make(workload, "vendor", mode, layout=layout), 0, OPTIONS, check=True)
    assert round_.failure is None, round_.failure
    assert round_.isolation == "executable"
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity
    assert round_.parity.undecided == 0
    if mode == "train":
        parameters = len(list(get_workload(workload).build(make(workload, "vendor", mode).sizes).parameters()))
        assert round_.parity.compared == 4 + 2 * parameters


# One network of each family. VGG trains as AlexNet does, and takes the longest.
TRAINED = ["alexnet", "mobilenet_v2", "mobilenet_v3_large", "phlippe_densenet", "resnext50_32x4d", "squeezenet1_1"]
NETWORKS = [*((name, "train") for name in TRAINED), *((name, "infer") for name in [*TRAINED, "vgg16"])]


@pytest.mark.full
@pytest.mark.parametrize(("workload", "mode"), NETWORKS)
def test_vendor_runs_other_networks(executor: LocalExecutor, workload: str, mode: Mode) -> None:
    definition = get_workload(workload)
    case = Case(
        workload=workload,
        rung="vendor",
        mode=mode,
        batch=8,
        sizes=definition.smoke_sizes,
        optimizer="sgd" if mode == "train" else None,
    )
    round_ = executor.run_round(case, 0, OPTIONS, check=True)
    assert round_.failure is None, round_.failure
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity


# With two values per channel a batch norm keeps only their order. Rounding then decides which ReLUs flip in the
# first step, and so the losses of the next steps.
@pytest.mark.full
@pytest.mark.parametrize("workload", ["densenet121", "shufflenet_v2_x1_0", "timm_efficientnet"])
def test_flips_by_rounding_are_not_called_different(executor: LocalExecutor, workload: str) -> None:
    sizes = get_workload(workload).smoke_sizes
    case = Case(workload=workload, rung="vendor", mode="train", batch=2, sizes=sizes, optimizer="sgd")
    round_ = executor.run_round(case, 0, OPTIONS, check=True)
    assert round_.failure is None, round_.failure
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity
    # After three steps eager itself has many updates that are rounding.
    assert round_.parity.undecided < round_.parity.compared


@pytest.mark.full
def test_missing_operator_is_named_in_the_failure(executor: LocalExecutor) -> None:
    sizes = get_workload("unet3d").smoke_sizes
    case = Case(workload="unet3d", rung="vendor", mode="infer", batch=1, sizes=sizes)
    round_ = executor.run_round(case, 0, OPTIONS, check=False)
    assert round_.failure is not None
    assert round_.failure.cause == "unsupported"
    assert "max_pool3d" in round_.failure.message


def test_vendor_links_no_framework() -> None:
    needed = build.executable("tare-vendor-cpu").read_bytes()
    assert b"libtorch" not in needed
    assert b"libpython" not in needed
    assert b"openblas" in needed


@pytest.mark.full
@pytest.mark.parametrize("rung", ["aot", "aot:python"])
def test_aot_is_the_same_and_is_compiled_once(executor: LocalExecutor, rung: str) -> None:
    case = make("mnist_cnn", rung, "infer")
    first, second = (executor.run_round(case, i, OPTIONS, check=i == 0) for i in range(2))
    assert first.failure is None, first.failure
    assert first.parity is not None
    assert first.parity.status == "same"
    assert (first.cache, second.cache) == ("cold", "warm")


# TorchScript cannot train a softmax under bfloat16 autocast: tests/gpu has that limit.
LOW = [
    ("libtorch", "bf16", "infer"),
    ("libtorch", "bf16", "train"),
    ("libtorch", "amp-bf16", "infer"),
    ("libtorch", "amp-bf16", "train"),
    ("libtorch:script", "bf16", "infer"),
    ("libtorch:script", "bf16", "train"),
    ("libtorch:script", "amp-bf16", "infer"),
]


@pytest.mark.full
@pytest.mark.parametrize(("rung", "precision", "mode"), LOW)
def test_low_precision(executor: LocalExecutor, rung: str, precision: Precision, mode: Mode) -> None:
    round_ = executor.run_round(make("mnist_cnn", rung, mode, precision), 0, OPTIONS, check=True)
    assert round_.failure is None, round_.failure
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity
    assert round_.parity.error is not None
    assert round_.parity.error > 1e-5, "computed in float32 after all"


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_other_optimizers(executor: LocalExecutor, optimizer: str) -> None:
    round_ = executor.run_round(
        make("mnist_cnn", "libtorch", "train", optimizer=optimizer), 0, OPTIONS, check=True
    )
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity


@pytest.mark.full
def test_channels_last(executor: LocalExecutor) -> None:
    round_ = executor.run_round(
        make("resnet50", "libtorch", "infer", layout="channels-last"), 0, OPTIONS, check=True
    )
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity


@pytest.mark.full
def test_number_of_threads_is_the_case_s(executor: LocalExecutor) -> None:
    round_ = executor.run_round(make("mnist_cnn", "libtorch", "infer", threads=3), 0, OPTIONS, check=False)
    assert round_.failure is None
    # Not a number that the tests have by default.
    assert round_.flags["threads"] == "3"


@pytest.mark.full
def test_libtorch_links_no_python() -> None:
    needed = build.executable("tare-libtorch").read_bytes()
    assert b"libpython" not in needed
    assert b"libtorch_python" not in needed


def test_workload_without_a_cpp_version_is_refused() -> None:
    reason = get_rung("libtorch").supports(make("mlp", "libtorch", "infer"), get_workload("mlp"))
    assert reason is not None
    assert "mlp" in reason
    assert "libtorch:script" in reason
    case: Case = make("mlp", "aot", "train")
    assert "inference only" in str(get_rung("aot").supports(case, get_workload("mlp")))
    amp = msgspec.structs.replace(make("mlp", "libtorch:script", "train"), precision="amp-fp16")
    assert "scaler" in str(get_rung("libtorch:script").supports(amp, get_workload("mlp")))


def test_vendor_names_its_limits() -> None:
    vendor, mlp = get_rung("vendor"), get_workload("mlp")
    assert vendor.supports(make("mlp", "vendor", "infer", "bf16"), mlp) is None
    assert "tf32" in str(vendor.supports(make("mlp", "vendor", "infer", "tf32"), mlp))
    adam = make("mlp", "vendor", "train", optimizer="adam")
    assert vendor.supports(adam, mlp) is None
    scaled = msgspec.structs.replace(adam, precision="amp-fp16")
    assert "gradient scaler" in str(vendor.supports(scaled, mlp))
    other = msgspec.structs.replace(adam, optimizer="rmsprop")
    assert "SGD" in str(vendor.supports(other, mlp))
    assert "CUDA" in str(vendor.supports(make("mlp", "vendor:graph", "infer"), mlp))
    missing = vendor.available("mps")
    assert missing is not None
    assert "mps" in missing.reason


def test_without_a_compiler_the_rung_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    missing = get_rung("libtorch").available("cpu")
    assert missing is not None
    assert "compiler" in missing.reason
    assert "apt-get" in missing.remedy


def test_failed_build_reports_the_first_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "CMakeLists.txt").write_text("message(FATAL_ERROR planted)\n")
    monkeypatch.setattr(build, "SOURCES", tmp_path / "sources")
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    with pytest.raises(TareError, match=r"cannot build .*build\.log") as caught:
        build.executable("tare-libtorch")
    assert "\n" not in str(caught.value)


def test_failed_build_fails_the_case_and_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def refuse(name: str, on_build: object) -> Path:  # noqa: ARG001
        tried.append(name)
        raise TareError("cannot build the native rungs: planted")

    monkeypatch.setattr("tare.rungs.native.rung.executable", refuse)
    executor = LocalExecutor(make_launcher("spawn"), tmp_path)
    for index in range(2):
        round_ = executor.run_round(make("lstm", "libtorch", "infer"), index, OPTIONS, check=False)
        assert round_.failure is not None
        assert (round_.failure.cause, round_.failure.stage) == ("not-installed", "build")
        assert "planted" in round_.failure.message
    assert len(tried) == 1


def test_build_key_depends_on_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.build_key()
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    (tmp_path / "a.cpp").write_text("int main() {}")
    other = build.build_key()
    (tmp_path / "a.cpp").write_text("int main() { return 1; }")
    assert len({before, other, build.build_key()}) == 3
