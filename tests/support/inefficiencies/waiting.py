"""The device waits: for an answer to the host, for Python, for the CPU, for data."""

import time
import traceback
from typing import Any

from inefficiencies.base import Step, inefficiency, mlp, trainer


@inefficiency("hidden-item", "hidden-sync", stack=True)
def hidden_item(device: str) -> tuple[Step, Step]:
    """The device has a lot to do and the host would be far ahead, if it did not ask how the first part ended."""
    import torch

    model, x, _ = mlp(device)
    a = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16) / 64

    def first() -> Any:
        y = a
        for _ in range(5):
            y = a @ y
        return y.sum()

    def bad() -> None:
        if first().item() > 1e30:
            raise ValueError("diverged")
        model(x)

    def good() -> None:
        first()
        model(x)

    return bad, good


@inefficiency("repeated-item", "repeated-sync", stack=True)
def repeated_item(device: str) -> tuple[Step, Step]:
    model, x, y = mlp(device)

    def norms(_: Any) -> None:
        for p in model.parameters():
            p.norm().item()

    def lazy(_: Any) -> None:
        for p in model.parameters():
            p.norm()

    return trainer(model, x, y, norms), trainer(model, x, y, lazy)


@inefficiency("validity-check", "repeated-sync", stack=True)
def validity_check(device: str) -> tuple[Step, Step]:
    """PR 61056: a distribution checks its parameters with .all() before it may be used.

    Drawn as soft_actor_critic draws: sample() calls torch.normal, which looks at scale and waits by itself."""
    import torch

    loc, scale = torch.randn(512, device=device), torch.rand(512, device=device) + 1

    def sample(check: bool) -> None:
        for _ in range(5):
            torch.distributions.Normal(loc, scale, validate_args=check).rsample()

    return lambda: sample(True), lambda: sample(False)


@inefficiency("nonzero", "hidden-sync", stack=True)
def nonzero(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = mlp(device)

    def bad() -> None:
        y = model(x)
        y[y > 0].sum()
        model(x)

    def good() -> None:
        y = model(x)
        torch.where(y > 0, y, 0).sum()
        model(x)

    return bad, good


@inefficiency("python-between", "host-bound", stack=True)
def python_between(device: str) -> tuple[Step, Step]:
    model, x, _ = mlp(device)

    def bad() -> float:
        model(x)
        total = 0.0
        for i in range(100_000):
            total += i
        model(x)
        return total

    def good() -> None:
        model(x)
        model(x)

    return bad, good


@inefficiency("cpu-operator", "host-bound")
def cpu_operator(device: str) -> tuple[Step, Step]:
    """hf_BigBird: part of the model is computed on the CPU while the device waits."""
    import torch

    model, x, _ = mlp(device)
    table = torch.randn(1000, 1000)

    def bad() -> None:
        model(x)
        torch.sort(table, dim=1)
        model(x)

    on_device = table.to(device)

    def good() -> None:
        model(x)
        torch.sort(on_device, dim=1)
        model(x)

    return bad, good


@inefficiency("launch-bound", "launch-bound")
def launch_bound(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = mlp(device, depth=20)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            model(x)
    eager = torch.no_grad()(lambda: model(x))
    return eager, graph.replay


@inefficiency("starved-loader", "loader-starvation")
def starved_loader(device: str) -> tuple[Step, Step]:
    import torch

    class Slow(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 100_000

        def __getitem__(self, index: int) -> Any:
            time.sleep(0.0002)
            return torch.randn(512), index % 10

    loader = torch.utils.data.DataLoader(Slow(), batch_size=16)
    model, _, _ = mlp(device)
    batches = iter(loader)
    ready = next(batches)

    def train(batch: Any) -> None:
        x, y = batch[0].to(device), batch[1].to(device)
        torch.nn.functional.cross_entropy(model(x), y).backward()

    return lambda: train(next(batches)), lambda: train(ready)


@inefficiency("tracebacks", "exceptions", stack=True)
def tracebacks(device: str) -> tuple[Step, Step]:
    model, x, _ = mlp(device)

    def step(count: int) -> None:
        model(x)
        for _ in range(count):
            try:
                raise ValueError("not here")
            except ValueError:
                traceback.format_exc()
        model(x)

    return lambda: step(50), lambda: step(0)
