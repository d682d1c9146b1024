"""One stretch of steps under torch's profiler, and its trace in a file."""

import warnings
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity

from tare.measure.profiler import recording, write_trace
from tare.trace.operator_table import operator_table
from tare.trace.read import read


def test_the_steps_after_the_warm_up_are_in_the_trace(tmp_path: Path) -> None:
    numbers = torch.ones(4)
    # torch says it once a process.
    getattr(torch.profiler.profiler, "_WARNINGS_SHOWN", set()).clear()
    with (
        warnings.catch_warnings(action="error"),
        recording([ProfilerActivity.CPU], warmup=2, active=3) as profiler,
    ):
        for _ in range(5):
            torch.relu(numbers)
            profiler.step()
    path = tmp_path / "trace.json.gz"
    write_trace(profiler, str(path))
    assert path.read_bytes().startswith(b"\x1f\x8b")
    assert list(tmp_path.iterdir()) == [path]
    calls = [row.calls for row in operator_table(read(path)) if row.name == "aten::relu"]
    assert calls == [3]


def test_a_trace_that_has_no_room_leaves_nothing(tmp_path: Path) -> None:
    with recording([ProfilerActivity.CPU], warmup=1, active=1) as profiler:
        for _ in range(2):
            torch.ones(4)
            profiler.step()
    with pytest.raises(OSError, match="nowhere"):
        write_trace(profiler, str(tmp_path / "nowhere" / "trace.json.gz"))
    assert not list(tmp_path.iterdir())
