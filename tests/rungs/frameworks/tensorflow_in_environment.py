"""The TensorFlow rung computes what the float64 reference computes. Run by test_tensorflow.py, in the environment
that has TensorFlow."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from proof import SMALL, check, make

from tare.cases.case import Mode, Precision
from tare.errors import TareError
from tare.rungs import get_rung
from tare.rungs.frameworks.tensorflow.rung import prepare_process
from tare.workloads import get_workload

VARIANTS = ("tensorflow", "tensorflow:eager", "tensorflow:xla")
EVERY = [(workload, rung, mode) for workload in SMALL for rung in VARIANTS for mode in ("infer", "train")]
EVERY += [("lstm", f"tensorflow:mode{number}", mode) for number in range(3) for mode in ("infer", "train")]
# A training step of ResNet-50 takes seconds on two cores: once, as a graph.
EVERY = [each for each in EVERY if each[0] != "resnet50" or each[2] == "infer" or each[1] == "tensorflow"]


@pytest.mark.parametrize(("workload", "rung", "mode"), EVERY)
def test_same_as_the_reference(workload: str, rung: str, mode: Mode, tmp_path: Path) -> None:
    parity = check(make(workload, rung, mode), tmp_path)
    assert parity.status == "same", parity
    assert parity.undecided == 0
    if mode == "train":
        parameters = len(list(get_workload(workload).build(make(workload, rung, mode).sizes).parameters()))
        assert parity.compared == 3 + 1 + 2 * parameters


@pytest.mark.parametrize("workload", ["mlp", "mnist_cnn", "lstm"])
@pytest.mark.parametrize(
    ("precision", "mode"),
    [("bf16", "infer"), ("bf16", "train"), ("fp16", "infer"), ("amp-bf16", "infer"), ("amp-bf16", "train")],
)
def test_low_precision_is_the_same_within_its_own_noise(
    workload: str, precision: Precision, mode: Mode, tmp_path: Path
) -> None:
    parity = check(make(workload, "tensorflow", mode, precision), tmp_path)
    assert parity.status == "same", parity
    assert parity.error is not None
    assert parity.error > 1e-5, "computed in float32 after all"


def test_swapped_gates_are_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: input and forget gate in each other's place."""
    from tare.rungs.frameworks.tensorflow.networks import Link

    convert = Link.to_keras

    def swapped(self: Any, arrays: Any) -> Any:
        if "_hh_" in self.names[0] and arrays[0].ndim == 2:
            entry, forget, candidate, exit_ = np.split(arrays[0], 4)
            arrays = [np.concatenate([forget, entry, candidate, exit_])]
        return convert(self, arrays)

    monkeypatch.setattr(Link, "to_keras", swapped)
    assert check(make("lstm", "tensorflow", "infer"), tmp_path).status == "different"


def test_a_bias_that_gets_one_gradient_of_two_is_different(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's LSTM has two biases, which both move; the sum in Keras has to move twice as far."""
    from tare.rungs.frameworks.tensorflow.program import TensorFlowProgram

    monkeypatch.setattr(TensorFlowProgram, "_for_all_of", lambda _, gradients: gradients)
    assert check(make("lstm", "tensorflow", "train"), tmp_path).status == "different"


def test_results_elsewhere_than_the_case_says_are_refused() -> None:
    program: Any = get_rung("tensorflow").prepare(get_workload("mlp"), make("mlp", "tensorflow", "infer"))
    result = program.step()
    program.device = "device:GPU:0"
    with pytest.raises(TareError, match="computes on"):
        program.checksum(result)


@pytest.mark.parametrize("rung", VARIANTS)
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_a_graph_is_traced_in_the_first_step_alone(rung: str, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is part of the preparation. A step that traced later, for another batch, would be timed. The
    Python of a graph runs when it is traced, and that of eager operations in every step."""
    from tare.rungs.frameworks.tensorflow.program import TensorFlowProgram

    calls: list[str] = []
    name = "_train" if mode == "train" else "_infer"
    body = getattr(TensorFlowProgram, name)

    def counted(self: Any, args: Any, target: Any) -> Any:
        calls.append(rung)
        return body(self, args, target)

    monkeypatch.setattr(TensorFlowProgram, name, counted)
    program: Any = get_rung(rung).prepare(get_workload("mlp"), make("mlp", rung, mode))
    program.step()
    assert len(calls) == 1
    for batch in (1, 2, 0):
        program.select(batch)
        program.rewind()
        program.step()
    assert len(calls) == (4 if rung == "tensorflow:eager" else 1)


def test_no_memory_is_reserved_and_the_cpu_sees_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    for variable in ("TF_FORCE_GPU_ALLOW_GROWTH", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "planted")
    prepare_process(make("mlp", "tensorflow", "infer"))
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert tf.config.list_logical_devices("GPU") == []


def test_an_lstm_has_a_product_for_each_gate_only_in_mode_1() -> None:
    counts = {}
    for mode in ("mode1", "mode2"):
        case = make("lstm", f"tensorflow:{mode}", "infer")
        program: Any = get_rung(case.rung).prepare(get_workload("lstm"), case)
        cells = [layer.cell for layer in program._network.model.layers if hasattr(layer, "cell")]
        counts[mode] = [cell.implementation for cell in cells]
    assert counts == {"mode1": [1, 1], "mode2": [2, 2]}


@pytest.mark.parametrize("rung", VARIANTS)
def test_net_is_a_share_of_the_step(rung: str) -> None:
    case = make("lstm", rung, "train")
    program = get_rung(rung).prepare(get_workload("lstm"), case)
    program.step()
    net = program.profile(1e-3).net
    assert net.share is not None, net
    assert 0 < net.share <= 1


def test_a_curve_of_losses_falls() -> None:
    from tare.workloads.variants import make_batches

    case = make("mlp", "tensorflow", "train")
    workload = get_workload("mlp")
    program = get_rung("tensorflow").prepare(workload, case)
    batch = make_batches(workload, case.batch, case.sizes)[0]
    losses = list(program.curve([batch] * 20).values())
    assert losses[-1] < losses[0]
