"""Peaks of this machine that nobody measured, for what needs some and says nothing of their size."""

from pathlib import Path

import pytest

from tare.measure.environment import collect
from tare.measure.peak_store import save_peaks
from tare.measure.peaks import benchmarks
from tare.records.work import Peak, Peaks
from tare.system.home import VARIABLE

CREATED = "2026-01-02T03:04:05+00:00"


def plant_peaks(home: Path, device: str = "cpu") -> None:
    """As `tare peaks` would leave them in a home: to measure them takes longer than what a test is about."""
    found = [Peak(name=one.name, unit=one.unit, value=1e9, rounds=[1e9]) for one in benchmarks(device)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(home))
        save_peaks(Peaks(device=device, created=CREATED, environment=collect(), peaks=found))
