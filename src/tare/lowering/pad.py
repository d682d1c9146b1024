"""Images of three colours on tensor cores: their engines want channels by eights, so zeros are added.

A convolution of the padded image with the padded filter is the same sum; without it the first one took a fifth
of a ResNet's inference on an H200."""

from tare.lowering.step import Op, Step, Value

MULTIPLE = 8


def pad_channels(step: Step, training: bool) -> None:
    """For half types with channels last. A filter that is trained is padded in every step, a fixed one here."""
    if step.dtype == "f32" or not step.channels_last:
        return
    for conv in [op for op in step.ops if op.kind == "conv" and op.attributes["groups"] == 1]:
        x, w = conv.inputs["x"], conv.inputs["w"]
        missing = -x.shape[1] % MULTIPLE
        if not missing:
            continue
        conv.inputs["x"] = _padded_image(step, conv, x, missing)
        if training:
            conv.inputs["w"] = _insert(step, conv, w, missing)
        else:
            conv.inputs["w"] = step.make(
                _wider(w, missing), name=w.name, region="weights", content=_zeros(w, missing)
            )


def _padded_image(step: Step, conv: Op, x: Value, missing: int) -> Value:
    cast = next((op for op in step.ops if op.kind == "cast" and op.outputs["y"] is x), None)
    if cast is not None and sum(x in op.inputs.values() for op in step.ops) == 1:
        # One pass over the batch casts and pads.
        cast.kind = "pad_channels"
        cast.outputs["y"] = step.make(_wider(x, missing))
        return cast.outputs["y"]
    return _insert(step, conv, x, missing)


def _insert(step: Step, conv: Op, value: Value, missing: int) -> Value:
    wider = step.make(_wider(value, missing))
    step.ops.insert(step.ops.index(conv), Op("pad_channels", {"x": value}, {"y": wider}))
    return wider


def _wider(value: Value, missing: int) -> tuple[int, ...]:
    return (value.shape[0], value.shape[1] + missing, *value.shape[2:])


def _zeros(value: Value, missing: int) -> object:
    from torch.nn import functional

    return functional.pad(value.content, (0, 0, 0, 0, 0, missing))
