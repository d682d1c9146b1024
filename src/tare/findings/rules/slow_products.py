"""Matrix products far below what their shape reaches: as an equal product elsewhere in the trace, or by the
operations and bytes that it needs."""

from statistics import median
from typing import NamedTuple

from tare.findings import Context, Match, flat, grouped, rule
from tare.findings.replacing import shortened
from tare.findings.rules.off_multiple_shapes import PRECISION, is_misaligned
from tare.trace.counting import ITEM_BYTES, PRODUCTS, Product, product
from tare.trace.metadata import has_tf32
from tare.trace.names import uses_tensor_cores

# The latency of a shorter product is a good part of it (ns).
SHORTEST_NS = 20_000
LEAST_SHARE = 0.05
# Products take up to so many times what their operations or bytes need at the peaks.
USUAL = 2.0
# One is slow that takes so many times what is usual for its shape, or what an equal one takes.
SLOWER_THAN_USUAL, SLOWER_THAN_EQUAL = 3.0, 2.0
# Rates that the trace itself shows are those of products that take so long (ns).
LONG_NS = 100_000
REMEDY = (
    "Look at the factors first: one that is expanded over the batch (fold the batch into rows: one mm for a bmm), "
    "strides of slices and views (make it contiguous once), float64, a single row. Else let "
    "torch.compile(mode='max-autotune') choose the kernel."
)


class ProductRun(NamedTuple):
    """One matrix product: its row, its shape, the precision of its kernels, what it launched and how long."""

    row: int
    shape: Product
    precision: str
    kernels: list[int]
    ns: int


@rule(REMEDY)
def slow_products(context: Context) -> Match | None:
    """Matrix products of 20 µs or more that take twice as long as equal ones of the trace, or six times what their
    operations and bytes need at the peaks; 5 % of the step or more."""
    runs = _runs(context)
    reached = map(_reached_ns, runs, _equal_ns(context, runs), _usual_ns(context, runs))
    factors = {
        run.row: ns / run.ns
        for run, ns in zip(runs, reached, strict=True)
        if ns and run.ns >= SHORTEST_NS and not _is_other_rules(context, run)
    }
    slow = [run for run in runs if run.row in factors]
    activities = flat(run.kernels for run in slow)
    share = context.device_share(activities)
    if share < LEAST_SHARE:
        return None
    device, ns = context.trace.device, sum(run.ns for run in slow)
    rate = sum(run.shape.flops for run in slow) / ns * 1e9
    ratio = ns / sum(factors[run.row] * run.ns for run in slow)
    return Match(
        summary=f"matrix products take {ratio:.3g} times as long as their shapes need: "
        f"{context.per_step(len(slow)):.3g} a step",
        evidence={"share": share, "flops_per_s": rate, "usual_flops_per_s": rate * ratio},
        locations=[
            context.location(context.product_location(run.row, run.kernels[0]), device.intervals(run.kernels))
            for run in slow
        ],
        saving_s=context.saving(shortened(context, factors)),
        spans=device.intervals(activities),
    )


def _runs(context: Context) -> list[ProductRun]:
    trace, device = context.trace, context.trace.device
    runs, length = [], device.duration
    for row, kernels in context.activities_by(context.operators(*PRODUCTS)).items():
        shape, ns = product(trace, row), int(length[kernels].sum())
        if shape and ns:
            tensor_cores = any(uses_tensor_cores(trace.name(device, kernel)) for kernel in kernels)
            own = "tf32" if tensor_cores else "fp32"
            precision = {**PRECISION, "float": own, "double": "fp64"}.get(shape.type, shape.type)
            runs.append(ProductRun(row, shape, precision, kernels, ns))
    return runs


def _reached_ns(run: ProductRun, equal: float, usual: float) -> float:
    """What a slow product could take; 0 for one that is not slow."""
    if equal and run.ns >= SLOWER_THAN_EQUAL * equal:
        return equal
    return usual if run.ns >= SLOWER_THAN_USUAL * usual else 0.0


def _is_other_rules(context: Context, run: ProductRun) -> bool:
    """Whether off-multiple-shapes or tf32-off sees it."""
    misaligned = run.shape.type in PRECISION and is_misaligned(run.shape)
    return misaligned or (run.precision == "fp32" and has_tf32(context.trace))


def _equal_ns(context: Context, runs: list[ProductRun]) -> list[float]:
    """For each product what an equal one takes in other kernels, by the median of the fastest; 0 where there is
    none."""
    device, trace = context.trace.device, context.trace
    kernels = [", ".join(trace.name(device, kernel) for kernel in run.kernels) for run in runs]
    fastest: dict[Product, tuple[float, str]] = {}
    for group in grouped(range(len(runs)), lambda at: f"{_unstrided(runs[at].shape)} {kernels[at]}").values():
        shape, ns = _unstrided(runs[group[0]].shape), median(runs[at].ns for at in group)
        fastest[shape] = min((ns, kernels[group[0]]), fastest.get(shape, (ns, kernels[group[0]])))
    best = [fastest[_unstrided(run.shape)] for run in runs]
    return [ns if names != own else 0.0 for (ns, names), own in zip(best, kernels, strict=True)]


def _unstrided(shape: Product) -> Product:
    return shape._replace(strides=None)


def _usual_ns(context: Context, runs: list[ProductRun]) -> list[float]:
    """What is usual for each product by the measured peaks, or else by the best rates of long products of the
    trace; 0 where neither is known."""
    best: dict[str, float] = {}
    moved = 0.0
    for run in runs:
        if run.ns >= LONG_NS:
            best[run.precision] = max(run.shape.flops / run.ns * 1e9, best.get(run.precision, 0.0))
            moved = max(moved, _bytes(run.shape) / run.ns * 1e9)
    rates = {
        run.precision: context.rates.get(f"matrix:{run.precision}", best.get(run.precision, 0.0)) for run in runs
    }
    bandwidth = context.rates.get("bandwidth", moved)
    if "fp64" in rates:
        # Among products of other types float64 is more often an oversight than meant.
        rates["fp64"] = max((rate for name, rate in rates.items() if name != "fp64"), default=rates["fp64"])
    if not bandwidth:
        return [0.0] * len(runs)
    return [
        USUAL * max(run.shape.flops / rate, _bytes(run.shape) / bandwidth) * 1e9
        if (rate := rates[run.precision])
        else 0.0
        for run in runs
    ]


def _bytes(shape: Product) -> int:
    """The bytes of both factors and of the result. A factor that is expanded over the batch is there once."""
    left, right = ((1 if stride[:1] == (0,) else shape.batch) for stride in shape.strides or ((), ()))
    elements = left * shape.m * shape.k + right * shape.k * shape.n + shape.batch * shape.m * shape.n
    return elements * ITEM_BYTES.get(shape.type, 4)
