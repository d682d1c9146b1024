"""Ranks whose traces are damaged but still readable break neither the job nor what is said of one of them."""

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ranks import job
from traces import TraceBuilder

from tare.errors import BadInput
from tare.findings.diagnosis import diagnose
from tare.report.ranks import job_view
from tare.report.terminal import plain_text
from tare.trace.explanation import About, explain
from tare.trace.flame import flame
from tare.trace.job import explain_job
from tare.trace.read import read_ranks

ON_HOST = ("cpu_op", "cuda_runtime", "user_annotation", "python_function")
NAMES = ("x", "ncclDevKernel_AllReduce", "ProfilerStep#3", "cudaStreamBeginCapture", "cudaStreamEndCapture")


def damage(builder: TraceBuilder, rng: random.Random) -> None:
    event: dict[str, Any] = rng.choice(builder.events)
    match rng.randrange(5):
        case 0:
            builder.events.remove(event)
        case 1:
            event["ts"] = rng.choice([0, -5, 1e9])
        case 2:
            event["dur"] = rng.choice([0, 1e7, -1])
        case 3 if event["args"]:
            event["args"].pop(rng.choice(list(event["args"])))
        case _:
            event["name"] = rng.choice(NAMES)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(i, marks=pytest.mark.full) for i in range(4, 60))])
def test_damaged_ranks(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    builders = job(ranks=3, slow=1, slow_for=rng.choice([0, 100]), slow_in=rng.choice(["python", "kernel"]))
    for builder in builders:
        for _ in range(rng.choice([0, 1, 5, 30])):
            damage(builder, rng)
    traces = [builder.build() for builder in builders]
    with suppress(BadInput):
        plain_text(job_view(explain_job(traces)))
    for trace in traces:
        with suppress(BadInput):
            explain(trace, About(title="damaged"))
            diagnose(trace)
        flame(trace)
    events = [
        event | {"pid": 1000 + rank if event["cat"] in ON_HOST else rng.choice([0, rank])}
        for rank, builder in enumerate(builders)
        for event in builder.events
    ]
    path = tmp_path / "merged.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with suppress(BadInput):
        ranks = read_ranks(path)
        if len(ranks) > 1:
            explain_job(ranks)
