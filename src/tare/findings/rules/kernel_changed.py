"""The same operator on the same shapes runs other, slower kernels (the TorchBench paper, PR 65839)."""

from tare.findings import Context, Match, rule
from tare.findings.compared import ShapedOperator, slower_operators

SLOWER = 1.2


@rule(
    "kernel-changed",
    sees="Between two traces an operator at equal shapes uses other kernels, and they take at least 1.2 times "
    "as long.",
    remedy="It fell off a fast path: look at library versions, precision flags, alignment, layout and workspace.",
    pair=True,
)
def look(before: Context, after: Context) -> Match | None:
    return slower_operators(before, after, _describe, "other, slower kernels than before")


def _describe(was: ShapedOperator, now: ShapedOperator) -> str | None:
    # Per call: more calls of the same operator are no slower kernel.
    seconds, former = now.device_s_per_call, was.device_s_per_call
    if set(was.kernels) == set(now.kernels) or seconds < SLOWER * former or seconds <= 0:
        return None
    longest, formerly = (max(one.kernels, key=one.kernels.__getitem__) for one in (now, was))
    return f"{now.label}: {longest[:60]}, was {formerly[:60]}"
