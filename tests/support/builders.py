"""Small valid documents for tests: each builder gives a whole one, and takes what a test wants different."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.records.record import Failure, Parity, Record, Round, Series, SeriesKind
from tare.records.work import Peak, Peaks

STARTED = "2026-01-02T03:04:05+00:00"
ENVIRONMENT = Environment(
    machine={"cpu": "test-cpu", "cores": "2", "system": "Linux"},
    software={"python": "3.12.0", "torch": "2.10.0", "tare": "0.1.0"},
    flags={"tf32": "off"},
    circumstances={"host": "tester", "load_1min": "0.10"},
)


def make_case(**overrides: Any) -> Case:
    """A checked case; `mode="train"` brings its optimizer along."""
    fields: dict[str, Any] = {"workload": "mlp", "rung": "eager", "batch": 32, "sizes": {"width": 64}}
    fields |= overrides
    if fields.get("mode") == "train":
        fields.setdefault("optimizer", "sgd")
    return msgspec.convert(fields, Case)


def make_series(kind: SeriesKind, step_s: float, blocks: int = 10, steps: int = 4, **overrides: Any) -> Series:
    """Blocks that all took the same: `steps` steps of `step_s` seconds."""
    block = round(step_s * steps * 1e9)
    fields: dict[str, Any] = {
        "kind": kind,
        "steps": [steps] * blocks,
        "wall_ns": [block] * blocks,
        "at_ns": [i * block for i in range(blocks)],
        "stop": "steady" if kind == "warmup" else "width",
    }
    return Series(**(fields | overrides))


def make_round(index: int = 0, step_s: float = 1e-3, **overrides: Any) -> Round:
    """A good round: warm-up, pipelined steps of `step_s`, and latency a quarter above."""
    fields: dict[str, Any] = {
        "index": index,
        "started": STARTED,
        "seconds": 1.5,
        "isolation": "fork",
        "build_s": 0.1,
        "prepare_s": 0.2,
        "series": [
            make_series("warmup", 2 * step_s, blocks=3, steps=1),
            make_series("pipelined", step_s),
            make_series("latency", 1.25 * step_s, steps=1),
        ],
    }
    return Round(**(fields | overrides))


def make_peaks(device: str) -> Peaks:
    """1 TFLOP/s and 1 GB/s: 1000 FLOPs take 1 ns, one byte takes 1 ns."""
    return Peaks(
        device=device,
        created=STARTED,
        environment=ENVIRONMENT,
        peaks=[
            Peak(name="matrix:fp32", value=1e12, unit="FLOP/s", rounds=[1e12]),
            Peak(name="bandwidth", value=1e9, unit="B/s", rounds=[1e9]),
        ],
    )


def make_failure(**overrides: Any) -> Failure:
    fields: dict[str, Any] = {"cause": "exception", "message": "it broke", "stage": "prepare"}
    return Failure(**(fields | overrides))


def make_record(
    case: Case | None = None, steps_s: Sequence[float] = (1e-3, 1.01e-3, 0.99e-3), **overrides: Any
) -> Record:
    """A record with one good round for each of `steps_s`."""
    fields: dict[str, Any] = {
        "id": "record000001",
        "run": "run000000001",
        "created": STARTED,
        "case": case or make_case(),
        "environment": ENVIRONMENT,
        "rounds": [make_round(index, step_s) for index, step_s in enumerate(steps_s)],
        "parity": Parity(status="same", error=1e-6, tolerance=1e-3, worst="output", compared=1),
    }
    return Record(**(fields | overrides))
