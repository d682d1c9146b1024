"""How an inefficiency is registered, and the programs that several of them share."""

from collections.abc import Callable
from typing import Any, NamedTuple

Step = Callable[[], Any]


class Inefficiency(NamedTuple):
    """`rule` must fire on the first step of `make(device)`; with `pair`, it also needs the trace of the fixed
    one."""

    rule: str
    make: Callable[[str], tuple[Step, Step]]
    stack: bool = False
    pair: bool = False
    steps: int = 2


INEFFICIENCIES: dict[str, Inefficiency] = {}


def inefficiency(name: str, rule: str, **options: Any) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        INEFFICIENCIES[name] = Inefficiency(rule, make, **options)
        return make

    return register


def stating(step: Step, **metadata: Any) -> Step:
    """The step with what a recording of it states beside the events."""
    setattr(step, "metadata", metadata)  # noqa: B010 - a function has no such attribute for the type checker
    return step


def mlp(device: str, depth: int = 6) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(512, 10)).to(device)
    return model, torch.randn(64, 512, device=device), torch.randint(0, 10, (64,), device=device)


def trainer(model: Any, x: Any, y: Any, after: Callable[[Any], None] | None = None, **options: Any) -> Step:
    import torch
    from torch.nn.functional import cross_entropy

    to_none = options.pop("set_to_none", True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **options)

    def step() -> None:
        optimizer.zero_grad(set_to_none=to_none)
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if after:
            after(loss)

    return step
