"""The worker's half of `tare peaks`: one ceiling of this machine, through the sampler that measures every case."""

from collections.abc import Callable
from typing import Any

import torch

from tare.measure.devices import make_clock
from tare.measure.peaks import ceilings
from tare.measure.sampler import Limits, sample
from tare.protocol.jobs import PeakJob
from tare.protocol.messages import Capacity, Measured, Stage
from tare.worker.process import DEVICE_WARMUP_S


def measure_peak(job: PeakJob, send: Callable[[Any], None]) -> None:
    ceiling = next(ceiling for ceiling in ceilings(job.device) if ceiling.name == job.name)
    send(Stage("prepare"))
    device = torch.device(job.device)
    if device.index is not None:
        torch.cuda.set_device(device)
    load = ceiling.make(job.device)
    clock = make_clock(device)
    send(Capacity(amount=load.amount))
    send(Stage("sample"))
    at_least = DEVICE_WARMUP_S if clock.overlaps else 0.0
    limits = Limits(job.budget_s, job.width, warmup_at_least_s=at_least)
    with torch.inference_mode():
        sample(load.step, clock, limits, lambda series: send(Measured(series)))
