"""One round: a case is prepared, sampled, weighed, audited and compared with its reference."""

import gc
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.errors import TareError, first_line
from tare.measure.clock import spin_ns
from tare.measure.devices import open_gpu
from tare.measure.environment import imported_packages
from tare.measure.interception import count_step
from tare.measure.memory import MemoryMeter
from tare.measure.sampler import SamplingLimits, sample
from tare.protocol.jobs import RoundJob
from tare.protocol.messages import (
    Checked,
    Failed,
    ImportedPackages,
    Measured,
    Prepared,
    Send,
    Stage,
    StepProfile,
    Weighed,
)
from tare.records.record import Failure, Net, Series
from tare.rungs import get_rung
from tare.rungs.base import Program, Rung
from tare.rungs.torch.numerics import OF_PRECISION, changed_flags, flags_changed_within, pin_flags
from tare.worker.audit import audit
from tare.worker.evidence import TimedEvidence
from tare.worker.preparation import limit_compilers, one_core, use_cache
from tare.worker.reference import check_parity
from tare.workloads import get_workload


def measure_round(job: RoundJob, send: Send) -> Failed | None:
    """Prepares, samples, weighs and checks one case. It has failed where the figures cannot be trusted."""
    case = job.case
    rung = get_rung(case.rung)
    flags = pin_flags(case)
    cache = use_cache(job.cache)
    memory = MemoryMeter(open_gpu(case.device))
    spin_before = spin_ns()
    send(Stage("build"))
    began = time.perf_counter()
    limit_compilers(job.cores)
    # Not for a CPU: code compiled for it contains the number of threads it was compiled with.
    with one_core(job.gate is not None and case.device_type != "cpu"):
        program = rung.prepare(get_workload(case.workload), case)
    clock = program.clock()
    memory.allocator = program.allocator()
    send(Stage("prepare"))
    # The first call compiles and autotunes, so it is part of the preparation.
    clock.time(program.step, 1)
    prepare_s = max(time.perf_counter() - began - program.build_s, 0.0)
    memory.mark_prepared()
    notes = list(program.notes)
    send(Prepared(build_s=program.build_s, prepare_s=prepare_s, cache=cache, flags=flags, notes=notes))

    # Objects made so far live to the end: the garbage collector need not visit them during the steps.
    gc.collect()
    gc.freeze()
    if job.gate:
        send(Stage("gate"))
        wait_at_gate(Path(job.gate))
        # The CPU was shared until now.
        spin_before = spin_ns()
    send(Stage("sample"))
    series: list[Series] = []

    def report(finished: Series) -> None:
        series.append(finished)
        send(Measured(finished))
        memory.mark()

    evidence = TimedEvidence(program, clock, memory)
    sample(evidence, SamplingLimits(job.budget_s, job.width), report)
    changed = changed_flags(flags)
    cpu_pace = spin_before / max(spin_ns(), 1)
    weighed = Weighed(host=memory.host(), device=memory.device(), memory=memory.trace(), cpu_pace=cpu_pace)
    changed = flags_changed_within(program.step, flags) | changed
    # After the meters, because counting allocates memory of its own.
    counts, operators = _count(rung, program, case)
    changes = {name: f"{name} was changed from {flags[name]} to {value}" for name, value in changed.items()}
    notes = [f"{change} by the model or its rung" for change in changes.values()]
    if evidence.diverged:
        notes.append("training on random data diverged within a block; the initial weights were restored after it")
    send(msgspec.structs.replace(weighed, counts=counts, operators=operators, flags=changed, notes=notes))

    send(Stage("audit"))
    for name in OF_PRECISION:
        if name in changes:
            return Failed(Failure(cause="precision-changed", message=f"{changes[name]} under the case"))
    # A user's whole step may be plain Python, and do something else in each step.
    own_step = get_workload(case.workload).is_step
    if counts.get("operators") == 0 and not own_step:
        return Failed(Failure(cause="no-work", message="a step calls no operator: there is nothing to measure"))
    if evidence.has_nan:
        return Failed(Failure(cause="nan", message="the result of a timed step is not a number"))
    if fault := audit(program, clock, series[1], series[2], () if own_step else evidence.verified_ns):
        return Failed(fault)
    if job.profile:
        send(Stage("profile"))
        send(_profile(program, median(series[1].step_seconds())))
    if job.gate:
        # What follows may run while another case is measured.
        send(Stage("report"))
    if job.profile:
        # Once is enough, as for the profile. The metadata of a package may be damaged.
        with suppress(Exception):
            send(ImportedPackages(imported_packages()))
    if job.reference:
        send(Stage("parity"))
        step_s = min(series[1].step_seconds())
        send(Checked(check_parity(lambda: evidence.arrays, Path(job.reference), case, step_s)))
    program.close()
    return None


def wait_at_gate(pipe: Path) -> None:
    """Returns when the parent lets this process measure: until then other processes are prepared or measured."""
    with pipe.open("rb", buffering=0) as gate:
        if not gate.read(1):
            raise TareError("the parent is gone: nobody opens the measurement gate")


def _count(rung: Rung, program: Any, case: Case) -> tuple[dict[str, int], dict[str, int]]:
    """Counts of one step, and its calls of each operator. Both are empty where counting fails, which may happen
    with another version of torch: the measured figures are worth more than the counts."""
    figures: dict[str, int] = {}
    with suppress(Exception):
        figures |= rung.counts(case)
    with suppress(Exception):
        if rung.countable:
            counted = count_step(program.step, program.device)
            return figures | counted.figures, counted.operators
    return figures, {}


def _profile(program: Program, step_s: float) -> StepProfile:
    try:
        return program.profile(step_s)
    except Exception as error:  # noqa: BLE001 - recorded as the reason why there is no net
        return StepProfile(net=Net(reason=f"profiling failed: {type(error).__name__}: {first_line(error)}"[:300]))
