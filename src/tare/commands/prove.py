"""`tare prove`: losses of training on real data, rung by rung, compared with eager in float64."""

from typing import Any

import msgspec

from tare.cases.options import Options
from tare.cases.plan import Skip, make_plan
from tare.errors import unknown
from tare.execute.curves import Curve, follow_curve
from tare.execute.executor import OnStage
from tare.execute.session import open_plan_session
from tare.system.processes import interruptible
from tare.workloads import get_workload
from tare.workloads.datasets import SIZES

# More than one sample: batch norm cannot normalise a single one.
BATCH = 16


class Proof(msgspec.Struct):
    data: str
    steps: int
    curves: list[Curve]
    skipped: list[Skip]
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 0 if all(curve.parity.status == "same" for curve in self.curves) else 1


def prove_curves(
    workload: str, grid: dict[str, Any], data: str, steps: int, options: Options, on_stage: OnStage
) -> Proof:
    """Trains `workload` on every rung that trains. Sizes that are not given follow from the data. Ctrl-C and
    SIGTERM end it early with the curves that are complete."""
    if data not in SIZES:
        raise unknown("data", data, SIZES)
    sizes = {name: value for name, value in SIZES[data].items() if name in get_workload(workload).sizes}
    grid = {"batch": BATCH, **grid, "mode": "train", "size": {**sizes, **grid.get("size", {})}}
    plan = make_plan({"grid": [{"workload": [workload], **grid}]}, "the command line", workload)
    with interruptible(), open_plan_session(plan, options.isolation, on_stage) as session:
        proof = Proof(data, steps, [], session.expansion.skipped)
        try:
            for case in session.expansion.cases:
                proof.curves.append(follow_curve(session.executor, case, data, steps, options))
        except KeyboardInterrupt:
            proof.interrupted = True
        return proof
