"""Hand-made traces of several ranks: each computes, then all of them reduce their gradients."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traces import TraceBuilder

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COMMUNICATION_STREAM = 20
ELEMENTS = 1 << 20


def message(
    operation: str = "allreduce", elements: int = ELEMENTS, ranks: int = 4, group: str = "0", **more: Any
) -> dict[str, Any]:
    """The arguments of a collective's kernel and operator, by torch's names."""
    return {
        "Collective name": operation,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": "Float",
        "Group size": ranks,
        "Process Group Name": group,
    } | more


def collective(
    trace: TraceBuilder, at: float, start: float, end: float, kernel: str = ALL_REDUCE, **args: Any
) -> int:
    """A collective as torch launches it, called at `at`; its kernel runs from `start` to `end`."""
    trace.op("record_param_comms", at, at + 4, **args)
    return trace.launch(
        at + 1, at + 3, start, end, kernel=kernel, call="cudaLaunchKernelExC", stream=COMMUNICATION_STREAM, **args
    )


def job(
    ranks: int = 4,
    steps: int = 5,
    compute: float = 200,
    transfer: float = 100,
    slow: int | None = None,
    slow_for: float = 0,
    slow_in: str = "kernel",
    clocks: Sequence[float] = (),
    named: bool = True,
) -> list[TraceBuilder]:
    """Every rank computes for `compute` us a step, then an all-reduce takes `transfer` us from the moment at
    which the last rank begins it. `slow` needs `slow_for` us more, in a "kernel", or in "python" before its
    launch. Then the host waits for the device. `clocks` are added to the times of each rank."""
    infos = [{"backend": "nccl", "rank": rank, "world_size": ranks} for rank in range(ranks)]
    traces = [TraceBuilder(distributedInfo=info) if named else TraceBuilder() for info in infos]
    late = {rank: slow_for if rank == slow else 0.0 for rank in range(ranks)}
    begin = 1000.0
    for number in range(steps):
        end = begin + 20 + compute + max(late.values()) + transfer
        for rank, trace in enumerate(traces):
            clock = clocks[rank] if clocks else 0
            at = begin + clock
            trace.step(at, end + clock + 10, number)
            waits = late[rank] if slow_in == "python" else 0.0
            works = late[rank] if slow_in == "kernel" else 0.0
            if waits:
                trace.frame("train.py(7): augment", at + 1, at + 5 + waits)
            trace.op("aten::mm", at + 5 + waits, at + 15 + waits)
            done = at + 20 + waits + compute
            trace.launch(at + 8 + waits, at + 12 + waits, at + 20 + waits, done, kernel="gemm")
            if works:
                trace.op("aten::sort", at + 16, at + 24)
                trace.launch(at + 18, at + 22, done, done + works, kernel="slow_sort")
            collective(trace, at + 26 + waits, done + works, end + clock, **message(ranks=ranks))
            trace.call("cudaStreamSynchronize", at + 32 + waits, end + clock + 5)
        begin = end + 20
    return traces


def write_job(folder: Path, traces: Sequence[TraceBuilder]) -> list[Path]:
    return [trace.write(folder / f"rank{rank}.json") for rank, trace in enumerate(traces)]
