"""The JAX rung computes what the float64 reference computes, waits for its work, and stays on its device."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import planted_tare
from jax_backends import forget_devices
from proof import SMALL, TRANSFORMER, check, make

from tare.cases.case import Case, Mode, Precision
from tare.errors import TareError
from tare.rungs import get_rung, ladder
from tare.workloads import get_workload

QUICK = [("mlp", "train", "jax"), ("mnist_cnn", "infer", "jax:eager"), ("lstm", "infer", "jax")]
# A training step of ResNet-50, operation by operation.
SLOW = ("resnet50", "train", "jax:eager")
EVERY = [
    (workload, mode, rung)
    for workload in (*SMALL, *TRANSFORMER)
    for mode in ("infer", "train")
    for rung in ("jax", "jax:eager")
]


@pytest.fixture(scope="module", autouse=True)
def devices_are_opened_anew() -> None:
    forget_devices()


@pytest.fixture(autouse=True)
def programs_are_forgotten() -> Iterator[None]:
    """JAX keeps every program that it has compiled: gigabytes, in a process of many tests."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture(autouse=True)
def environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rung changes the environment of the measured process, which here is that of the tests."""
    for name in ("XLA_PYTHON_CLIENT_PREALLOCATE", "JAX_PLATFORMS", "PJRT_NPROC"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("workload", "mode", "rung"),
    [
        pytest.param(
            *each, marks=() if each in QUICK else (pytest.mark.full, *[pytest.mark.slow] * (each == SLOW))
        )
        for each in EVERY
    ],
)
def test_same_as_the_reference(workload: str, mode: Mode, rung: str, tmp_path: Path) -> None:
    case = make(workload, rung, mode)
    parity = check(case, tmp_path)
    assert parity.status == "same", parity
    assert parity.undecided == 0
    if mode == "train":
        parameters = len(list(get_workload(workload).build(case.sizes).parameters()))
        assert parity.compared == 3 + 1 + 2 * parameters


@pytest.mark.full
@pytest.mark.parametrize("workload", ["mlp", "mnist_cnn", "lstm", "nanogpt"])
@pytest.mark.parametrize(
    ("precision", "mode"),
    [(p, m) for p in ("bf16", "amp-bf16", "fp16") for m in ("infer", "train") if (p, m) != ("fp16", "train")],
)
def test_low_precision_is_the_same_within_its_own_noise(
    workload: str, precision: Precision, mode: Mode, tmp_path: Path
) -> None:
    case = make(workload, "jax", mode, precision)
    if refusal := get_rung("jax").supports(case, get_workload(workload)):
        assert "float16" in refusal
        return
    parity = check(case, tmp_path)
    assert parity.status == "same", parity
    assert parity.error is not None
    assert parity.error > 1e-5, "computed in float32 after all"


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_other_optimizers_are_torchs(optimizer: str, tmp_path: Path) -> None:
    assert check(make("mlp", "jax", "train", optimizer=optimizer), tmp_path).status == "same"


@pytest.mark.full
@pytest.mark.parametrize("workload", ["mnist_cnn", "resnet50"])
def test_channels_last_is_the_same(workload: str, tmp_path: Path) -> None:
    assert check(make(workload, "jax", "train", layout="channels-last"), tmp_path).status == "same"


def test_swapped_gates_are_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: input and forget gate in each other's place."""
    from tare.rungs.frameworks.jax.program import JaxProgram

    convert = JaxProgram._as_jax

    def swapped(self: Any, name: str, array: Any) -> Any:
        if "_hh_" in name and array.ndim == 2:
            entry, forget, candidate, exit_ = np.split(array, 4)
            array = np.concatenate([forget, entry, candidate, exit_])
        return convert(self, name, array)

    monkeypatch.setattr(JaxProgram, "_as_jax", swapped)
    assert check(make("lstm", "jax", "infer"), tmp_path).status == "different"


@pytest.mark.full
def test_a_missing_wait_is_caught(tmp_path: Path) -> None:
    """With one thread: with several, steps that do not depend on each other end in any order."""
    sizes = ("--size", "width=256", "--size", "depth=4", "--threads", "1")
    run = ("run", "mlp", "--device", "cpu", "--batch", "64", *sizes, "--quick", "--no-parity")
    done = planted_tare(tmp_path, *run, "--rung", "jax-hasty", TARE_PLUGINS="hasty_jax")
    assert done.returncode != 0
    assert "unsynchronised in audit" in done.stdout


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_xla_compiles_in_the_first_step_alone(mode: Mode) -> None:
    """The first step is part of the preparation. A step that compiled later, for another batch, would be timed."""
    import jax.monitoring

    compiled: list[str] = []

    def listen(event: str, _: float, **__: Any) -> None:
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    program: Any = get_rung("jax").prepare(get_workload("mlp"), make("mlp", "jax", mode, batch=5))
    before = len(compiled)
    program.step()
    assert len(compiled) == before + 1
    for batch in (1, 2, 0):
        program.select(batch)
        program.rewind()
        before = len(compiled)
        program.step()
        program.step()
        program.synchronize()
        assert len(compiled) == before


def test_results_elsewhere_than_the_case_says_are_refused() -> None:
    program: Any = get_rung("jax").prepare(get_workload("mlp"), make("mlp", "jax", "infer"))
    result = program.step()
    program.device = "another device"
    with pytest.raises(TareError, match="computes on"):
        program.checksum(result)


@pytest.mark.parametrize("rung", ["jax", pytest.param("jax:eager", marks=pytest.mark.full)])
def test_its_profiler_sees_the_operators(rung: str) -> None:
    program: Any = get_rung(rung).prepare(get_workload("mlp"), make("mlp", rung, "train"))
    program.step()
    net = program.profile(0.05).net
    assert (net.steps, net.reason, net.busy_s) == (3, "", None)
    assert 0 < net.share < 1


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (make("mlp", "jax", "train", "amp-fp16"), "loss scaling"),
        (make("mlp", "jax", "infer", device="mps"), "CUDA devices"),
        (make("mlp", "jax", "infer", device="cuda", feed="pinned"), "--feed device"),
        (Case(workload="alexnet", rung="jax", batch=1), "written for lstm"),
    ],
)
def test_what_it_cannot_do_has_a_reason(case: Case, reason: str) -> None:
    assert reason in str(get_rung("jax").supports(case, get_workload(case.workload)))


def test_not_installed_is_not_available_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tare.rungs.frameworks.jax.rung.find_spec", lambda name: None if name == "jax" else find_spec(name)
    )
    missing = get_rung("jax").available("cpu")
    assert missing is not None
    assert "not installed" in missing.reason
    assert "jax" in missing.remedy


def test_the_process_is_prepared_before_jax_opens_a_device() -> None:
    code = (
        "from tare.cases.case import Case; from tare.rungs.frameworks.jax.rung import prepare_process; import os\n"
        "prepare_process(Case(workload='mlp', rung='jax', batch=1, threads=1)); import jax\n"
        "print(os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'], jax.devices()[0].platform, os.environ['PJRT_NPROC'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout.split() == ["false", "cpu", "1"], done.stderr


def test_other_frameworks_are_measured_only_by_name() -> None:
    assert not [name for name in ladder() if name.startswith("jax")]
    code = "import sys; from tare.rungs import all_rungs; [r.available('cpu') for r in all_rungs().values()]\n"
    code += "print({'jax', 'onnx', 'onnxruntime', 'openvino', 'tensorflow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
