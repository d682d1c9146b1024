"""Depths of a workload on its rungs and, if asked for, what a call costs on them. The CLI calls it."""

from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Skip, expand
from tare.cases.options import Options
from tare.cases.plan import make_plan
from tare.commands.run import terminable
from tare.errors import BadInput
from tare.execute.call_stacks import Depth, build_counter, count_frames
from tare.execute.catalogue import LocalCatalogue
from tare.execute.executor import OnStage
from tare.execute.schedule import ladders
from tare.execute.session import Workshop, workshop
from tare.execute.warm_caches import warm
from tare.trace.call_cost import Cost, Timing

CHAIN = "conv_chain"


class Frames(msgspec.Struct, kw_only=True):
    depths: list[Depth]
    cost: Cost | None = None
    skipped: list[Skip]
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 1 if any(depth.failure for depth in self.depths) else 0

    def ladders(self) -> list[list[Depth]]:
        found = {depth.case.key: depth for depth in self.depths}
        return [[found[case.key] for case in ladder] for ladder in ladders(d.case for d in self.depths)]


def study(workload: str, grid: dict[str, Any], options: Options, with_cost: bool, on_stage: OnStage) -> Frames:
    """Ctrl-C and SIGTERM end it early with what has been counted and timed."""
    if with_cost and (grid.get("mode", ["infer"]) != ["infer"] or len(grid.get("device", [])) > 1):
        raise BadInput("--cost times inference on one device")
    plan = make_plan({"grid": [{"workload": [workload], **grid}]}, "the command line", workload)
    with terminable(), workshop(plan, options.isolation, on_stage) as shop:
        found = Frames(depths=[], skipped=shop.found.skipped)
        counter = build_counter(shop.executor)
        try:
            _count(shop, shop.found.cases, counter, options, found.depths)
            if with_cost:
                _price(shop, grid, counter, options, found)
        except KeyboardInterrupt:
            found.interrupted = True
        return found


def _count(shop: Workshop, cases: list[Case], counter: str, options: Options, depths: list[Depth]) -> None:
    _warm(shop, cases, options)
    order = [case.key for case in cases]
    try:
        count_frames(shop.executor, cases, counter, options, depths.append)
    finally:
        # Side by side, they end as they please.
        depths.sort(key=lambda depth: order.index(depth.case.key))


def _price(shop: Workshop, grid: dict[str, Any], counter: str, options: Options, found: Frames) -> None:
    """The chain of calls on the same rungs, counted anew: its depth need not be the workload's. On one thread,
    because waking others for a convolution of a few hundred numbers is a price of its own."""
    kept = {name: grid[name] for name in ("rung", "device", "precision") if name in grid}
    plan = make_plan({"grid": [{"workload": [CHAIN], "threads": 1, **kept}]}, "the command line", CHAIN)
    depths: list[Depth] = []
    _count(shop, expand(plan.grids[0], LocalCatalogue(shop.probed)).cases, counter, options, depths)
    timing = Timing(depths)
    _warm(shop, timing.cases, options)
    try:
        timing.measure(shop.executor, options)
    finally:
        found.cost = timing.cost()


def _warm(shop: Workshop, cases: list[Case], options: Options) -> None:
    """Without references: counting needs none, and of the chains only one is compared."""
    if options.warm:
        warm(cases, shop.executor, msgspec.structs.replace(options, parity=False), shop.executor.say)
