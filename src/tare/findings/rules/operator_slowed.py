"""The same kernels take longer at equal shapes (the TorchBench paper, PR 71904)."""

from tare.findings import Context, Match, rule
from tare.findings.compared import ShapedOperator, slower_operators

SLOWER = 1.3
LEAST_SHARE = 0.02


@rule(
    "operator-slowed",
    sees="Between two traces the same kernels of an operator at equal shapes take at least 1.3 times as long.",
    remedy="The work within the kernel grew (a check in the inner loop, other data) or the device is slower: "
    "clocks, neighbours.",
    pair=True,
)
def look(before: Context, after: Context) -> Match | None:
    def describe(was: ShapedOperator, now: ShapedOperator) -> str | None:
        seconds, former = now.device_s_per_call, was.device_s_per_call
        growth_s = (seconds - former) * now.calls
        if set(was.kernels) != set(now.kernels) or not seconds >= SLOWER * former > 0:
            return None
        return f"{now.label}: {seconds / former:.1f} times" if growth_s >= LEAST_SHARE * after.step_s else None

    return slower_operators(before, after, describe, "the same kernels more slowly than before")
