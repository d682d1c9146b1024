"""What the emitted program starts from and is checked against: raw numbers, and an index of them as text."""

import re
from pathlib import Path

import numpy as np

from tare.errors import TareError
from tare.measure.parity import Reference, limits, thinning
from tare.rungs.vendor.emission.staged import StagedPlan
from tare.rungs.vendor.lowering.plan import Value

NAME = re.compile(r"(?P<kind>output|loss)/(?P<number>\d+)@(?P<batch>\d+)\Z")
# The number of the step after which the gradients and the updates are compared; those of the first batch.
GRADIENT_STEP = 1


def write_data(plan: StagedPlan, reference: Reference, precision: str, folder: Path) -> None:
    """Writes weights.bin, batches.bin, reference.bin and index.txt. TareError where the step computes less than
    the reference has."""
    folder.mkdir()
    lines = ["# Written by tare emit, read by main.cpp: what is where in the files beside it."]
    staged = (plan.folder / "data.bin").read_bytes()
    with (folder / "weights.bin").open("wb") as file:
        for value, at in plan.contents.items():
            # The batches have a file of their own, and the masters say what the weights are.
            if value.region != "input" and value.owner is value:
                lines.append(
                    f"weight {value.region} {value.offset} {value.nbytes} {file.tell()} {_name(value.name)}"
                )
                file.write(staged[at : at + value.nbytes])
    (folder / "batches.bin").write_bytes((plan.folder / "batches.bin").read_bytes())
    lines += [f"input {value.region} {value.offset} {value.nbytes} {_name(value.name)}" for value in plan.inputs]
    tolerances = limits(reference, precision)
    last_step = max(
        [int(m["number"]) for m in map(NAME.match, reference.arrays) if m and m["kind"] == "loss"] or [1]
    )
    with (folder / "reference.bin").open("wb") as file:
        for name, wanted in reference.arrays.items():
            batch, step, what, value = _place(plan, name, last_step)
            tolerance, floor = tolerances[name]
            layout = "last" if value.channels_last else "plain"
            shape = "x".join(map(str, value.shape)) or "1"
            every = thinning(value.size)
            if wanted.size != -(-value.size // every):
                raise TareError(
                    f"the step computes {value.size} numbers of {name}, the reference has {wanted.size}"
                )
            numbers = np.ascontiguousarray(wanted, dtype=np.float64)
            place = f"{what} {batch} {step} {value.region} {value.offset} {layout} {shape}"
            compared = f"{every} {numbers.size} {file.tell()} {tolerance:.17g} {floor:.17g}"
            lines.append(f"expect {place} {compared} {_name(name)}")
            file.write(numbers.tobytes())
    (folder / "index.txt").write_text("\n".join([*lines, ""]))


def _place(plan: StagedPlan, name: str, last_step: int) -> tuple[int, int, str, Value]:
    """The batch and the step after which a tensor of the reference is compared, whether as a value or as a change,
    and where it lies."""
    kind, _, rest = name.partition("/")
    if (place := NAME.match(name)) is not None:
        number, batch = int(place["number"]), int(place["batch"])
        if kind == "loss":
            return batch, number, "value", plan.outputs[0]
        if number < len(plan.outputs):
            return batch, 1, "value", plan.outputs[number]
    for parameter, value, gradient in plan.parameters:
        if rest == parameter and kind == "update":
            return 0, last_step, "change", value
        if rest == parameter and kind == "gradient" and gradient is not None:
            return 0, GRADIENT_STEP, "value", gradient
    raise TareError(f"the step does not compute {name}, which the reference has")


def _name(name: str) -> str:
    """A name for the end of a line."""
    return re.sub(r"[^\x21-\x7e]", "?", name)[:200] or "-"
