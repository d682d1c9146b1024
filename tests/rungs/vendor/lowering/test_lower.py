"""Workloads as static steps: the operators that are left, what is refused by name, memory that is never shared."""

import json
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from arenas import floor
from proof import SMALL
from torch import nn

from tare.cases.case import Case, Mode
from tare.errors import Unsupported
from tare.rungs.vendor.lowering.arena import Life
from tare.rungs.vendor.lowering.capture import capture
from tare.rungs.vendor.lowering.depth import deepen
from tare.rungs.vendor.lowering.lower import lower, write
from tare.rungs.vendor.lowering.plan import Step, Value
from tare.workloads import get_workload


@cache
def lowered(
    name: str, mode: Mode, storage: str = "float32", autocast: str | None = None, last: bool = False
) -> Step:
    """Made once for all tests: they only look at it."""
    workload = get_workload(name)
    sizes = {**workload.defaults, **SMALL[name]}
    batch = workload.inputs(4, sizes)
    tensors = [*batch.args, *([batch.target] if mode == "train" else [])]
    stored = tuple(t.to(getattr(torch, storage)) if t.is_floating_point() else t for t in tensors)
    case = Case(
        workload=name,
        rung="vendor",
        mode=mode,
        batch=4,
        sizes=sizes,
        layout="channels-last" if last else "contiguous",
        optimizer="sgd" if mode == "train" else None,
    )
    return lower(workload, case, stored, storage, autocast, 0.01)


def kinds(step: Step) -> Counter[str]:
    return Counter(op.kind for op in step.ops)


def test_inference_folds_every_batch_norm_and_fuses_every_sum_and_relu() -> None:
    step = lowered("resnet50", "infer")
    assert kinds(step) == {"conv": 53, "max_pool": 1, "average_pool": 1, "linear": 1}
    convolutions = [op for op in step.ops if op.kind == "conv"]
    assert sum("z" in op.inputs for op in convolutions) == 16
    assert sum(op.attributes.get("activation") == "relu" for op in convolutions) == 49
    assert all("b" in op.inputs for op in convolutions)


def test_training_has_one_gradient_for_every_weight_and_one_update() -> None:
    step = lowered("resnet50", "train")
    found = kinds(step)
    assert found["conv"] == found["conv_weight_gradient"] == 53
    # Nobody asks for the gradient of the images.
    assert found["conv_input_gradient"] == 52
    assert found["batch_norm"] == found["batch_norm_backward"] == 53
    assert found["sgd"] == 1
    assert step.ops[-1].kind == "sgd"
    # Two gradients meet behind every block: the batch norm takes both. Only those behind the pool are added up.
    assert sum("dy2" in op.inputs for op in step.ops) == 15
    assert found["add"] == 1
    names = [p.name for p in step.parameters]
    assert names == [
        name for name, _ in get_workload("resnet50").build({"classes": 10, "channels": 3}).named_parameters()
    ]
    assert all(p.gradient is not None and p.master is not None for p in step.parameters)


def test_half_precision_keeps_masters_in_float32_and_batch_norms_too() -> None:
    step = lowered("resnet50", "train", autocast="bfloat16", last=True)
    for p in step.parameters:
        assert p.master is not None
        assert p.gradient is not None
        assert p.master.dtype == "f32"
        is_norm = "bn" in p.name or "downsample.1" in p.name
        assert p.value.dtype == p.gradient.dtype == ("f32" if is_norm else "bf16")
    # Squares of four pixels in three colours become sixteen channels as the batch is cast, and so does the filter.
    found = kinds(step)
    assert (found["cast"], found["space_to_depth"], found["depth_to_space"]) == (0, 2, 1)
    first = next(op for op in step.ops if op.kind == "conv")
    assert first.inputs["x"].shape == (4, 16, 35, 35)
    assert first.inputs["w"].shape == (64, 16, 4, 4)
    assert first.outputs["y"].shape == (4, 64, 32, 32)


def flat_places(step: Step) -> list[tuple[str, int, int]]:
    kept = {v for p in step.parameters for v in (p.master, p.gradient) if v is not None}
    return [(v.region, v.offset, v.offset + v.bytes) for v in kept]


