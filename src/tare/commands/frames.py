"""tare frames: the call depth of a workload on its rungs and, on request, what a call costs on them."""

from bisect import insort
from collections.abc import Iterable
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.cases.plan import Skip, expand_plan, make_plan
from tare.errors import BadInput
from tare.execute.call_stacks import build_counter, count_frames
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.parallel import stage_ahead
from tare.execute.runner import ladders
from tare.execute.session import PlanSession, open_plan_session
from tare.records.call_depth import CallCosts, CallDepth, call_cost, compare_costs, slope
from tare.records.record import Round
from tare.rungs.native.build import executable
from tare.system.processes import interruptible

# A chain of tiny convolutions, at two lengths.
CHAIN = "conv_chain"
SHORT, LONG = 8, 40
# Chains of frames that do nothing, about as deep as the rungs: a processor predicts about sixteen returns.
SHALLOW, DEEP = 5, 55
# Bare C++ frames are measured like a rung with this name.
NATIVE_FRAMES, NATIVE_PROGRAM = "descend", "tare-descend"


class FrameCounts(msgspec.Struct, kw_only=True):
    depths: list[CallDepth]
    cost: CallCosts | None = None
    skipped: list[Skip]
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 1 if any(depth.failure for depth in self.depths) else 0

    def ladders(self) -> list[list[CallDepth]]:
        by_key = {depth.case.key: depth for depth in self.depths}
        return [[by_key[case.key] for case in ladder] for ladder in ladders(d.case for d in self.depths)]


def count_call_depths(
    workload: str, grid: dict[str, Any], options: Options, with_cost: bool, on_stage: OnStage
) -> FrameCounts:
    """An interruption (Ctrl-C, SIGTERM) returns what has been counted and timed."""
    if with_cost and (grid.get("mode", ["infer"]) != ["infer"] or len(grid.get("device", [])) > 1):
        raise BadInput("--cost times inference on one device")
    plan = make_plan({"grid": [{"workload": [workload], **grid}]}, "the command line", workload)
    with interruptible(), open_plan_session(plan, options.isolation, on_stage) as session:
        result = FrameCounts(depths=[], skipped=session.expansion.skipped)
        counter = build_counter(session.executor)
        try:
            _count(session, session.expansion.cases, counter, options, result.depths)
            if with_cost:
                _time_calls(session, grid, counter, options, result)
        except KeyboardInterrupt:
            result.interrupted = True
        return result


def _count(
    session: PlanSession, cases: list[Case], counter: str, options: Options, depths: list[CallDepth]
) -> None:
    stage_ahead(session.executor, cases, options)
    order = [case.key for case in cases]
    for depth in count_frames(session.executor, cases, counter, options):
        # In parallel they end in any order.
        insort(depths, depth, key=lambda depth: order.index(depth.case.key))


def _time_calls(
    session: PlanSession, grid: dict[str, Any], counter: str, options: Options, result: FrameCounts
) -> None:
    """Counts and times the chain on the same rungs. Its depth may differ from the workload's. It runs on one
    thread: waking others for a convolution of a few hundred numbers would be a cost of its own."""
    kept = {name: grid[name] for name in ("rung", "device", "precision") if name in grid}
    plan = make_plan({"grid": [{"workload": [CHAIN], "threads": 1, **kept}]}, "the command line", CHAIN)
    depths: list[CallDepth] = []
    _count(session, expand_plan(plan, session.catalogue).cases, counter, options, depths)
    timing = CallTiming(depths)
    stage_ahead(session.executor, timing.cases, options)
    try:
        timing.measure(session.executor, options)
    finally:
        result.cost = timing.costs()


class CallTiming:
    """Times the chains of `depths` and chains of bare frames, round by round in turn.

    They are timed by the ordinary sampler in fresh processes, without the counter. After an interruption, `costs`
    uses the rounds that are there.
    """

    def __init__(self, depths: Iterable[CallDepth]) -> None:
        self._depths = [depth for depth in depths if depth.failure is None]
        self.cases = [_chain(depth.case, calls) for depth in self._depths for calls in (SHORT, LONG)]
        bare = [frames(depth) for frames in (_python_frames, _native_frames) for depth in (SHALLOW, DEEP)]
        self._rounds: dict[Case, list[Round]] = {case: [] for case in (*self.cases, *bare)}

    def measure(self, executor: LocalExecutor, options: Options) -> None:
        for index in range(options.rounds):
            for case, rounds in self._rounds.items():
                executor.on_stage(f"timing {case.workload} {case.rung} {index + 1}/{options.rounds}")
                rounds.append(_run_round(executor, case, index, options))

    def costs(self) -> CallCosts:
        python, native = (
            slope(self._rounds[bare(SHALLOW)], self._rounds[bare(DEEP)], DEEP - SHALLOW)
            for bare in (_python_frames, _native_frames)
        )
        costs = []
        for depth in self._depths:
            short, long = (self._rounds[_chain(depth.case, calls)] for calls in (SHORT, LONG))
            costs.append(call_cost(depth, short, long, LONG - SHORT))
        return compare_costs(costs, native, python)


def _run_round(executor: LocalExecutor, case: Case, index: int, options: Options) -> Round:
    if case.rung == NATIVE_FRAMES:
        return executor.run_program((str(executable(NATIVE_PROGRAM)),), case, index, options)
    # Parity is checked once per rung.
    return executor.run_round(case, index, options, check=index == 0 and case.sizes.get("calls") == LONG)


def _chain(case: Case, calls: int) -> Case:
    return msgspec.structs.replace(case, sizes={**case.sizes, "calls": calls})


def _python_frames(depth: int) -> Case:
    return Case(workload="frame_chain", rung="eager", batch=1, sizes={"depth": depth})


def _native_frames(depth: int) -> Case:
    # native/frames/descend.cpp takes its depth as the batch; no workload is involved.
    return Case(workload="frame_chain", rung=NATIVE_FRAMES, batch=depth)
