"""Which records may be compared: what differs between their environments, and whether that is the subject."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import pairwise

import msgspec

from tare.cases.case import Case
from tare.errors import BadInput
from tare.records.environment import PACKAGES, VARIABLE, Difference, Environment, environment_differences
from tare.records.figures import good_rounds
from tare.records.record import Record

# Versions that may differ between the sides of a comparison, and are reported. Everything else that affects the
# time of a step (the machine, the flags, the kernel, the driver, tare itself) must be the same on both sides.
SUBJECTS = frozenset(
    f"software.{name}" for name in ("torch", "torchvision", "numpy", "triton", "python", "cuda", "cudnn", "mkl",
                                    "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "jax", "tensorflow", "onnxruntime")
)  # fmt: skip
SHOWN_DIFFERENCES = 3


def split_differences(
    pairs: Iterable[tuple[Environment, Environment]], subjects: Collection[str] = ()
) -> tuple[list[Difference], list[Difference]]:
    """What differs over all pairs, each field once: the subjects of the comparison, and what prevents it. The
    packages that a model imported are subjects like torch.

    `subjects` names further fields whose difference is intended, such as machine.gpu.
    """
    differences = dict.fromkeys(d for a, b in pairs for d in environment_differences(a, b))
    intended = [d for d in differences if d.group == PACKAGES or d.field in SUBJECTS or d.field in subjects]
    return intended, [d for d in differences if d not in intended]


def refuse_differences(
    differences: Sequence[Difference],
    problem: str = "not comparable",
    remedy: str = "--force compares all the same, and says so",
) -> None:
    """BadInput that names the fields that differ."""
    if not differences:
        return
    shown = "; ".join(str(difference) for difference in differences[:SHOWN_DIFFERENCES])
    more = len(differences) - SHOWN_DIFFERENCES
    raise BadInput(f"{problem}: {shown}{f' and {more} more fields' if more > 0 else ''} ({remedy})")


def were_interleaved(a: Record, b: Record) -> bool:
    """Whether the rounds of two records alternated: round i of both before round i + 1 of either."""
    rounds_a, rounds_b = good_rounds(a), good_rounds(b)
    if len(rounds_a) != len(rounds_b) or len(rounds_a) < 2:
        return False
    try:
        starts = [
            sorted(datetime.fromisoformat(round_.started) for round_ in pair)
            for pair in zip(rounds_a, rounds_b, strict=True)
        ]
        alternated = all(before[1] <= after[0] for before, after in pairwise(starts))
    except (ValueError, TypeError):
        # An imported record may hold any text there.
        return False
    # Rounds that all began in the same second do not show their order.
    return alternated and starts[0][0] < starts[-1][0]


def order_within_pairs(a: Record, b: Record, indices: Sequence[int]) -> list[bool]:
    """Of each of these pairs of rounds, whether b's was measured before a's; empty if that is not known of all."""
    times = [{round_.index: round_.started for round_ in record.rounds} for record in (a, b)]
    try:
        starts = [[datetime.fromisoformat(side[index]) for side in times] for index in indices]
        if any(before == now for before, now in starts):
            return []
        return [now < before for before, now in starts]
    except (ValueError, TypeError):
        return []


def baseline_records(stored: Sequence[Record], cases: Sequence[Case], name: str) -> list[Record]:
    """The records of a baseline with which a plan's cases are compared. BadInput if there are none: a check that
    compares nothing would pass."""
    wanted = {case.family for case in cases}
    records = [record for record in stored if record.case.family in wanted]
    if records or not cases:
        return records
    has = stored[0].case.family + (f" and {len(stored) - 1} more" if len(stored) > 1 else "")
    raise BadInput(
        f"no case of the plan is in baseline '{name}': {cases[0].family} is not; it has {has} "
        f"(tare baseline show {name})"
    )


def baseline_differences(
    records: Sequence[Record], environment: Environment
) -> tuple[list[Difference], list[Difference]]:
    """What differs between any of a baseline's records and this machine, split as `split_differences` does. A
    baseline may hold records of several machines; one of another machine is enough to prevent a comparison."""
    here = _without_pinned_flags(environment)
    distinct = {record.environment.base_id: record.environment for record in records}
    return split_differences((_without_pinned_flags(before), here) for before in distinct.values())


def version_differences(records: Sequence[Record], environment: Environment) -> list[Difference]:
    """Software of the interpreter given for the baseline that differs from what the baseline was measured with."""
    subjects, blocking = baseline_differences(records, environment)
    return [difference for difference in (*subjects, *blocking) if difference.group == "software"]


def package_differences(before: Sequence[Record], now: Sequence[Record]) -> list[Difference]:
    """The packages that the models of two sets of records imported in other versions. What a model will import is
    not known until it was measured."""
    earlier = {record.case.family: record.environment for record in before}
    pairs = [(earlier[r.case.family], r.environment) for r in now if r.case.family in earlier]
    return [difference for difference in split_differences(pairs)[0] if difference.group == PACKAGES]


def _without_pinned_flags(environment: Environment) -> Environment:
    """Without the flags that a worker pins for its case: a machine that was only probed has none of them."""
    flags = {name: value for name, value in environment.flags.items() if name.startswith(VARIABLE)}
    return msgspec.structs.replace(environment, flags=flags)
