"""Images of few colours on tensor cores, whose engines want channels by eights and do badly at long strides.

Where a window moves by s pixels, the s x s pixels of a step become channels of one (space to depth): the same sum,
by a smaller filter of more channels that moves by one. The rest up to a multiple of eight are zeros. With zeros
alone the first convolution still took a fifth of a ResNet's inference at batch 32 on an H200."""

from typing import Any

from tare.rungs.vendor.lowering.plan import Op, Step, Value

MULTIPLE = 8


def deepen(step: Step) -> None:
    """For half types with channels last. A filter that is trained is changed in every step, a fixed one here."""
    if step.dtype == "f32" or not step.channels_last:
        return
    for conv in [op for op in step.ops if op.kind == "conv" and op.attributes["groups"] == 1]:
        x, w, out = conv.inputs["x"], conv.inputs["w"], conv.outputs["y"]
        if x.shape[1] % MULTIPLE == 0:
            continue
        block = _block(conv)
        # Windows of whole blocks: what the filter does not have there is zero.
        filter_size = [-(-size // block) for size in w.shape[2:]]
        if block > 1:
            image_size = [size - 1 + kernel for size, kernel in zip(out.shape[2:], filter_size, strict=True)]
            origin = conv.attributes["padding"]
            conv.attributes |= {"stride": [1, 1], "padding": [0, 0]}
        else:
            image_size, origin = list(x.shape[2:]), [0, 0]
        conv.inputs["x"] = _deeper(step, conv, x, image_size, block, origin)
        conv.inputs["w"] = _deeper(step, conv, w, filter_size, block, [0, 0])


def _block(conv: Op) -> int:
    """How many pixels of a side become one: as many as the window moves by, where few channels come of it."""
    height, width = conv.attributes["stride"]
    few = conv.inputs["x"].shape[1] < MULTIPLE and height <= 4
    return height if height == width and few and conv.attributes["dilation"] == [1, 1] else 1


def _deeper(step: Step, conv: Op, value: Value, size: list[int], block: int, origin: list[int]) -> Value:
    channels = -(-value.shape[1] * block**2 // MULTIPLE) * MULTIPLE
    shape = (value.shape[0], channels, *size)
    attributes: dict[str, Any] = {"block": block, "origin": origin}
    if value.region == "weights" and not any(p.value is value and p.trained for p in step.parameters):
        content = space_to_depth(value.content, shape, block, origin)
        return step.make(shape, name=value.name, region=value.region, content=content)
    deeper = step.make(shape)
    cast = next((op for op in step.ops if op.kind == "cast" and op.outputs["y"] is value), None)
    if cast is not None and _readers(step, value) == 1:
        # One pass over the batch does both.
        cast.kind, cast.outputs, cast.attributes = "space_to_depth", {"y": deeper}, attributes
    else:
        step.ops.insert(step.ops.index(conv), Op("space_to_depth", {"x": value}, {"y": deeper}, attributes))
    return deeper


def _readers(step: Step, value: Value) -> int:
    """Those of its views too, and whoever gets it as a result."""
    read = [v for op in step.ops for v in op.inputs.values()] + step.outputs
    return sum(v.owner is value for v in read)


def space_to_depth(image: Any, shape: tuple[int, ...], block: int, origin: list[int]) -> Any:
    """Channel (dy, dx, c) of a pixel is channel c of the pixel at block * (row, column) + (dy, dx) - origin."""
    from torch.nn import functional

    count, channels, rows, columns = shape
    colours, height, width = image.shape[1:]
    down, right = rows * block - height - origin[0], columns * block - width - origin[1]
    wide = functional.pad(image, (origin[1], right, origin[0], down))
    apart = wide.reshape(count, colours, rows, block, columns, block)
    deep = apart.permute(0, 3, 5, 1, 2, 4).reshape(count, -1, rows, columns)
    return functional.pad(deep, (0, 0, 0, 0, 0, channels - deep.shape[1]))
