"""Inefficiencies that only a comparison with an earlier trace shows: the same program, made slower."""

import contextlib

from inefficiencies.base import Step, inefficiency, mlp


@inefficiency("exceptions", "host-work-grew", stack=True, pair=True)
def exceptions(device: str) -> tuple[Step, Step]:
    """PR 87855: an exception is thrown and caught in a hot path; the device's work is the same."""
    model, x, _ = mlp(device)

    def lookup(names: dict[str, int]) -> None:
        for i in range(2000):
            with contextlib.suppress(KeyError):
                names[str(i)]

    def step(call: bool) -> None:
        model(x)
        if call:
            lookup({})
        model(x)

    return lambda: step(True), lambda: step(False)


@inefficiency("kernel-changed", "kernel-changed", pair=True)
def kernel_changed(device: str) -> tuple[Step, Step]:
    """PR 65839: the same operator on the same shapes falls off its fast path."""
    import torch

    a = torch.randn(2048, 2048, device=device)
    b = torch.randn(64, 64, 56, 56, device=device)
    w = torch.randn(64, 64, 3, 3, device=device)

    def run(fast: bool) -> None:
        torch.backends.cudnn.enabled = fast
        torch.nn.functional.conv2d(b, w, padding=1)
        torch.backends.cudnn.enabled = True
        torch.backends.cuda.matmul.allow_tf32 = False
        a @ a

    return lambda: run(False), lambda: run(True)


@inefficiency("fused-slower", "fused-slower", pair=True)
def fused_slower(device: str) -> tuple[Step, Step]:
    """PR 65594 and 72148: one kernel that takes longer than those it replaces; here for want of parallelism."""
    import torch
    from slow_fusion import fused_add_relu

    x, b = torch.randn(4096, 4096, device=device), torch.randn(4096, 4096, device=device)
    return lambda: fused_add_relu(x, b), lambda: torch.relu(x + b)


@inefficiency("operator-slowed", "operator-slowed", pair=True)
def operator_slowed(device: str) -> tuple[Step, Step]:
    """PR 71904: the same kernel at the same shapes takes longer; here because it reads memory out of order."""
    import torch

    values = torch.randn(1 << 24, device=device)
    ordered = torch.arange(1 << 24, device=device)
    shuffled = torch.randperm(1 << 24, device=device)
    return lambda: values.take(shuffled), lambda: values.take(ordered)
