"""A planted sleep in a forward, profiled for real: it is host time outside operators, with its function."""

import time
from pathlib import Path

import torch

from tare.commands.check_profiles import step_call_changes
from tare.findings.context import Context
from tare.findings.python_time import grown_functions
from tare.trace.read import read
from tare.trace.windows import select_steps

STEPS = 4


class Sleeper(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x).relu()
        if self.seconds:
            time.sleep(self.seconds)
        return y


def profiled(folder: Path, seconds: float, stacks: bool) -> Context:
    model, x = Sleeper(seconds), torch.randn(4, 16)
    model(x)
    began = time.perf_counter()
    for _ in range(STEPS):
        model(x)
    gross_s = (time.perf_counter() - began) / STEPS
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=stacks) as profiler:
        for step in range(STEPS):
            with torch.profiler.record_function(f"tare::step#{step}"):
                model(x)
    path = folder / f"{seconds}-{stacks}.json"
    profiler.export_chrome_trace(str(path))
    return Context(select_steps(read(path)), gross_s)


def test_a_planted_sleep_is_python_time_of_its_function(tmp_path: Path) -> None:
    before, now = (profiled(tmp_path, seconds, stacks=False) for seconds in (0.0, 0.05))
    change, *others = step_call_changes([before], [now], slower=True)
    assert (change.kind, change.name) == ("python", "host time outside operators")
    assert not [other for other in others if other.status == "faster"]
    functions = grown_functions(*(profiled(tmp_path, seconds, stacks=True) for seconds in (0.0, 0.05)))
    assert len(functions) == 1
    assert functions[0].endswith(": forward, <built-in function sleep>")
    assert "test_python_time.py" in functions[0]
