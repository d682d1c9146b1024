"""Measuring a machine's peaks: a fresh process each, through the sampler that measures every case."""

from datetime import UTC, datetime

from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.measure.peaks import SECONDS, benchmarks
from tare.measure.telemetry import busy_now
from tare.protocol.jobs import PeakJob
from tare.protocol.messages import MeasuredPeak
from tare.records.environment import Environment
from tare.records.work import Peak, Peaks

BUDGET_S = 1.5
WIDTH = 0.005
TIMEOUT_S = 120.0


def measure_peaks(
    executor: LocalExecutor, device: str, environment: Environment, rounds: int, threads: int | None = None
) -> Peaks:
    """All peaks of a device, the best of many. One that cannot be measured is an error: without it there is no
    roofline. A machine that was busy before or after a round makes a caveat."""
    values: dict[str, list[float]] = {}
    gpu, all_benchmarks = executor.gpu(device), benchmarks(device)
    busy = busy_now(gpu)
    for index in range(rounds):
        for benchmark in all_benchmarks:
            executor.on_stage(f"peaks: {benchmark.name} {index + 1}/{rounds}")
            job = PeakJob(name=benchmark.name, device=device, threads=threads, budget_s=BUDGET_S, width=WIDTH)
            value = executor.request(job, MeasuredPeak, Options(timeout=TIMEOUT_S)).value
            values.setdefault(benchmark.name, []).append(value)
        busy = busy or busy_now(gpu)
    return Peaks(
        device=device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment,
        threads=threads,
        caveats=[f"the machine was busy while the peaks were measured: {reason}" for reason in busy],
        peaks=[
            Peak(
                name=benchmark.name,
                unit=benchmark.unit,
                value=(min if benchmark.unit == SECONDS else max)(values[benchmark.name]),
                rounds=values[benchmark.name],
            )
            for benchmark in all_benchmarks
        ],
    )
