"""The ladder: one file a rung. A rung turns a workload into a step that can be called over and over."""

from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.registry import all_rungs, get_rung, ladder, rung, split_name

__all__ = ["Missing", "Program", "Rung", "all_rungs", "get_rung", "ladder", "rung", "split_name"]
