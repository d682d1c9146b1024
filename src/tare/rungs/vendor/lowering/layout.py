"""Where everything lies: weights, gradients and momentum in flat buffers of one order, the rest in the arena."""

from tare.rungs.vendor.lowering.arena import Life, aligned, place
from tare.rungs.vendor.lowering.plan import BYTES, Op, Parameter, Step, Value

# Elements between the starts of two weights in a flat buffer: 256 bytes in float32.
PITCH = 64


def lay_out(step: Step) -> None:
    """Gives every value its region and offset, and every region its size."""
    _in_rows(
        step, [v for v in step.values() if v.region in ("input", "output", "state", "zeros") and v.base is None]
    )
    _pack_weights(step)
    _arena(step)
    for value in step.values():
        if value.base is not None:
            value.region, value.offset = value.owner.region, value.owner.offset


def add_update(step: Step, learning_rate: float, momentum: float, half_storage: bool) -> None:
    """SGD with momentum over flat buffers, in one call: the parameters in one order everywhere, those whose
    gradients are in the step's half type first. The masters are float32; where a half type is what the weights are
    stored in, they are rounded to it after every update."""
    trained = [p for p in step.parameters if p.gradient is not None]
    half = [p for p in trained if p.gradient and p.gradient.dtype != "f32"]
    full = [p for p in trained if p.gradient and p.gradient.dtype == "f32"]
    first, count_half = _offsets(step, half, 0)
    second, count = _offsets(step, full, count_half)
    offsets = {**first, **second}
    flat = {"master": Value("master", (count,), "f32", "master")}
    flat["momentum"] = Value("momentum", (count,), "f32", "momentum")
    flat["gradient"] = Value("gradient", (count - count_half,), "f32", "gradient")
    if half:
        flat["weights"] = Value("weights", (count_half,), step.dtype, "weights")
        flat["gradient_half"] = Value("gradient_half", (count_half,), step.dtype, "gradient_half")
    for p in trained:
        assert p.gradient is not None
        at = offsets[p.name]
        last = p.value.channels_last
        p.master = Value(p.name, p.value.shape, "f32", "master", 4 * at, last, content=p.value.content)
        if p.gradient.dtype == "f32":
            p.gradient.region, p.gradient.offset = "gradient", 4 * (at - count_half)
            p.value.region, p.value.offset, p.value.content = "master", 4 * at, None
        else:
            p.gradient.region, p.gradient.offset = "gradient_half", 2 * at
            p.value.region, p.value.offset = "weights", 2 * at
    read = {role: flat[role] for role in flat if role.startswith("gradient")}
    written = {role: flat[role] for role in flat if not role.startswith("gradient")}
    step.ops.append(
        Op("sgd", read, written, {"learning_rate": learning_rate, "momentum": momentum, "round": half_storage})
    )
    for value in flat.values():
        step.regions[value.region] = aligned(value.bytes)


def _offsets(step: Step, parameters: list[Parameter], start: int) -> tuple[dict[str, int], int]:
    """Element offsets. cuDNN wants an LSTM's weights in one piece, all matrices before all biases."""
    at, found = start, {}
    for group in _groups(step, [p.value for p in parameters]):
        names = {id(p.value): p.name for p in parameters}
        for value in group:
            found[names[id(value)]] = at
            at += value.size
        at = -(-at // PITCH) * PITCH
    return found, at


def _groups(step: Step, values: list[Value]) -> list[list[Value]]:
    """Each weight alone, but an LSTM's together and in cuDNN's order."""
    together: list[list[Value]] = []
    for op in step.ops:
        if op.kind == "lstm":
            matrices = [op.inputs[f"w{4 * i + j}"] for i in range(op.attributes["layers"]) for j in (0, 1)]
            biases = [op.inputs[f"w{4 * i + j}"] for i in range(op.attributes["layers"]) for j in (2, 3)]
            together.append(matrices + biases)
    grouped = {id(v) for group in together for v in group}
    wanted = {id(v) for v in values}
    return [[v] for v in values if id(v) not in grouped] + [g for g in together if id(g[0]) in wanted]


def _pack_weights(step: Step) -> None:
    """Those that nothing changes: all of them in inference, the frozen and the unused in training. These have a
    region of their own, because the others' are flat buffers of one order."""
    trained = {id(p.value) for p in step.parameters if p.gradient is not None}
    weights = [v for v in step.values() if v.region == "weights" and v.base is None and id(v) not in trained]
    # The update's own name for the whole buffer.
    weights = [v for v in weights if not any(op.kind == "sgd" and v in op.values() for op in step.ops)]
    region = "fixed" if trained else "weights"
    at = 0
    for group in _groups(step, weights):
        for value in group:
            value.region, value.offset = region, at
            at += value.bytes
        at = aligned(at)
    if weights:
        step.regions[region] = at


def _in_rows(step: Step, values: list[Value]) -> None:
    for value in values:
        at = step.regions.get(value.region, 0)
        value.offset = at
        step.regions[value.region] = at + aligned(max(value.bytes, BYTES[value.dtype]))


def _arena(step: Step) -> None:
    lives: dict[int, tuple[Value, int, int]] = {}
    for i, op in enumerate(step.ops):
        for value in op.values():
            owner = value.owner
            if owner.region == "arena":
                first = lives[id(owner)][1] if id(owner) in lives else i
                lives[id(owner)] = (owner, first, i)
    for value in step.outputs:
        if id(value.owner) in lives:
            owner, first, _ = lives[id(value.owner)]
            lives[id(owner)] = (owner, first, len(step.ops))
    owners = list(lives.values())
    offsets, step.regions["arena"] = place([Life(owner.bytes, first, last) for owner, first, last in owners])
    for (owner, _, _), offset in zip(owners, offsets, strict=True):
        owner.offset = offset
