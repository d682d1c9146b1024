"""How a plan is measured: rounds, time, isolation. What is measured is described by its cases."""

import sys
from typing import Annotated, Any, Literal

import msgspec

from tare.cases.tables import convert_table

Isolation = Literal["fork", "spawn"]
Reference = Literal["float64", "float32"]
# macOS does not support much of what torch does in a forked process.
DEFAULT_ISOLATION: Isolation = "spawn" if sys.platform == "darwin" else "fork"


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`budget` is the sampling time of one case over all its rounds; preparation is not counted in it."""

    rounds: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    budget: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 12.0
    timeout: Annotated[float, msgspec.Meta(gt=0, le=604_800)] = 900.0
    width: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.01
    isolation: Isolation = DEFAULT_ISOLATION
    memory: Annotated[int, msgspec.Meta(ge=2**20, le=2**60)] | None = None
    parity: bool = True
    # The reference is eager in float64. For precisions below float32, float32 is exact enough and takes half the
    # memory.
    reference: Reference = "float64"
    # How many cases are prepared at a time; they are always measured one at a time.
    jobs: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1

    @property
    def round_budget(self) -> float:
        return self.budget / self.rounds

    @property
    def identity(self) -> dict[str, Any]:
        """What decides a run's figures, and so whether --resume continues an interrupted run."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        del fields["jobs"]
        return fields


QUICK: dict[str, Any] = {"rounds": 1, "budget": 1.5, "width": 0.05}


def make_options(given: dict[str, Any], where: str = "options") -> Options:
    """Options from a plan's table or the command line; names the key that is wrong and the valid ones."""
    return convert_table(given, Options, where)
