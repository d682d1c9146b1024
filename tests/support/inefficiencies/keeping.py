"""Memory that is never released, or released too soon."""

from typing import Any

from inefficiencies.base import Step, inefficiency, mlp


@inefficiency("leak", "memory-growth", steps=6)
def leak(device: str) -> tuple[Step, Step]:
    model, x, _ = mlp(device)
    kept: list[Any] = []

    def bad() -> None:
        kept.append(model(x).detach().repeat(100, 1))

    return bad, lambda: model(x).detach().repeat(100, 1)


@inefficiency("allocator-churn", "allocator-churn")
def allocator_churn(device: str) -> tuple[Step, Step]:
    import torch

    # empty_cache lets go of segments of which nothing is in use. The sum takes 256 MiB: too much for what earlier
    # programs left of their segments, so it gets one of its own, and `a` has another.
    torch.cuda.empty_cache()
    a = torch.randn(8192, 8192, device=device)

    def bad() -> None:
        a + 1
        torch.cuda.empty_cache()

    return bad, lambda: a + 1
