"""Ranks that were merged into one file are told apart, with correlation ids that collide."""

import json
from pathlib import Path

import pytest
from ranks import job
from traces import TraceBuilder

from tare.trace.job import explain_job
from tare.trace.read import read_ranks


def merged(folder: Path, builders: list[TraceBuilder], device: str) -> Path:
    """As concatenating scripts do it. `device`: whether the devices are told apart by "pid and number", by
    "pid", or by "nothing", where every process sees one device only."""
    events = []
    for rank, builder in enumerate(builders):
        for event in builder.events:
            host = event["cat"] in ("cpu_op", "cuda_runtime", "user_annotation", "python_function")
            copy = event | {"pid": 1000 + rank if host else rank if device.startswith("pid") else 0}
            if not host and device == "pid and number":
                copy["args"] = copy["args"] | {"device": rank}
            events.append(copy)
    path = folder / "merged.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.mark.parametrize("device", ["pid and number", "pid", "nothing"])
def test_merged_ranks_are_told_apart(tmp_path: Path, device: str) -> None:
    builders = job(ranks=3, slow=1, slow_for=250, clocks=(0, 1.5, 3.25))
    apart = explain_job([builder.build() for builder in builders])
    ranks = read_ranks(merged(tmp_path, builders, device))
    assert len(ranks) == 3
    together = explain_job(ranks)
    for one, other in zip(apart.ranks, together.ranks, strict=True):
        assert (one.computing, one.waiting, one.transfer, one.idle) == (
            other.computing, other.waiting, other.transfer, other.idle,
        )  # fmt: skip
    assert together.straggler is not None
    assert together.straggler.rank == 1


def test_one_process_is_one_trace(tmp_path: Path) -> None:
    builder = job(ranks=1)[0]
    # A worker of a data loader launches nothing.
    builder.event("cpu_op", "aten::stack", 1010, 1020, pid=7)
    (trace,) = read_ranks(builder.write(tmp_path / "t.json"))
    assert len(trace.device) == 10
