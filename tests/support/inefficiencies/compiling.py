"""Inefficiencies under torch.compile."""

from typing import Any

from inefficiencies.base import Step, inefficiency, mlp


@inefficiency("graph-break", "graph-breaks", stack=True)
def graph_break(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = mlp(device)

    # Not in a loop: a break there makes dynamo give the whole function up.
    def broken(y: Any) -> Any:
        y = torch.relu(model[0](y))
        torch._dynamo.graph_break()
        y = torch.relu(model[2](y))
        torch._dynamo.graph_break()
        y = torch.relu(model[4](y))
        torch._dynamo.graph_break()
        return torch.relu(model[6](y))

    def whole(y: Any) -> Any:
        for i in (0, 2, 4, 6):
            y = torch.relu(model[i](y))
        return y

    bad, good = torch.compile(broken), torch.compile(whole)
    no_grad = torch.no_grad()
    return no_grad(lambda: bad(x)), no_grad(lambda: good(x))


@inefficiency("recompile", "recompilation", steps=1)
def recompile(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = mlp(device)
    sizes = iter(range(64, 10_000))
    torch._dynamo.config.recompile_limit = 1000
    compiled = torch.compile(lambda y: torch.relu(model[0](y)).sum(), dynamic=False)
    no_grad = torch.no_grad()
    return no_grad(lambda: compiled(torch.randn(next(sizes), 512, device=device))), no_grad(lambda: compiled(x))
