"""A trace that is damaged but still readable breaks no rule and no table."""

import gzip
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from traces import RECORDED

from tare.errors import BadInput
from tare.findings.context import Context
from tare.findings.diagnosis import diagnose
from tare.findings.trace_diff import diff_traces
from tare.report.findings import diagnosis_view
from tare.report.terminal import make_console
from tare.trace.read import read
from tare.trace.tables import Trace

NAMES = (
    "inefficient-pageable-copy",
    "inefficient-conv-bias-before-bn-channels-first",
    "inefficient-graph-break",
    "inefficient-leak",
)
ROUNDS = 8
# Of the type that stood there: another type is refused by the reader.
ODD: dict[type, tuple[Any, ...]] = {
    int: (0, -1, 1, 7, 64, 2**31, 2**53, -(2**53)),
    float: (0.0, -1.0, 1e300),
    str: ("", "x", "aten::mm", "[1, 1]", "c10::BFloat16"),
    list: (
        [],
        [[]],
        [[1]],
        [[0, 0], [0, 0]],
        [[2**60, 3], [3, -1]],
        ["x"],
        [None],
        [[1, 2, 3]],
        ["float", "float"],
    ),
}


def damaged(document: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Events lost, doubled, moved, renamed, with odd arguments."""
    events: list[Any] = []
    for event in document["traceEvents"]:
        dice = draw.random()
        if dice < 0.03:
            continue
        if dice < 0.06:
            events.append(event)
        if dice < 0.12 and isinstance(event.get("ts"), int | float):
            event = event | {"ts": event["ts"] + draw.choice((-1, 1)) * draw.random() * 10 ** draw.randrange(7)}
        if dice < 0.18 and "dur" in event:
            event = event | {"dur": draw.choice((0, 0.001, 1e3, 1e7))}
        if dice < 0.3 and isinstance(event.get("args"), dict) and event["args"]:
            key = draw.choice(sorted(event["args"]))
            kind = int if key in ("grid", "block") else type(event["args"][key])
            odd = draw.choice(ODD.get(kind, (None,)))
            event = event | {"args": event["args"] | {key: [odd] * 3 if key in ("grid", "block") else odd}}
        if dice > 0.98:
            event = event | {"name": draw.choice(document["traceEvents"]).get("name", "x")}
        events.append(event)
    if draw.random() < 0.2:
        events = [event for event in events if "ProfilerStep" not in str(event.get("name"))]
    if draw.random() < 0.2:
        lost = draw.choice(("kernel", "cuda_runtime", "cpu_op", "gpu_memcpy", "user_annotation"))
        events = [event for event in events if event.get("cat") != lost]
    devices: Any = draw.choice((document["deviceProperties"], [], None, [{}], [{"computeMajor": "9"}], "x"))
    return document | {"traceEvents": events, "deviceProperties": devices}


def readable(path: Path) -> Trace | None:
    try:
        return read(path)
    except BadInput:
        return None


@pytest.mark.parametrize("name", NAMES)
def test_damaged_traces_break_no_rule(name: str, tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))
    whole = Context(read(RECORDED / f"{name}.json.gz"))
    draw, looked, console = random.Random(name), 0, make_console()
    for _ in range(ROUNDS):
        path = tmp_path / "damaged.json"
        path.write_text(json.dumps(damaged(document, draw)))
        trace = readable(path)
        if trace is None:
            continue
        looked += 1
        found = diagnose(trace, draw.choice((None, 1e-3, 1e-9, 1e3)))
        json.dumps(msgspec.to_builtins(found), allow_nan=False)
        with console.capture():
            console.print(diagnosis_view(found))
        # A trace that has lost its device or all its steps is refused, as explain does.
        with suppress(BadInput):
            diff_traces(whole, Context(trace))
    assert looked > ROUNDS // 4
