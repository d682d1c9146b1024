"""The counting worker: one eager step under a dispatch mode that sees every operator, forward and backward."""

import msgspec

from tare.cases.case import Case
from tare.measure.work import count_work
from tare.protocol.messages import Counted


def count(case: Case) -> Counted:
    """What one step computes is the same on every rung: it is counted on eager, which hides nothing."""
    from tare.rungs import get_rung
    from tare.rungs.torch.numerics import pin_flags
    from tare.workloads import get_workload

    pin_flags(case)
    eager = msgspec.structs.replace(case, rung="eager")
    program = get_rung("eager").prepare(get_workload(case.workload), eager)
    # The first step makes what later ones only touch, such as an optimizer's state.
    program.step()
    work = count_work(program.step)
    program.close()
    return Counted(work)
