"""Pooling over windows of an image."""

from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.lowering.handlers import lowers, pair
from tare.rungs.vendor.lowering.plan import Step, Value
from tare.rungs.vendor.lowering.shapes import view


@lowers("aten.max_pool2d.default")
def max_pool(
    step: Step,
    self: Value,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> Value:
    if pair(dilation) != [1, 1]:
        raise Unsupported("aten.max_pool2d with dilation")
    return _pool(step, "max_pool", self, kernel_size, stride, padding, ceil_mode)


@lowers("aten.avg_pool2d.default")
def average_pool(
    step: Step,
    self: Value,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    if divisor_override or ceil_mode or (not count_include_pad and any(pair(padding))):
        raise Unsupported("aten.avg_pool2d with ceil mode, a divisor or a count without padding")
    return _pool(step, "average_pool", self, kernel_size, stride, padding, ceil_mode)


@lowers("aten.adaptive_avg_pool2d.default")
def adaptive_average_pool(step: Step, self: Value, output_size: list[int]) -> Value:
    if len(self.shape) != 4:
        raise Unsupported("aten.adaptive_avg_pool2d of anything but a batch of images")
    if list(self.shape[2:]) == list(output_size):
        return self
    if any(size % wanted for size, wanted in zip(self.shape[2:], output_size, strict=True)):
        # Windows of different sizes that may overlap: window i is from floor(i H / n) to ceil((i + 1) H / n).
        y = step.make((*self.shape[:2], *output_size))
        step.emit("average_pool", {"x": self}, {"y": y}, adaptive=True)
        return y
    kernel = [size // wanted for size, wanted in zip(self.shape[2:], output_size, strict=True)]
    return _pool(step, "average_pool", self, kernel, kernel, [0, 0], False)


@lowers("aten.mean.dim")
def mean(step: Step, self: Value, dim: list[int] | None, keepdim: bool, dtype: Any) -> Value:  # noqa: ARG001
    """Over the pixels of images only: the global pool of some networks."""
    if len(self.shape) != 4 or not dim or sorted(d % 4 for d in dim) != [2, 3]:
        raise Unsupported("aten.mean of anything but the pixels of images")
    pooled: Value = adaptive_average_pool(step, self, [1, 1])
    flat: Value = pooled if keepdim else view(step, pooled, list(self.shape[:2]))
    return flat


def _pool(
    step: Step, kind: str, x: Value, kernel: list[int], stride: list[int], padding: list[int], ceil: bool
) -> Value:
    if len(x.shape) != 4:
        raise Unsupported(f"a {kind} of anything but a batch of images")
    kernel, padding = pair(kernel), pair(padding)
    stride = pair(stride) if stride else kernel
    n, channels, *image = x.shape
    sizes = []
    for size, window, move, pad in zip(image, kernel, stride, padding, strict=True):
        wanted = (size + 2 * pad - window + (move - 1 if ceil else 0)) // move + 1
        # A window must begin inside the image or its left padding, as in torch.
        sizes.append(wanted - 1 if ceil and (wanted - 1) * move >= size + pad else wanted)
    y = step.make((n, channels, *sizes))
    step.emit(kind, {"x": x}, {"y": y}, kernel=kernel, stride=stride, padding=padding)
    return y
