"""Depths of a workload on its rungs and, if asked for, what a call costs on them. The CLI calls it."""

from typing import Any

import msgspec

from tare.cases.grid import Skip, expand
from tare.cases.options import Options
from tare.cases.plan import make_plan
from tare.errors import BadInput
from tare.execute.catalogue import LocalCatalogue
from tare.execute.executor import OnStage
from tare.execute.ladder import ladders
from tare.execute.workshop import Workshop, workshop
from tare.frames.cost import Cost, price
from tare.frames.count import Depth, count_frames

CHAIN = "conv_chain"


class Frames(msgspec.Struct, kw_only=True):
    depths: list[Depth]
    cost: Cost | None
    skipped: list[Skip]

    @property
    def exit_code(self) -> int:
        return 1 if any(depth.failure for depth in self.depths) else 0

    def ladders(self) -> list[list[Depth]]:
        found = {depth.case.key: depth for depth in self.depths}
        return [[found[case.key] for case in ladder] for ladder in ladders(d.case for d in self.depths)]


def study(workload: str, grid: dict[str, Any], options: Options, with_cost: bool, on_stage: OnStage) -> Frames:
    if with_cost and (grid.get("mode", ["infer"]) != ["infer"] or len(grid.get("device", [])) > 1):
        raise BadInput("--cost times inference on one device")
    plan = make_plan({"grid": [{"workload": [workload], **grid}]}, "the command line", workload)
    with workshop(plan, options.isolation, on_stage) as shop:
        depths = count_frames(shop.executor, shop.found.cases, options)
        cost = _cost(shop, grid, options) if with_cost else None
        return Frames(depths=depths, cost=cost, skipped=shop.found.skipped)


def _cost(shop: Workshop, grid: dict[str, Any], options: Options) -> Cost:
    """The chain of calls on the same rungs, counted anew: its depth need not be the workload's. On one thread,
    because waking others for a convolution of a few hundred numbers is a price of its own."""
    kept = {name: grid[name] for name in ("rung", "device", "precision") if name in grid}
    plan = make_plan({"grid": [{"workload": [CHAIN], "threads": 1, **kept}]}, "the command line", CHAIN)
    found = expand(plan.grids[0], LocalCatalogue(shop.probed))
    return price(shop.executor, count_frames(shop.executor, found.cases, options), options)
