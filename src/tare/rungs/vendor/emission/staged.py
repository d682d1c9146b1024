"""Reads back what `ExecutionPlan.write` has written for the executable."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.errors import TareError
from tare.rungs.vendor.lowering.origin import Origin
from tare.rungs.vendor.lowering.plan import VERSION, Op, Value


@dataclass(frozen=True)
class StagedPlan:
    """`contents` has the place of a value's initial content in `data.bin`. `parameters` has the name of each, its
    value, and its gradient, if the step computes it."""

    folder: Path
    regions: dict[str, int]
    values: list[Value]
    ops: list[Op]
    inputs: list[Value]
    outputs: list[Value]
    contents: dict[Value, int]
    parameters: list[tuple[str, Value, Value | None]]
    kernels: str


def read_staged(folder: Path) -> StagedPlan:
    document = json.loads((folder / "plan.json").read_text())
    if document["version"] != VERSION:
        raise TareError(f"{folder / 'plan.json'} has version {document['version']}, not {VERSION}")
    values = [_value(entry) for entry in document["values"]]
    for value, entry in zip(values, document["values"], strict=True):
        owner = values[entry["owner"]]
        value.base = None if owner is value else owner
    source = folder / "kernels.cpp"
    parameters: list[tuple[str, Value, Value | None]] = [
        (each["name"], values[each["master"]], values[each["gradient"]]) for each in document["parameters"]
    ]
    parameters += [(each["name"], values[each["value"]], None) for each in document["fixed"]]
    return StagedPlan(
        folder,
        document["regions"],
        values,
        [_op(entry, values) for entry in document["ops"]],
        [values[at] for at in document["inputs"]],
        [values[at] for at in document["outputs"]],
        {values[each["value"]]: each["at"] for each in document["contents"]},
        parameters,
        source.read_text() if source.exists() else "",
    )


def _value(entry: dict[str, Any]) -> Value:
    return Value(
        entry["name"],
        tuple(entry["shape"]),
        entry["dtype"],
        entry["region"],
        entry["offset"],
        entry["channels_last"],
    )


def _op(entry: dict[str, Any], values: list[Value]) -> Op:
    inputs, outputs = ({role: values[at] for role, at in entry[side].items()} for side in ("in", "out"))
    origin = Origin(entry["module"], entry["phase"], tuple(entry["operators"]))
    return Op(entry["kind"], inputs, outputs, entry["attributes"], origin)
