"""Habits of memory: never giving it back, or giving it back too soon."""

from typing import Any

from habits.base import Step, habit, mlp


@habit("leak", "memory-growth", steps=6)
def leak(device: str) -> tuple[Step, Step]:
    model, x, _ = mlp(device)
    kept: list[Any] = []

    def bad() -> None:
        kept.append(model(x).detach().repeat(100, 1))

    return bad, lambda: model(x).detach().repeat(100, 1)


@habit("allocator-churn", "allocator-churn")
def allocator_churn(device: str) -> tuple[Step, Step]:
    import torch

    # The sum takes 16 MiB: the allocator gives more than 10 MiB a segment of its own, which empty_cache can let
    # go of. A smaller one shares its segment with what is kept, and stays.
    a = torch.randn(2048, 2048, device=device)

    def bad() -> None:
        a + 1
        torch.cuda.empty_cache()

    return bad, lambda: a + 1
