"""The memory layout of a plan: weights, gradients and momentum in flat buffers of one order, and everything
short-lived in one arena, where values that live at the same time never overlap."""

from collections.abc import Sequence
from dataclasses import dataclass

from tare.rungs.vendor.lowering.origin import Origin
from tare.rungs.vendor.lowering.plan import BYTES, ExecutionPlan, Value

# Bytes: what the widest vector loads and cuDNN's kernels want.
ALIGNMENT = 256
# Elements to which parameters are aligned in a flat buffer: 256 bytes in float32.
PARAMETER_ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """Bytes that are needed from the call `first` to the call `last`, both included."""

    bytes: int
    first: int
    last: int


def align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def place(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset for each lifetime, and the size of the arena.

    Greedy by size: the largest value first, each at the lowest offset that is free for its whole lifetime
    (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, section 5.3)."""
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    total = 0
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].bytes, lifetimes[i].first)):
        life, offset = lifetimes[i], 0
        concurrent = [j for j in placed if lifetimes[j].first <= life.last and life.first <= lifetimes[j].last]
        for j in sorted(concurrent, key=lambda j: offsets[j]):
            if offset + life.bytes <= offsets[j]:
                break
            offset = max(offset, align(offsets[j] + lifetimes[j].bytes))
        offsets[i] = offset
        placed.append(i)
        total = max(total, offset + life.bytes)
    return offsets, align(total)


# torch's defaults.
ADAM = {"first": 0.9, "second": 0.999, "epsilon": 1e-8}
WEIGHT_DECAY = {"adam": 0.0, "adamw": 0.01}


def add_update(
    plan: ExecutionPlan, optimizer: str, learning_rate: float, momentum: float, half_storage: bool
) -> None:
    """Appends the update over flat buffers, as one call: SGD with momentum, Adam or AdamW. All buffers have the
    parameters in the same order, those with gradients in the plan's half type first. The masters are float32;
    where weights are stored in a half type, the masters are rounded to it after every update."""
    plan.origin = Origin(phase="update")
    trained = {p.value: p for p in plan.parameters if p.gradient is not None}
    half = [v for v, p in trained.items() if p.gradient and p.gradient.dtype != "f32"]
    half_offsets, half_count = _element_offsets(plan, half, 0)
    full_offsets, count = _element_offsets(plan, [v for v in trained if v not in half_offsets], half_count)
    buffers = {
        "master": Value("master", (count,), "f32", "master"),
        "momentum": Value("momentum", (count,), "f32", "momentum"),
        "gradient": Value("gradient", (count - half_count,), "f32", "gradient"),
    }
    if half:
        buffers["weights"] = Value("weights", (half_count,), plan.dtype, "weights")
        buffers["gradient_half"] = Value("gradient_half", (half_count,), plan.dtype, "gradient_half")
    for value, offset in (half_offsets | full_offsets).items():
        p = trained[value]
        assert p.gradient is not None
        p.master = Value(
            p.name, value.shape, "f32", "master", 4 * offset, value.channels_last, content=value.content
        )
        if p.gradient.dtype == "f32":
            p.gradient.region, p.gradient.offset = "gradient", 4 * (offset - half_count)
            value.region, value.offset, value.content = "master", 4 * offset, None
        else:
            p.gradient.region, p.gradient.offset = "gradient_half", 2 * offset
            value.region, value.offset = "weights", 2 * offset
    inputs = {role: value for role, value in buffers.items() if role.startswith("gradient")}
    outputs = {role: value for role, value in buffers.items() if not role.startswith("gradient")}
    for value in buffers.values():
        plan.regions[value.region] = align(value.nbytes)
    settings = {"learning_rate": learning_rate, "round": half_storage, "dtype": plan.dtype}
    if optimizer == "sgd":
        plan.emit("sgd", inputs, outputs, momentum=momentum, **settings)
        return
    # Their state is zero at first, like that of SGD, and so is the number of steps.
    for role, shape in (("second", (count,)), ("steps", (1,))):
        outputs[role] = Value(role, shape, "f32", "momentum", plan.regions["momentum"])
        plan.regions["momentum"] += align(outputs[role].nbytes)
    decay = WEIGHT_DECAY[optimizer]
    plan.emit("adam", inputs, outputs, decay=decay, **settings, **ADAM)


def _element_offsets(plan: ExecutionPlan, weights: list[Value], start: int) -> tuple[dict[Value, int], int]:
    """Offsets in elements, and the end of the last weight."""
    end, offsets = start, {}
    for group in _groups(plan, weights):
        for value in group:
            offsets[value] = end
            end += value.size
        end = -(-end // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
    return offsets, end


def _groups(plan: ExecutionPlan, values: list[Value]) -> list[list[Value]]:
    """Every weight alone, but those of an LSTM together: cuDNN wants all matrices and then all biases."""
    lstms: list[list[Value]] = []
    for op in plan.ops:
        if op.kind == "lstm":
            layers = range(op.attributes["layers"])
            matrices = [op.inputs[f"w{4 * layer + i}"] for layer in layers for i in (0, 1)]
            biases = [op.inputs[f"w{4 * layer + i}"] for layer in layers for i in (2, 3)]
            lstms.append(matrices + biases)
    of_lstms = {v for group in lstms for v in group}
    return [[v] for v in values if v not in of_lstms] + [group for group in lstms if group[0] in values]


def lay_out(plan: ExecutionPlan) -> None:
    """Gives every value its region and offset, and every region its size."""
    for value in plan.values():
        if value.region in ("input", "output", "state", "zeros") and value.base is None:
            value.offset = plan.regions.get(value.region, 0)
            plan.regions[value.region] = value.offset + align(max(value.nbytes, BYTES[value.dtype]))
    _lay_out_constants(plan)
    _lay_out_arena(plan)
    for value in plan.values():
        if value.base is not None:
            value.region, value.offset = value.owner.region, value.owner.offset


def _lay_out_constants(plan: ExecutionPlan) -> None:
    """Weights that no update changes: all of them in inference, the frozen and unused ones in training. Those have
    a region of their own in training, where the other weights are in flat buffers."""
    trained = {p.value for p in plan.parameters if p.gradient is not None}
    # The update's names for whole buffers are not weights.
    buffers = {v for op in plan.ops if op.kind in ("sgd", "adam") for v in op.values()}
    constants = [
        v
        for v in plan.values()
        if v.region == "weights" and v.base is None and v not in trained and v not in buffers
    ]
    region = "fixed" if trained else "weights"
    end = 0
    for group in _groups(plan, constants):
        for value in group:
            value.region, value.offset = region, end
            end += value.nbytes
        end = align(end)
    if constants:
        plan.regions[region] = end


def _lay_out_arena(plan: ExecutionPlan) -> None:
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for call, op in enumerate(plan.ops):
        for owner in [value.owner for value in op.values() if value.owner.region == "arena"]:
            first.setdefault(owner, call)
            last[owner] = call
    last |= {value.owner: len(plan.ops) for value in plan.outputs if value.owner in last}
    offsets, plan.regions["arena"] = place([Lifetime(v.nbytes, first[v], last[v]) for v in first])
    for owner, offset in zip(first, offsets, strict=True):
        owner.offset = offset
