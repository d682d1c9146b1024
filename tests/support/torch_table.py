"""torch's own table of operators (key_averages), as record_inefficiencies keeps it, beside ours."""

from typing import Any

import pytest

from tare.trace.operator_table import operator_table
from tare.trace.tables import Trace

HOST = "CPU"
# What CUPTI says of its own work (category "overhead"): rows of torch's table, and no operators.
OVERHEAD = {
    "Activity Buffer Request", "Buffer Flush", "Command Buffer Full", "Instrumentation", "Lazy Function Loading",
    "Resource", "Runtime Triggered Module Loading",
}  # fmt: skip


def assert_same_table(trace: Trace, averages: list[list[Any]], nested: bool = True) -> None:
    """Ours has every row of the host's, with its calls and times.

    torch groups by kind of device too: kernels have rows of their own, and an annotation has one for the host and
    one of the same name for its shadow on the device. Ours has another table for kernels and leaves shadows out.

    Not `nested`: while it compiles, dynamo marks ranges that overlap in part. torch takes such a range for no
    one's child, and what it leaves to their self times depends on that.
    """
    ours = {row.name: row for row in operator_table(trace)}
    # Torch takes it from the self time of what was around it.
    overhead = sum(total for name, _, total, *_ in averages if name in OVERHEAD)
    compared = 0
    for name, count, total, own, device_total, device_self, *_, kind in averages:
        if kind != HOST or name in OVERHEAD:
            continue
        if name not in ours:
            # Memory that was let go of outside any operator has a row without time.
            assert total == 0, name
            continue
        mine = ours[name]
        compared += 1
        assert mine.calls == count, name
        assert mine.host_total / 1e3 == pytest.approx(total, abs=0.01 * count + 0.5), name
        operator = name.startswith("aten::")
        if nested or operator:
            assert mine.host_self / 1e3 == pytest.approx(own, abs=0.05 * count + 0.5 + overhead), name
        if operator:
            assert mine.device_total / 1e3 == pytest.approx(device_total, abs=0.01 * count + 0.5), name
            assert mine.device_self / 1e3 == pytest.approx(device_self, abs=0.01 * count + 0.5), name
    assert compared
