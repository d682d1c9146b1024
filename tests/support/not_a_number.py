"""NaN and infinities through the vendor rung's own loops and kernels, compared with torch: a rung that drops a NaN
hides what should have been found."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}
NAN, INFINITE = float("nan"), float("inf")
SPECIAL_VALUES = [(), (NAN,), (-INFINITE,), (INFINITE,), (NAN, -INFINITE, INFINITE)]
WINDOW: dict[str, Any] = {"kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]}
CLAMPS: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "relu": ({}, functional.relu),
    "relu6": ({}, functional.relu6),
    "hardtanh": ({"low": -0.4, "high": 0.7}, lambda x: functional.hardtanh(x, -0.4, 0.7)),
    "leaky_relu": ({"parameter": 0.2}, lambda x: functional.leaky_relu(x, 0.2)),
    "hardsigmoid": ({}, functional.hardsigmoid),
}


class OpList:
    """A plan of a few ops on given tensors."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []
        self.tensors: dict[str, Any] = {}
        self.ops: list[dict[str, Any]] = []

    def value(self, name: str, like: Any, given: bool = False) -> int:
        kinds = {torch.float32: "f32", torch.uint8: "u8"}
        self.tensors[name] = (like, given)
        entry = {"name": name, "dtype": kinds[like.dtype], "shape": list(like.shape), "strides": like.stride()}
        self.values.append({**entry, "region": name, "offset": 0, "channels_last": not like.is_contiguous()})
        return len(self.values) - 1

    def call(self, kind: str, given: dict[str, int], made: dict[str, int], **attributes: Any) -> None:
        self.ops.append({"kind": kind, "in": given, "out": made, "attributes": attributes})

    def run(self, program: Path, folder: Path) -> dict[str, Any]:
        """Every value after all ops have run, as a tensor in its own layout."""
        contents, data = [], b""
        for i, (tensor, given) in enumerate(self.tensors.values()):
            if given:
                contents.append({"value": i, "at": len(data)})
                data += _flat(tensor).numpy().tobytes()
        document = {"dtype": "f32", "values": self.values, "ops": self.ops, "contents": contents}
        (folder / "plan.json").write_text(json.dumps(document))
        (folder / "data.bin").write_bytes(data)
        subprocess.run([str(program), str(folder)], check=True, timeout=60)
        return {name: _read(folder / f"{name}.bin", like) for name, (like, _) in self.tensors.items()}


def _flat(tensor: Any) -> Any:
    return torch.as_strided(tensor, (tensor.numel(),), (1,))


def _read(path: Path, like: Any) -> Any:
    kind = np.uint8 if like.dtype is torch.uint8 else np.float32
    return torch.as_strided(torch.from_numpy(np.fromfile(path, kind)), like.shape, like.stride())


def check_pooling(special: tuple[float, ...], layout: str, program: Path, folder: Path) -> None:
    """Half of the pixels are replaced, so that windows have one such value, several, or nothing else. Every window
    has a different gradient, which must arrive at the position of its maximum."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 5, 8, 9, generator=generator)
    for number in special:
        x[torch.rand(x.shape, generator=generator) < 0.5 / len(special)] = number
    if special:
        x[0, 0] = special[0]
    x = x.contiguous(memory_format=LAYOUTS[layout]).requires_grad_()
    y = functional.max_pool2d(x, 3, 2, 1)
    dy = torch.randn(y.shape, generator=generator).contiguous(memory_format=LAYOUTS[layout])
    y.backward(dy)
    plan = OpList()
    given, arriving = plan.value("x", x.detach(), given=True), plan.value("dy", dy, given=True)
    made = {"y": plan.value("y", dy), "index": plan.value("index", torch.empty_like(dy, dtype=torch.uint8))}
    plan.call("max_pool", {"x": given}, made, **WINDOW)
    back = {"dy": arriving, "index": made["index"]}
    plan.call("max_pool_backward", back, {"dx": plan.value("dx", x.detach())}, **WINDOW)
    values = plan.run(program, folder)
    torch.testing.assert_close(values["y"], y.detach(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(values["dx"], x.grad)


def check_activation(name: str, program: Path, folder: Path) -> None:
    """A NaN stays a NaN in the forward pass. In the backward pass it lets the gradient through where torch does: a
    loss that is NaN must not leave gradients of zero."""
    attributes, function = CLAMPS[name]
    x = torch.randn(2, 4, 4, 5)
    for number in (NAN, INFINITE, -INFINITE):
        x[torch.rand(x.shape) < 0.2] = number
    x.requires_grad_()
    y = function(x)
    dy = torch.where(torch.rand(x.shape) < 0.2, NAN, torch.randn(x.shape))
    y.backward(dy)
    plan = OpList()
    given, arriving = plan.value("x", x.detach(), given=True), plan.value("dy", dy, given=True)
    plan.call("activation", {"x": given}, {"y": plan.value("y", dy)}, activation=name, **attributes)
    back = {"dx": plan.value("dx", dy)}
    plan.call("activation_backward", {"x": given, "dy": arriving}, back, activation=name, **attributes)
    values = plan.run(program, folder)
    torch.testing.assert_close(values["y"], y.detach(), equal_nan=True)
    # Whether torch's own hardtanh passes the gradient of a NaN depends on its vector width.
    defined = ~x.isnan() if name in ("relu6", "hardtanh") else torch.ones_like(x, dtype=torch.bool)
    torch.testing.assert_close(values["dx"][defined], x.grad[defined], equal_nan=True)
