"""The TorchBench paper, PR 71904: the same kernels, or the same work on the CPU, take longer at equal shapes."""

from collections.abc import Iterator

from tare.findings.compared import Left, left, pairs, slower_hit
from tare.findings.context import Scene
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule

SLOWER = 1.3
LEAST_SHARE = 0.02


@rule(
    "operator-slowed",
    sees="Between two traces the same kernels of an operator at equal shapes take at least 1.3 times as long.",
    remedy="The work within the kernel grew (a check in the inner loop, other data) or the device is slower: "
    "clocks, neighbours.",
    pair=True,
)
def look(before: Scene, after: Scene) -> Iterator[Hit]:
    places: list[Place] = []
    shares: dict[int, Left] = {}
    for was, now in pairs(before, after):
        each, then = now.device_s_per_call, was.device_s_per_call
        same = set(was.kernels) == set(now.kernels)
        if same and each >= SLOWER * then > 0 and (each - then) * now.calls >= LEAST_SHARE * after.step_s:
            shares |= dict.fromkeys(now.rows, left(was, now))
            text = f"{now.label}: {each / then:.1f} times"
            places.append(Place(where=text, count=now.calls, seconds=now.device_s))
    if places:
        summary = f"{len(places)} operators run the same kernels more slowly than before"
        yield slower_hit(after, summary, places, shares)
