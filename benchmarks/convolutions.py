"""Convolutions that cuDNN cuts into many kernels, and what each of the remedies makes of them.

    python -m benchmarks.convolutions [--device cuda] [--json results/findings/convolutions-h200.json]

The shapes are those that the traces of the zoo show: grouped ones, a kernel for each group, and small batches
behind a Fourier transform, a kernel for each frequency. All ways of one shape are timed in turn, several times
around.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

TURNS, STEPS = 5, 20


class Shape(NamedTuple):
    name: str
    x: tuple[int, ...]
    weight: tuple[int, ...]
    groups: int = 1
    padding: int = 1


SHAPES = (
    Shape("resnext50_32x4d", (32, 128, 56, 56), (128, 4, 3, 3), 32),
    Shape("resnext50_32x4d, last", (32, 1024, 14, 14), (1024, 32, 3, 3), 32),
    Shape("timm_nfnet", (32, 768, 14, 14), (768, 128, 3, 3), 6),
    Shape("timm_regnet", (32, 576, 28, 28), (576, 24, 3, 3), 24),
    Shape("stable_diffusion_unet", (1, 640, 32, 32), (640, 640, 3, 3)),
    Shape("an ordinary one", (32, 64, 56, 56), (64, 64, 3, 3)),
)
# Precision, channels-last, and whether cuDNN tries all its algorithms.
WAYS = {
    "float32": ("fp32", False, False),
    "float32, searched": ("fp32", False, True),
    "float32, channels-last": ("fp32", True, False),
    "float32, channels-last, searched": ("fp32", True, True),
    "tf32": ("tf32", False, False),
    "tf32, channels-last": ("tf32", True, False),
    "bfloat16": ("bf16", False, False),
    "bfloat16, channels-last": ("bf16", True, False),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import torch

    name = torch.cuda.get_device_name() if args.device == "cuda" else args.device
    found: dict[str, Any] = {"device": name, "torch": torch.__version__, "shapes": []}
    for shape in SHAPES:
        steps = {way: make_step(shape, *how, device=args.device) for way, how in WAYS.items()}
        rows = {
            way: {"us": us, "kernels": count_kernels(steps[way], args.device)}
            for way, us in times(steps, args.device).items()
        }
        found["shapes"].append({**shape._asdict(), "ways": rows})
        print(f"{shape.name}: {shape.x} by {shape.weight}, {shape.groups} groups", flush=True)
        for way, row in rows.items():
            print(f"  {way:34} {row['us']:9.1f} us {row['kernels'] or '?':>5} kernels", flush=True)
        if args.json:
            args.json.write_text(json.dumps(found, indent=1) + "\n")


def make_step(shape: Shape, precision: str, last: bool, searched: bool, device: str) -> Callable[[], Any]:
    import torch
    from torch.nn.functional import conv2d

    layout = torch.channels_last if last else torch.contiguous_format
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    x, weight = (
        torch.randn(size, device=device, dtype=kind).contiguous(memory_format=layout)
        for size in (shape.x, shape.weight)
    )

    def step() -> None:
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = searched
        with torch.inference_mode():
            conv2d(x, weight, padding=shape.padding, groups=shape.groups)

    return step


def times(steps: dict[str, Callable[[], Any]], device: str) -> dict[str, float]:
    """Microseconds of each, the median of the turns."""
    import torch

    from tare.measure.devices import make_clock

    clock = make_clock(torch.device(device))
    for step in steps.values():
        # The search, and the clock's way up.
        clock.time(step, 3)
    taken: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(TURNS):
        for way, step in steps.items():
            taken[way].append(clock.time(step, STEPS).wall_ns / STEPS / 1e3)
    return {way: median(each) for way, each in taken.items()}


def count_kernels(step: Callable[[], Any], device: str) -> int | None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    if device != "cuda":
        return None
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        step()
        torch.cuda.synchronize()
    return sum(1 for event in profiler.events() if event.device_type.name == "CUDA")


if __name__ == "__main__":
    main()
