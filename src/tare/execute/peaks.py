"""Measuring a machine's ceilings: a fresh process each, through the sampler that measures every case."""

from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median

from tare.cases.options import Options
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.measure.peaks import SECONDS, Ceiling, ceilings
from tare.protocol.jobs import PeakJob
from tare.protocol.messages import Capacity, Measured
from tare.records.environment import Environment
from tare.records.work import Peak, Peaks

BUDGET_S = 1.5
WIDTH = 0.005


def measure_peaks(
    executor: LocalExecutor,
    device: str,
    environment: Environment,
    rounds: int,
    tell: Callable[[str], None] = lambda _: None,
) -> Peaks:
    """All ceilings of a device. One that cannot be measured is an error: a missing peak would hide a floor."""
    made: dict[str, list[float]] = {}
    wanted = ceilings(device)
    for index in range(rounds):
        for ceiling in wanted:
            tell(f"{ceiling.name} {index + 1}/{rounds}")
            made.setdefault(ceiling.name, []).append(_one(executor, ceiling, device))
    return Peaks(
        device=device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment,
        peaks=[
            Peak(
                name=one.name,
                unit=one.unit,
                value=(min if one.unit == SECONDS else max)(made[one.name]),
                rounds=made[one.name],
            )
            for one in wanted
        ],
    )


def _one(executor: LocalExecutor, ceiling: Ceiling, device: str) -> float:
    job = PeakJob(name=ceiling.name, device=device, budget_s=BUDGET_S, width=WIDTH)
    messages = executor.inquire(job, Options(timeout=120.0), device)
    amount = next((m.amount for m in messages if isinstance(m, Capacity)), None)
    series = next((m.series for m in messages if isinstance(m, Measured) and m.series.kind == "pipelined"), None)
    if amount is None or series is None:
        raise TareError(f"the peak {ceiling.name} of {device} could not be measured")
    seconds = median(series.step_seconds())
    return seconds if ceiling.unit == SECONDS else amount / seconds