@pytest.mark.parametrize("name", ["mlp", "mnist_cnn", "lstm", "resnet50"])
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_values_that_are_needed_at_the_same_time_never_share_memory(name: str, mode: Mode) -> None:
    step = lowered(name, mode)
    lives: dict[int, tuple[Value, int, int]] = {}
    for i, op in enumerate(step.ops):
        for value in op.values():
            first = lives.get(id(value.owner), (value.owner, i, i))[1]
            lives[id(value.owner)] = (value.owner, first, i)
    arena = [(v, a, b) for v, a, b in lives.values() if v.region == "arena"]
    for i, (v, a, b) in enumerate(arena):
        assert v.offset + v.bytes <= step.regions["arena"]
        for w, c, d in arena[:i]:
            together = a <= d and c <= b
            apart = v.offset + v.bytes <= w.offset or w.offset + w.bytes <= v.offset
            assert apart or not together
    assert step.regions["arena"] <= 1.2 * floor([Life(v.bytes, a, b) for v, a, b in arena]) + 4096
    places = sorted(flat_places(step))
    assert all(x[0] != y[0] or x[2] <= y[1] for x, y in pairwise(places))


def test_an_lstm_s_weights_lie_in_one_piece_in_the_vendor_s_order() -> None:
    step = lowered("lstm", "train")
    by_name = {p.name.partition(".")[2]: p.master for p in step.parameters}
    order = [f"weight_{kind}_l{layer}" for layer in (0, 1) for kind in ("ih", "hh")]
    order += [f"bias_{kind}_l{layer}" for layer in (0, 1) for kind in ("ih", "hh")]
    at = 0
    for name in order:
        master = by_name[name]
        assert master is not None
        assert master.offset == at
        at += master.bytes


def test_what_is_written_is_what_was_lowered(tmp_path: Path) -> None:
    step = lowered("mnist_cnn", "infer", last=True)
    write(step, tmp_path)
    document = json.loads((tmp_path / "step.json").read_text())
    assert [op["kind"] for op in document["ops"]] == [op.kind for op in step.ops]
    weight = next(v for v in document["values"] if v["name"] == "3.weight")
    assert weight["shape"] == [20, 10, 5, 5]
    # Channels last: the ten channels are neighbours.
    assert weight["strides"] == [250, 1, 50, 10]
    number = document["values"].index(weight)
    at = next(entry["at"] for entry in document["contents"] if entry["value"] == number)
    data = torch.frombuffer(bytearray((tmp_path / "data.bin").read_bytes()[at : at + 20000]), dtype=torch.float32)
    sizes = get_workload("mnist_cnn").defaults
    wanted = get_workload("mnist_cnn").build(sizes)[3].weight.detach()
    assert torch.equal(data.view(20, 5, 5, 10).permute(0, 3, 1, 2), wanted)


class Twice(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(self.layer(x))


@pytest.mark.parametrize(
    ("module", "inputs", "named"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.SELU()), (2, 4), "aten.selu.default"),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train(), (2, 4), "aten.dropout"),
        (nn.Conv3d(2, 3, 3), (1, 2, 7, 7, 7), "aten.conv3d.default"),
        (nn.Softmax(dim=1), (2, 4), "aten.softmax.int"),
        (nn.LeakyReLU(-1), (2, 4), "aten.leaky_relu"),
    ],
)
def test_what_is_not_supported_is_named(module: Any, inputs: tuple[int, ...], named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        capture(module, (torch.randn(inputs),), Step("f32", channels_last=False))


def test_a_weight_that_is_used_twice_is_refused_in_training() -> None:
    from tare.rungs.vendor.lowering.gradients import add_backward

    class Objective(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = Twice()

        def forward(self, x: Any, target: Any) -> Any:
            return nn.functional.mse_loss(self.model(x), target)

    step = Step("f32", channels_last=False)
    capture(Objective(), (torch.randn(2, 4), torch.randn(2, 4)), step, prefix="model.")
    with pytest.raises(Unsupported, match=r"used twice \(layer\.(weight|bias)\)"):
        add_backward(step)


class Passing(nn.Module):  # type: ignore[misc]
    """A convolution of few colours, and what it reads as a result of its own, as it is or as a view."""

    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.conv, self.flat = nn.Conv2d(3, 8, 1), flat

    def forward(self, x: Any) -> Any:
        return self.conv(x), x.flatten(1) if self.flat else x


@pytest.mark.parametrize("flat", [False, True])
def test_a_batch_that_someone_else_reads_is_still_cast(flat: bool) -> None:
    step = Step("bf16", channels_last=True)
    with torch.no_grad():
        capture(Passing(flat), (torch.randn(2, 3, 1, 1),), step)
    step.parameters.clear()
    deepen(step)
    made = {id(value) for op in step.ops for value in op.outputs.values()}
    assert all(id(value.owner) in made for value in step.outputs)
    assert [op.kind for op in step.ops] == ["cast", "space_to_depth", "conv"]
