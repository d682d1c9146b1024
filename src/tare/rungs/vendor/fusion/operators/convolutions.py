"""Convolutions, as the ops that the executables have for them."""

from collections.abc import Sequence
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.operators.rearranging import replaced
from tare.rungs.vendor.fusion.reader import Meta, Reader, reads
from tare.rungs.vendor.fusion.tensors import Constant, Operand, Shape, Tensor, TensorView, whole


@reads("convolution")
def convolution(
    reader: Reader, meta: Meta, input: Operand, weight: Operand, bias: Operand | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Operand:  # fmt: skip
    sides = len(stride)
    if transposed and any(more >= move for more, move in zip(output_padding, stride, strict=True)):
        # No convolution maps an image of that size to the input, so there is no gradient call for it.
        raise Unsupported("a transposed convolution with an output padding not shorter than its stride")
    if sides == 3:
        if transposed:
            raise Unsupported("a transposed convolution over 3 dimensions")
        volume, kernel = reader.view(input), reader.view(weight)
        steps = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        result = _Volumes(reader, volume.shape, meta.shape, kernel.shape, steps, volume.dtype).forward(
            volume, kernel
        )
    else:
        geometry = _geometry(stride, padding, dilation, groups, sides)
        x, w = (_image(reader, operand, sides) for operand in (input, weight))
        result = reader.reshape(
            _convolved(reader, _image_shape(meta.shape, sides), x, w, transposed, geometry), meta.shape
        )
    if bias is None:
        return result
    return reader.pointwise(
        "{0} + {1}", [result, reader.reshape(bias, (meta.shape[1], *([1] * sides)))], meta.shape, meta.dtype
    )


def _convolved(
    reader: Reader, shape: Shape, x: TensorView, w: TensorView, transposed: bool, geometry: dict[str, Any]
) -> TensorView:
    kind, inputs, role = (
        ("conv_input_gradient", {"w": w, "dy": x}, "dx") if transposed else ("conv", {"x": x, "w": w}, "y")
    )
    return whole(reader.call(kind, inputs, {role: (shape, x.dtype)}, **geometry).results[role])


class _Volumes:
    """A convolution of volumes is a sum over the filter's depth: each part of the filter meets some slices of the
    volume, and convolves them as images."""

    def __init__(self, reader: Reader, x: Shape, y: Shape, w: Shape, steps: dict[str, Any], dtype: str) -> None:
        self.reader, self.x, self.y, self.w = reader, x, y, w
        self.stride, self.padding, self.dilation = (steps[name][0] for name in ("stride", "padding", "dilation"))
        stride, padding, dilation = (steps[name][1:] for name in ("stride", "padding", "dilation"))
        self.geometry = _geometry(stride, padding, dilation, steps["groups"], 2)
        self.dtype = dtype
        self.padded = (*x[:2], x[2] + 2 * self.padding, *x[3:])

    def forward(self, x: TensorView, w: TensorView) -> Operand:
        shape = (self.y[0] * self.y[2], self.y[1], *self.y[3:])
        padded = self._pad(x)
        parts = [
            _convolved(self.reader, shape, self._slices(padded, at), self._filter(w, at), False, self.geometry)
            for at in range(self.w[2])
        ]
        return self._volume(self._sum(parts), self.y)

    def input_gradient(self, dy: TensorView, w: TensorView) -> Operand:
        reader, shape = self.reader, (self.y[0] * self.y[2], self.x[1], *self.x[3:])
        gradient, images = self._images(dy), []
        for at in range(self.w[2]):
            part = _convolved(reader, shape, gradient, self._filter(w, at), True, self.geometry)
            volume = reader.view(self._volume(part, (self.y[0], self.x[1], self.y[2], *self.x[3:])))
            zeros = Constant(0.0, self.dtype, self.padded)
            meta = Meta("", self.padded, self.dtype, [])
            images.append(
                reader.view(replaced(reader, meta, zeros, volume, 2, at * self.dilation, self.y[2], self.stride))
            )
        return self._sum(images).slice(2, self.padding, self.x[2])

    def weight_gradient(self, x: TensorView, dy: TensorView) -> Operand:
        reader, gradient, padded = self.reader, self._images(dy), self._pad(x)
        frame, parts = whole(Tensor(self.w, self.dtype)), list[tuple[Operand, TensorView]]()
        for at in range(self.w[2]):
            inputs = {"x": self._slices(padded, at), "dy": gradient}
            shape = (*self.w[:2], *self.w[3:])
            call = reader.call("conv_weight_gradient", inputs, {"dw": (shape, self.dtype)}, **self.geometry)
            parts.append((whole(call.results["dw"]), frame.slice(2, at, 1).without(2)))
        return reader.assemble(self.w, self.dtype, parts)

    def _pad(self, x: TensorView) -> TensorView:
        if not self.padding:
            return x
        frame = whole(Tensor(self.padded, self.dtype))
        sides = [frame.slice(2, start, self.padding) for start in (0, self.padding + self.x[2])]
        zeros: list[tuple[Operand, TensorView]] = [(Constant(0.0, self.dtype, side.shape), side) for side in sides]
        return self.reader.assemble(
            self.padded, self.dtype, [*zeros, (x, frame.slice(2, self.padding, self.x[2]))]
        )

    def _slices(self, padded: TensorView, at: int) -> TensorView:
        """Those that a part of the filter meets, as images."""
        return self._images(padded.slice(2, at * self.dilation, self.y[2], self.stride))

    def _images(self, volume: TensorView) -> TensorView:
        count, channels, depth, *image = volume.shape
        images = self.reader.reshape(volume.permute([0, 2, 1, 3, 4]), (count * depth, channels, *image))
        return self.reader.contiguous(images)

    def _filter(self, w: TensorView, at: int) -> TensorView:
        return self.reader.contiguous(w.slice(2, at, 1).without(2))

    def _volume(self, images: TensorView, shape: Shape) -> Operand:
        count, channels, depth, *image = shape
        return self.reader.view(self.reader.reshape(images, (count, depth, channels, *image))).permute(
            [0, 2, 1, 3, 4]
        )

    def _sum(self, parts: Sequence[TensorView]) -> TensorView:
        total = parts[0]
        for part in parts[1:]:
            total = self.reader.pointwise("{0} + {1}", [total, part], part.shape, self.dtype)
        return total


@reads("convolution_backward")
def convolution_backward(
    reader: Reader, meta: Meta, grad_output: Operand, input: Operand, weight: Operand, bias_sizes: Any,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Any,
    groups: int, output_mask: Sequence[bool],
) -> list[Operand | None]:  # fmt: skip
    sides = len(stride)
    result: list[Operand | None] = [None, None, None]
    if output_mask[2]:
        gradient = reader.view(grad_output)
        axes = [axis for axis in range(len(gradient.shape)) if axis != 1]
        result[2] = reader.reduce("sum", gradient, axes, False, gradient.dtype)
    if sides == 3:
        gradient, volume, kernel = (reader.view(operand) for operand in (grad_output, input, weight))
        steps = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed:
            raise Unsupported("a transposed convolution over 3 dimensions")
        volumes = _Volumes(reader, volume.shape, gradient.shape, kernel.shape, steps, volume.dtype)
        result[0] = volumes.input_gradient(gradient, kernel) if output_mask[0] else None
        result[1] = volumes.weight_gradient(volume, gradient) if output_mask[1] else None
        return result
    dy, x, w = (_image(reader, operand, sides) for operand in (grad_output, input, weight))
    geometry = _geometry(stride, padding, dilation, groups, sides)
    if output_mask[0]:
        # The gradient of a transposed convolution is a convolution.
        moved = _convolved(reader, x.shape, dy, w, not transposed, geometry)
        result[0] = reader.reshape(moved, reader.view(input).shape)
    if output_mask[1]:
        inputs = {"x": dy, "dy": x} if transposed else {"x": x, "dy": dy}
        call = reader.call("conv_weight_gradient", inputs, {"dw": (w.shape, x.dtype)}, **geometry)
        result[1] = reader.reshape(whole(call.results["dw"]), reader.view(weight).shape)
    return result


def _image(reader: Reader, operand: Operand, sides: int) -> TensorView:
    view = reader.contiguous(operand)
    reshaped = view.reshape(_image_shape(view.shape, sides))
    assert reshaped is not None
    return reshaped


def _image_shape(shape: Shape, sides: int) -> Shape:
    """A row of pixels is an image of height one."""
    return shape if sides == 2 else (*shape[:2], 1, shape[2])


def _geometry(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, sides: int
) -> dict[str, Any]:
    def pair(numbers: Sequence[int], first: int) -> list[int]:
        return list(numbers) if sides == 2 else [first, numbers[0]]

    return {
        "stride": pair(stride, 1),
        "padding": pair(padding, 0),
        "dilation": pair(dilation, 1),
        "groups": groups,
    }
