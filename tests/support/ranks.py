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


def gloo_job(slow: int | None = None, slow_for: float = 0, ranks: int = 4, steps: int = 5) -> list[TraceBuilder]:
    """Data-parallel ranks that share a GPU through gloo: each computes for 200 us, enqueues two all-reduces, which
    two threads of the host carry out in 100 us each once the last rank has come, and copies what they gave."""
    infos = [{"backend": "gloo", "rank": rank, "world_size": ranks} for rank in range(ranks)]
    traces = [TraceBuilder(distributedInfo=info) for info in infos]
    late = {rank: slow_for if rank == slow else 0.0 for rank in range(ranks)}
    begin = 1000.0
    for number in range(steps):
        ends = [begin + 240 + max(late.values()) + 100 * (i + 1) for i in range(2)]
        for rank, trace in enumerate(traces):
            waits = late[rank]
            trace.step(begin, ends[-1] + 40, number)
            if waits:
                trace.frame("train.py(7): augment", begin + 1, begin + 5 + waits)
            trace.op("aten::mm", begin + 5 + waits, begin + 15 + waits)
            trace.launch(begin + 8 + waits, begin + 12 + waits, begin + 20 + waits, begin + 220 + waits, "gemm")
            for i, end in enumerate(ends):
                at = begin + 222 + 6 * i + waits
                trace.op("c10d::allreduce_", at, at + 5)
                trace.annotation("gloo:all_reduce", at + 12 - 6 * i, end, thread=900 + i)
            copied = trace.call("cudaMemcpyAsync", ends[-1] + 5, ends[-1] + 10)
            trace.copy("HtoD (Pinned -> Device)", ends[-1] + 12, ends[-1] + 22, copied, 1 << 20)
            trace.call("cudaStreamSynchronize", ends[-1] + 24, ends[-1] + 30)
        begin = ends[-1] + 60
    return traces


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
