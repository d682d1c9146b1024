"""Hand-made traces: a program on a host and a device told in whole microseconds, as torch.profiler writes."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec

from tare.trace.events import decode
from tare.trace.read import Collector
from tare.trace.tables import Trace

HOST, MAIN, STREAM = 100, 100, 7
# The traces that we recorded on GPUs and CPUs.
RECORDED = Path(__file__).parents[1] / "trace" / "recorded"


class TraceBuilder:
    """Times are microseconds (fractions down to 0.001). `launch` makes a call and its kernel."""

    def __init__(self, **metadata: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.metadata: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Test GPU"}]}
        self.metadata |= metadata
        self._correlation = 0
        self._steps = 0

    def event(self, category: str, name: str, start: float, end: float, **more: Any) -> None:
        fields = {"ph": "X", "cat": category, "name": name, "pid": HOST, "tid": MAIN, "ts": start}
        self.events.append(fields | {"dur": round(end - start, 3), "args": {}} | more)

    def step(self, start: float, end: float, number: int | None = None) -> None:
        self._steps += 1
        name = f"ProfilerStep#{self._steps if number is None else number}"
        self.event("user_annotation", name, start, end)
        self.event("gpu_user_annotation", name, start, end, pid=0, tid=STREAM)

    def annotation(self, name: str, start: float, end: float, thread: int = MAIN) -> None:
        self.event("user_annotation", name, start, end, tid=thread)

    def op(self, name: str, start: float, end: float, thread: Any = MAIN, **args: Any) -> None:
        """Arguments by the profiler's own names: op(..., **{"Input Dims": [[2, 3]], "Sequence number": 5})."""
        self.event("cpu_op", name, start, end, tid=thread, args=args)

    def frame(self, name: str, start: float, end: float, thread: int = MAIN, module: int | None = None) -> None:
        args = {"Python id": len(self.events), "Python parent id": None}
        if module is not None:
            args["Python module id"] = module
        self.event("python_function", name, start, end, tid=thread, args=args)

    def call(self, name: str, start: float, end: float, thread: int = MAIN, correlation: int | None = None) -> int:
        """A call of the CUDA runtime, or of the driver where the name begins with 'cu' and not 'cuda'."""
        if correlation is None:
            self._correlation += 1
            correlation = self._correlation
        category = "cuda_runtime" if name.startswith(("cuda", "hip")) else "cuda_driver"
        self.event(category, name, start, end, tid=thread, args={"correlation": correlation})
        return correlation

    def kernel(
        self, name: str, start: float, end: float, correlation: int, stream: int = STREAM, **args: Any
    ) -> None:
        shape = {"grid": [1, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}
        self._work("kernel", name, start, end, correlation, stream, shape | args)

    def copy(self, kind: str, start: float, end: float, correlation: int, size: int, stream: int = STREAM) -> None:
        """`kind` as the profiler writes it: 'HtoD (Pageable -> Device)'."""
        self._work("gpu_memcpy", f"Memcpy {kind}", start, end, correlation, stream, {"bytes": size})

    def memset(self, start: float, end: float, correlation: int, size: int = 4, stream: int = STREAM) -> None:
        self._work("gpu_memset", "Memset (Device)", start, end, correlation, stream, {"bytes": size})

    def launch(
        self,
        start: float,
        end: float,
        work_start: float,
        work_end: float,
        kernel: str = "k",
        call: str = "cudaLaunchKernel",
        thread: int = MAIN,
        stream: int = STREAM,
        **args: Any,
    ) -> int:
        """A kernel and its launching call."""
        correlation = self.call(call, start, end, thread)
        self.kernel(kernel, work_start, work_end, correlation, stream, **args)
        return correlation

    def memory(self, at: float, size: int, address: int, allocated: int, cuda: bool = True) -> None:
        args = {"Addr": address, "Bytes": size, "Device Type": int(cuda), "Device Id": 0 if cuda else -1}
        args |= {"Total Allocated": allocated, "Total Reserved": allocated}
        fields = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": HOST, "tid": MAIN}
        self.events.append(fields | {"ts": at, "args": args})

    def _work(
        self,
        category: str,
        name: str,
        start: float,
        end: float,
        correlation: int,
        stream: int,
        args: dict[str, Any],
    ) -> None:
        args = {"device": 0, "context": 1, "stream": stream, "correlation": correlation} | args
        self.event(category, name, start, end, pid=0, tid=stream, args=args)

    def document(self) -> dict[str, Any]:
        return self.metadata | {"traceEvents": self.events}

    def build(self) -> Trace:
        collector = Collector()
        collector.take(decode(msgspec.json.encode(self.events)))
        return collector.build("hand-made", self.metadata)

    def write(self, path: Path) -> Path:
        """As torch.profiler would, indented; compressed if the name says so."""
        text = json.dumps(self.document(), indent=2).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path
