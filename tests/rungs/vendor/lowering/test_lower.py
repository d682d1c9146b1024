"""Lowered workloads: which ops remain after fusing, and what is written for the executables."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from lowered import lowered
from torch import nn

from tare.rungs.vendor.lowering.capture import capture
from tare.rungs.vendor.lowering.fuse import pad_channels
from tare.rungs.vendor.lowering.plan import ExecutionPlan
from tare.workloads import get_workload


def count_kinds(plan: ExecutionPlan) -> Counter[str]:
    return Counter(op.kind for op in plan.ops)


def test_inference_folds_every_batch_norm_and_fuses_every_sum_and_relu() -> None:
    plan = lowered("resnet50", "infer")
    assert count_kinds(plan) == {"conv": 53, "max_pool": 1, "average_pool": 1, "linear": 1}
    convolutions = [op for op in plan.ops if op.kind == "conv"]
    assert sum("z" in op.inputs for op in convolutions) == 16
    assert sum(op.attributes.get("activation") == "relu" for op in convolutions) == 49
    assert all("b" in op.inputs for op in convolutions)


def test_training_has_one_gradient_per_weight_and_one_update() -> None:
    plan = lowered("resnet50", "train", autocast="bfloat16", channels_last=True)
    counts = count_kinds(plan)
    assert counts["conv"] == counts["conv_weight_gradient"] == 53
    # The images need no gradient.
    assert counts["conv_input_gradient"] == 52
    assert counts["batch_norm"] == counts["batch_norm_backward"] == 53
    assert counts["sgd"] == 1
    assert plan.ops[-1].kind == "sgd"
    # Two gradients meet at the end of every block, and its batch norm adds them. Those at the pool need an op.
    assert sum("dy2" in op.inputs for op in plan.ops) == 15
    assert counts["add"] == 1
    model = get_workload("resnet50").build({"classes": 10, "channels": 3})
    assert [p.name for p in plan.parameters] == [name for name, _ in model.named_parameters()]


def test_half_precision_keeps_masters_and_batch_norms_in_float32() -> None:
    plan = lowered("resnet50", "train", autocast="bfloat16", channels_last=True)
    for p in plan.parameters:
        assert p.master is not None
        assert p.gradient is not None
        assert p.master.dtype == "f32"
        is_norm = "bn" in p.name or "downsample.1" in p.name
        assert p.value.dtype == p.gradient.dtype == ("f32" if is_norm else "bf16")


def test_first_convolution_gets_sixteen_channels_for_tensor_cores() -> None:
    """Blocks of 2 x 2 pixels in three channels become channels as the batch is cast, and so does the filter."""
    plan = lowered("resnet50", "train", autocast="bfloat16", channels_last=True)
    counts = count_kinds(plan)
    assert (counts["cast"], counts["space_to_depth"], counts["depth_to_space"]) == (0, 2, 1)
    first = next(op for op in plan.ops if op.kind == "conv")
    assert first.inputs["x"].shape == (4, 16, 35, 35)
    assert first.inputs["w"].shape == (64, 16, 4, 4)
    assert first.outputs["y"].shape == (4, 64, 32, 32)


class ConvolutionAndInput(nn.Module):  # type: ignore[misc]
    """Returns its input, or a view of it, beside the result of a convolution with few channels."""

    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.conv, self.flat = nn.Conv2d(3, 8, 1), flat

    def forward(self, x: Any) -> Any:
        return self.conv(x), x.flatten(1) if self.flat else x


@pytest.mark.parametrize("flat", [False, True])
def test_input_with_another_reader_is_still_cast(flat: bool) -> None:
    plan = ExecutionPlan("bf16", channels_last=True)
    with torch.no_grad():
        capture(ConvolutionAndInput(flat), (torch.randn(2, 3, 1, 1),), plan)
    plan.parameters.clear()
    pad_channels(plan)
    produced = {id(value) for op in plan.ops for value in op.outputs.values()}
    assert all(id(value.owner) in produced for value in plan.outputs)
    assert [op.kind for op in plan.ops] == ["cast", "space_to_depth", "conv"]


def test_plan_is_written_with_its_weights(tmp_path: Path) -> None:
    plan = lowered("mnist_cnn", "infer", channels_last=True)
    plan.write(tmp_path, [[value.content for value in plan.inputs]] * 3)
    document = json.loads((tmp_path / "plan.json").read_text())
    assert [op["kind"] for op in document["ops"]] == [op.kind for op in plan.ops]
    weight = next(v for v in document["values"] if v["name"] == "3.weight")
    assert weight["shape"] == [20, 10, 5, 5]
    # Channels last: the ten channels are neighbours.
    assert weight["strides"] == [250, 1, 50, 10]
    index = document["values"].index(weight)
    at = next(entry["at"] for entry in document["contents"] if entry["value"] == index)
    data = torch.frombuffer(bytearray((tmp_path / "data.bin").read_bytes()[at : at + 20000]), dtype=torch.float32)
    workload = get_workload("mnist_cnn")
    expected = workload.build(workload.defaults)[3].weight.detach()
    assert torch.equal(data.view(20, 5, 5, 10).permute(0, 3, 1, 2), expected)
