"""The eager_errors of a step: it knows that a ReLU may flip, and hides no fault for it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from proof import make

from tare.cases.case import Case
from tare.measure.parity import MULTIPLE, TOLERANCE, compare, errors, load_reference
from tare.records.record import Parity
from tare.rungs.base import Arrays
from tare.rungs.torch.numerics import Numerics, reference_numerics
from tare.rungs.torch.program import TorchProgram
from tare.worker import reference
from tare.worker.reference import check_parity
from tare.workloads import get_workload
from tare.workloads.base import Batch, Workload

WIDTH = 64


class OnTheEdge:
    """Two layers; in the first the bias makes one input of the ReLU zero, but for the rounding of the sum."""

    def build(self) -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 4))
        sums = model[0].weight.double() @ self._row().double()
        with torch.no_grad():
            model[0].bias[0] = -sums[0]
        return model

    def inputs(self, batch: int) -> Batch:
        rows = torch.randn(batch, WIDTH)
        rows[0] = self._row()
        return Batch((rows,), torch.randn(batch, 4))

    def loss(self, output: Any, target: Any) -> Any:
        return torch.nn.functional.mse_loss(output, target)

    def _row(self) -> torch.Tensor:
        return torch.linspace(-1, 1, WIDTH)


@pytest.fixture
def edge(monkeypatch: pytest.MonkeyPatch) -> Workload:
    made = Workload(
        name="edge", definition=OnTheEdge(), domain="other", task="", source="", batch=4, learning_rate=0.1
    )
    monkeypatch.setattr(reference, "get_workload", lambda _: made)
    return made


def known(case: Case, folder: Path) -> tuple[Arrays, dict[str, float]]:
    reference.make_reference(case, folder)
    reference.widen_reference(case, folder)
    found = load_reference(folder)
    assert found is not None
    return found[0], found[1]


def evidence(workload: Workload, case: Case, spoil: Callable[[TorchProgram], None] = lambda _: None) -> Arrays:
    program = TorchProgram(workload, case)
    try:
        spoil(program)
        return program.evidence()
    finally:
        program.close()


def on_side(shift: float) -> Callable[[TorchProgram], None]:
    """A rung whose sum of the critical input is off by less than rounding may make it."""

    def spoil(program: TorchProgram) -> None:
        program.forward = lambda x: program.model[2](program.model[1](program.model[0](x) + sides))
        program.step = program.plain_step()

    sides = torch.zeros(4, WIDTH)
    sides[0, 0] = shift
    return spoil


def test_whichever_side_of_zero_a_rung_takes_it_is_the_same(edge: Workload, tmp_path: Path) -> None:
    case = Case(workload="edge", rung="eager", mode="train", batch=4, sizes={}, optimizer="sgd")
    wanted, eager_errors = known(case, tmp_path)
    sides = [evidence(edge, case, on_side(shift)) for shift in (1e-6, -1e-6)]
    assert errors(sides[0], sides[1])["gradient/0.weight"] > 1e-2, "nothing flips here"
    own = errors(wanted, evidence(edge, case))
    by_one_run = [compare(wanted, side, "fp32", own, "").status for side in sides]
    assert sorted(by_one_run) == ["different", "same"], "eager has luck here, and need not"
    assert [compare(wanted, side, "fp32", eager_errors, "").status for side in sides] == ["same", "same"]
    # What lies behind the ReLU does not flip, and has not become more lenient.
    assert eager_errors["gradient/2.weight"] < 1e-6


def test_without_room_for_float64_a_reference_alone_is_of_float32_and_one_beside_others_waits(
    edge: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(workload=edge.name, rung="eager", batch=4, sizes={})
    compute = reference._run

    def without_room(case: Case, numerics: Numerics | None, *more: Any, **seed: Any) -> Any:
        if numerics == reference_numerics("fp32", "float64"):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB.")
        return compute(case, numerics, *more, **seed)

    monkeypatch.setattr(reference, "_run", without_room)
    with pytest.raises(torch.OutOfMemoryError):
        reference.make_reference(case, tmp_path, parallel=True)
    assert load_reference(tmp_path) is None
    reference.make_reference(case, tmp_path)
    found = load_reference(tmp_path)
    assert found is not None
    assert found.described == "eager float32 on cpu"


def proved(
    workload: Workload, case: Case, folder: Path, spoil: Callable[[TorchProgram], None]
) -> tuple[str, bool]:
    """The verdict on a rung that does what `spoil` does to eager, and whether it took a wider eager_errors."""
    if load_reference(folder) is None:
        reference.make_reference(case, folder)
    status = check_parity(lambda: evidence(workload, case, spoil), folder, case).status
    found = load_reference(folder)
    assert found is not None
    return status, found.widened


def test_the_yardstick_is_widened_only_for_what_seems_different(edge: Workload, tmp_path: Path) -> None:
    case = Case(workload="edge", rung="eager", mode="train", batch=4, sizes={}, optimizer="sgd")
    assert proved(edge, case, tmp_path / "a", lambda _: None) == ("same", False)
    verdicts = {shift: proved(edge, case, tmp_path / str(shift), on_side(shift)) for shift in (1e-6, -1e-6)}
    assert sorted(verdicts.values()) == [("same", False), ("same", True)], "eager is on one of the two sides"
    assert proved(edge, case, tmp_path / "a", scale_one_gradient) == ("different", True)
    assert proved(edge, case, tmp_path / "a", lambda _: None) == ("same", True)


def test_an_inference_is_judged_again_by_wider_errors_and_stays_different(tmp_path: Path) -> None:
    def zero_a_bias(program: TorchProgram) -> None:
        list(program.model.parameters())[-1].zero_()

    case = make("mnist_cnn", "eager", "infer")
    assert proved(get_workload("mnist_cnn"), case, tmp_path, zero_a_bias) == ("different", True)


def scale_gradients(program: TorchProgram) -> None:
    for parameter in program.model.parameters():
        parameter.register_hook(lambda gradient: 1.01 * gradient)


def scale_one_gradient(program: TorchProgram) -> None:
    list(program.model.parameters())[-2].register_hook(lambda gradient: 1.01 * gradient)


def forget_a_bias(program: TorchProgram) -> None:
    name = [name for name in program._initial if name.endswith("bias")][-1]
    assert program._initial[name].abs().max() > 1e-3
    program._initial[name].zero_()


def change_momentum(program: TorchProgram) -> None:
    for group in program.optimizer.param_groups:
        assert group["momentum"] > 0
        group["momentum"] *= 0.9


FAULTS = [scale_gradients, scale_one_gradient, forget_a_bias, change_momentum]


def judge(case: Case, folder: Path, spoil: Callable[[TorchProgram], None] = lambda _: None) -> Parity:
    """The verdict on a rung that does what `spoil` does to eager; the reference is made once."""
    found = load_reference(folder)
    wanted, eager_errors = found[:2] if found else known(case, folder)
    return compare(wanted, evidence(get_workload(case.workload), case, spoil), "fp32", eager_errors, "")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("workload", ["mlp", pytest.param("mnist_cnn", marks=pytest.mark.full)])
def test_a_planted_fault_is_still_different(
    workload: str, fault: Callable[[TorchProgram], None], tmp_path: Path
) -> None:
    case = make(workload, "eager", "train", batch=8)
    assert judge(case, tmp_path).status == "same"
    assert judge(case, tmp_path, fault).status == "different"


def flip_the_last_relu(program: TorchProgram) -> None:
    """As a rung that rounds otherwise: in the first step the input next to zero is on its other side."""

    def mirror(_: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor] | None:
        (x,) = inputs
        if x.shape[1] != 2048:
            return None
        nearest = x.detach().abs().flatten().argmin()
        assert x.detach().flatten()[nearest].abs() < 1e-5 * x.detach().std()
        shift = torch.zeros_like(x).flatten()
        shift[nearest] = -2 * x.detach().flatten()[nearest]
        # In later steps the weights are others, and so is how near the nearest is.
        hook.remove()
        return (x + shift.view_as(x),)

    hook = program.model.layer4[2].relu.register_forward_pre_hook(mirror)


@pytest.mark.full
@pytest.mark.slow
def test_resnet_where_an_h200_flips_a_relu_and_where_it_is_wrong(tmp_path: Path) -> None:
    """cuDNN took the other side of zero in the last ReLU: 0.003 in the gradients before it, and all is right."""
    case = make("resnet50", "eager", "train", batch=8)
    wanted, eager_errors = known(case, tmp_path)
    flipped = evidence(get_workload("resnet50"), case, flip_the_last_relu)
    # Whether one run of eager, without the perturbed ones, would call it different depends on the CPU.
    assert compare(wanted, flipped, "fp32", eager_errors, "").status == "same"
    assert judge(case, tmp_path, scale_one_gradient).status == "different"


@pytest.mark.parametrize(
    ("workload", "precision", "mode"),
    [("lstm", "fp32", "train"), ("mnist_cnn", "fp32", "train"), ("mnist_cnn", "bf16", "infer")],
)
def test_where_nothing_flips_perturbed_runs_hardly_widen_the_tolerance(
    workload: str, precision: Any, mode: Any, tmp_path: Path
) -> None:
    case = make(workload, "eager", mode, precision)
    wanted, eager_errors = known(case, tmp_path)
    own = errors(wanted, evidence(get_workload(workload), case))
    for name, error in own.items():
        assert error <= eager_errors[name] <= max(MULTIPLE * error, TOLERANCE[precision]), name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_pair_s_weights_lie_on_both_sides_of_what_they_were(precision: Any) -> None:
    case = make("mlp", "eager", "train", precision)
    step = 2.0**-20 if precision == "fp32" else 2.0**-7
    moved = []
    for towards in (step, -step):
        program = TorchProgram(get_workload("mlp"), case)
        before = {name: tensor.double() for name, tensor in program._initial.items()}
        program.perturb_weights(0, towards)
        moved.append({name: (program._initial[name].double() / before[name] - 1) / step for name in before})
    for name, up in moved[0].items():
        assert (up.sign() == -moved[1][name].sign()).all()
        assert up.abs().min() >= 0.5
        assert up.abs().max() <= 1.6
        assert 0.3 < (up > 0).double().mean() < 0.7


def test_jitter_moves_what_every_layer_returns_and_mirrors_it() -> None:
    case = make("mlp", "eager", "train")
    losses = []
    for step in (2.0**-10, 0.0, -(2.0**-10)):
        program = TorchProgram(get_workload("mlp"), case)
        program.perturb_outputs(0, step)
        losses.append(float(program.evidence()["loss/1@0"]))
    up, middle, down = losses
    assert up != middle
    assert abs(up + down - 2 * middle) < 0.1 * abs(up - down)


def test_two_names_of_one_tensor_are_moved_as_one(edge: Workload) -> None:
    class Tied(OnTheEdge):
        def build(self) -> Any:
            model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH))
            model[1].weight = model[0].weight
            return model

        def inputs(self, batch: int) -> Batch:
            return Batch((torch.randn(batch, WIDTH),), torch.randn(batch, WIDTH))

    tied = replace(edge, definition=Tied())
    case = Case(workload="edge", rung="eager", mode="train", batch=4, sizes={}, optimizer="sgd")
    plain = evidence(tied, case)
    moved = evidence(tied, case, lambda program: program.perturb_weights(0, 2.0**-21))
    # The update is counted from the weights that the model really had.
    assert errors(plain, moved)["update/0.weight"] < 1e-3
    assert not np.array_equal(plain["gradient/0.weight"], moved["gradient/0.weight"])


@pytest.mark.parametrize(
    "workload", ["lennard_jones", pytest.param("functorch_maml_omniglot", marks=pytest.mark.full)]
)
def test_layers_that_are_called_under_vmap_are_moved_too(workload: str, tmp_path: Path) -> None:
    found = get_workload(workload)
    sizes, batch = found.smoke_sizes, found.smoke.get("batch", found.batch)
    case = Case(workload=workload, rung="eager", mode="train", batch=batch, sizes=sizes, optimizer="sgd")
    _, eager_errors = known(case, tmp_path)
    assert eager_errors
