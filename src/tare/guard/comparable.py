"""Which records may be compared: what differs between their environments, and whether that is the point."""

from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import pairwise

from tare.errors import BadInput
from tare.records.environment import Difference, Environment, environment_differences
from tare.records.figures import good_rounds
from tare.records.record import Record

# What a comparison of versions is about: it may differ, and is reported. Everything else that decides what a step
# takes (the machine, the flags, the kernel, the driver, tare itself) must be the same on both sides.
SUBJECTS = frozenset(
    f"software.{name}" for name in ("torch", "torchvision", "numpy", "triton", "python", "cuda", "cudnn", "mkl",
                                    "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "jax", "tensorflow", "onnxruntime")
)  # fmt: skip


def split_differences(
    pairs: Iterable[tuple[Record, Record]], meant: Collection[str] = ()
) -> tuple[list[Difference], list[Difference]]:
    """What differs over all pairs, each field once: what is compared, and what hinders the comparison.

    `meant` names further fields whose difference is the point, such as machine.gpu.
    """
    subjects: dict[Difference, None] = {}
    hindrances: dict[Difference, None] = {}
    for a, b in pairs:
        for difference in environment_differences(a.environment, b.environment):
            (subjects if _is_subject(difference, meant) else hindrances)[difference] = None
    return list(subjects), list(hindrances)


def hindering(a: Environment, b: Environment) -> list[Difference]:
    """What keeps figures of two environments from being compared."""
    return [one for one in environment_differences(a, b) if not _is_subject(one)]


def refuse(
    hindrances: list[Difference],
    what: str = "not comparable",
    remedy: str = "--force compares all the same, and says so",
) -> None:
    """BadInput that names the fields that differ."""
    if not hindrances:
        return
    shown = "; ".join(str(one) for one in hindrances[:3])
    more = f" and {len(hindrances) - 3} more fields" if len(hindrances) > 3 else ""
    raise BadInput(f"{what}: {shown}{more} ({remedy})")


def _is_subject(difference: Difference, meant: Collection[str] = ()) -> bool:
    return difference.field in SUBJECTS or difference.field in meant


def were_interleaved(a: Record, b: Record) -> bool:
    """Whether the rounds of two records took turns: round i of both before round i + 1 of either."""
    mine, theirs = good_rounds(a), good_rounds(b)
    if len(mine) != len(theirs) or len(mine) < 2:
        return False
    try:
        pairs = [
            sorted(datetime.fromisoformat(done.started) for done in pair)
            for pair in zip(mine, theirs, strict=True)
        ]
        apart = all(before[1] <= after[0] for before, after in pairwise(pairs))
    except (ValueError, TypeError):
        # An imported record may say anything there.
        return False
    # Rounds that all began in the same second say nothing of their order.
    return apart and pairs[0][0] < pairs[-1][0]
