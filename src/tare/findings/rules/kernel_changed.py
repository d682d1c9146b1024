"""The TorchBench paper, PR 65839: the same operator on the same shapes runs other, slower kernels."""

from collections.abc import Iterator

from tare.findings.compared import Left, left, pairs, slower_hit
from tare.findings.context import Scene
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule

SLOWER = 1.2


@rule(
    "kernel-changed",
    sees="Between two traces an operator at equal shapes uses other kernels, and they take at least 1.2 times "
    "as long.",
    remedy="It fell off a fast path: look at library versions, precision flags, alignment, layout and workspace.",
    pair=True,
)
def look(before: Scene, after: Scene) -> Iterator[Hit]:
    places: list[Place] = []
    shares: dict[int, Left] = {}
    for was, now in pairs(before, after):
        # Per call: more calls of the same operator are no slower kernel.
        each, then = now.device_s_per_call, was.device_s_per_call
        if set(was.kernels) == set(now.kernels) or each < SLOWER * then or each <= 0:
            continue
        shares |= dict.fromkeys(now.rows, left(was, now))
        costliest = max(now.kernels, key=lambda name: now.kernels[name])
        formerly = max(was.kernels, key=lambda name: was.kernels[name])
        text = f"{now.label}: {costliest[:60]}, was {formerly[:60]}"
        places.append(Place(where=text, count=now.calls, seconds=now.device_s))
    if places:
        summary = f"{len(places)} operators run other, slower kernels than before"
        yield slower_hit(after, summary, places, shares)
