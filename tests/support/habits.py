"""Programs with one bad habit each, and their twins without it: what the findings must see, and must not.

Each is a function of the device that gives the habit's step and the remedied one. They re-create the issues and
the optimisations of TorchBench's report (seed 003, sections 4.1 and 4.2) and the other habits that tare knows.
"""

import contextlib
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

Step = Callable[[], Any]


class Habit(NamedTuple):
    """`rule` is what the first step must be found guilty of; `pair` where that needs the twin's trace beside
    it."""

    rule: str
    make: Callable[[str], tuple[Step, Step]]
    stack: bool = False
    pair: bool = False
    steps: int = 2


HABITS: dict[str, Habit] = {}


def habit(name: str, rule: str, **options: Any) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        HABITS[name] = Habit(rule, make, **options)
        return make

    return register


def _mlp(device: str, depth: int = 6) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(512, 10)).to(device)
    return model, torch.randn(64, 512, device=device), torch.randint(0, 10, (64,), device=device)


def _trainer(model: Any, x: Any, y: Any, after: Callable[[Any], None] | None = None, **options: Any) -> Step:
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


@habit("loop-optimizer", "tiny-optimizer-kernels")
def loop_optimizer(device: str) -> tuple[Step, Step]:
    bad = _trainer(*_mlp(device), set_to_none=False, foreach=False)
    return bad, _trainer(*_mlp(device), foreach=True)


@habit("scalar-copies", "scalar-copies", stack=True)
def scalar_copies(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = _mlp(device)
    factors = [1.0 + i / 100 for i in range(20)]

    def bad() -> None:
        y = model(x)
        for factor in factors:
            y = y * torch.rsqrt(torch.tensor(factor, device=device))

    def good() -> None:
        y = model(x)
        for factor in factors:
            y = y * factor**-0.5

    return bad, good


@habit("ping-pong", "parameter-ping-pong")
def ping_pong(device: str) -> tuple[Step, Step]:
    model, x, _ = _mlp(device)

    def bad() -> None:
        model.cpu()
        model.to(device)
        model(x)

    return bad, lambda: model.to(device)(x)


@habit("pageable-copy", "pageable-copies")
def pageable_copy(device: str) -> tuple[Step, Step]:
    import torch

    host = torch.randn(4096, 4096)
    pinned, w = host.pin_memory(), torch.randn(4096, 4096, device=device)
    return lambda: host.to(device) @ w, lambda: pinned.to(device, non_blocking=True) @ w


@habit("exposed-copy", "exposed-copies")
def exposed_copy(device: str) -> tuple[Step, Step]:
    import torch

    pinned, w = torch.randn(2048, 2048).pin_memory(), torch.randn(2048, 2048, device=device)
    side = torch.cuda.Stream()
    state = {"next": pinned.to(device)}

    def bad() -> None:
        x = pinned.to(device, non_blocking=True)
        for _ in range(4):
            x @ w

    def good() -> None:
        now = state["next"]
        with torch.cuda.stream(side):
            after = pinned.to(device, non_blocking=True)
        for _ in range(4):
            now @ w
        torch.cuda.current_stream().wait_stream(side)
        state["next"] = after

    return bad, good


@habit("hidden-item", "hidden-sync", stack=True)
def hidden_item(device: str) -> tuple[Step, Step]:
    model, x, _ = _mlp(device)

    def bad() -> None:
        y = model(x)
        if y.sum().item() > 1e30:
            raise ValueError("diverged")
        model[:6](x)

    def good() -> None:
        model(x).sum()
        model[:6](x)

    return bad, good


@habit("repeated-item", "repeated-sync", stack=True)
def repeated_item(device: str) -> tuple[Step, Step]:
    model, x, y = _mlp(device)

    def norms(_: Any) -> None:
        for p in model.parameters():
            p.norm().item()

    def lazy(_: Any) -> None:
        for p in model.parameters():
            p.norm()

    return _trainer(model, x, y, norms), _trainer(model, x, y, lazy)


@habit("validity-check", "repeated-sync", stack=True)
def validity_check(device: str) -> tuple[Step, Step]:
    """PR 61056: a distribution checks its parameters with .all() before it may be used."""
    import torch

    loc, scale = torch.randn(512, device=device), torch.rand(512, device=device) + 1

    def sample(check: bool) -> None:
        for _ in range(5):
            torch.distributions.Normal(loc, scale, validate_args=check).sample()

    return lambda: sample(True), lambda: sample(False)


@habit("nonzero", "hidden-sync", stack=True)
def nonzero(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = _mlp(device)

    def bad() -> None:
        y = model(x)
        y[y > 0].sum()
        model(x)

    def good() -> None:
        y = model(x)
        torch.where(y > 0, y, 0).sum()
        model(x)

    return bad, good


@habit("python-between", "host-bound", stack=True)
def python_between(device: str) -> tuple[Step, Step]:
    model, x, _ = _mlp(device)

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


@habit("cpu-operator", "host-bound")
def cpu_operator(device: str) -> tuple[Step, Step]:
    """hf_BigBird: part of the model is computed on the CPU while the device waits."""
    import torch

    model, x, _ = _mlp(device)
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


@habit("launch-bound", "launch-bound")
def launch_bound(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = _mlp(device, depth=20)
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


@habit("starved-loader", "loader-starvation")
def starved_loader(device: str) -> tuple[Step, Step]:
    import torch

    class Slow(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 100_000

        def __getitem__(self, index: int) -> Any:
            time.sleep(0.0002)
            return torch.randn(512), index % 10

    loader = torch.utils.data.DataLoader(Slow(), batch_size=16)
    model, _, _ = _mlp(device)
    batches = iter(loader)
    ready = next(batches)

    def train(batch: Any) -> None:
        x, y = batch[0].to(device), batch[1].to(device)
        torch.nn.functional.cross_entropy(model(x), y).backward()

    return lambda: train(next(batches)), lambda: train(ready)


@habit("odd-shapes", "off-multiple-shapes")
def odd_shapes(device: str) -> tuple[Step, Step]:
    import torch

    def product(m: int, k: int, n: int) -> Step:
        a = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=device, dtype=torch.bfloat16)
        return lambda: a @ b

    return product(4097, 4093, 4099), product(4104, 4096, 4104)


@habit("tf32-off", "tf32-off")
def tf32_off(device: str) -> tuple[Step, Step]:
    import torch

    a = torch.randn(4096, 4096, device=device)

    def product(allowed: bool) -> Step:
        def step() -> None:
            torch.backends.cuda.matmul.allow_tf32 = allowed
            a @ a

        return step

    return product(False), product(True)


def _convolutions(device: str, bias: bool, layout: Any) -> Step:
    import torch
    from torch import nn

    torch.manual_seed(0)
    block = [nn.Conv2d(64, 64, 3, padding=1, bias=bias), nn.BatchNorm2d(64), nn.ReLU()]
    block += [nn.Conv2d(64, 64, 3, padding=1, bias=bias), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*block).to(device, torch.bfloat16, memory_format=layout)
    x = torch.randn(64, 64, 112, 112, device=device, dtype=torch.bfloat16).to(memory_format=layout)

    def step() -> None:
        model.zero_grad()
        model(x).sum().backward()

    return step


@habit("conv-bias", "conv-bias-before-norm")
def conv_bias(device: str) -> tuple[Step, Step]:
    import torch

    last = torch.channels_last
    return _convolutions(device, True, last), _convolutions(device, False, last)


@habit("channels-first", "channels-first")
def channels_first(device: str) -> tuple[Step, Step]:
    import torch

    last = torch.channels_last
    return _convolutions(device, False, torch.contiguous_format), _convolutions(device, False, last)


@habit("graph-break", "graph-breaks", stack=True)
def graph_break(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = _mlp(device)

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


@habit("recompile", "recompilation", steps=1)
def recompile(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = _mlp(device)
    sizes = iter(range(64, 10_000))
    torch._dynamo.config.recompile_limit = 1000
    compiled = torch.compile(lambda y: torch.relu(model[0](y)).sum(), dynamic=False)
    no_grad = torch.no_grad()
    return no_grad(lambda: compiled(torch.randn(next(sizes), 512, device=device))), no_grad(lambda: compiled(x))


@habit("leak", "memory-growth", steps=6)
def leak(device: str) -> tuple[Step, Step]:
    model, x, _ = _mlp(device)
    kept: list[Any] = []

    def bad() -> None:
        kept.append(model(x).detach().repeat(100, 1))

    return bad, lambda: model(x).detach().repeat(100, 1)


@habit("allocator-churn", "allocator-churn")
def allocator_churn(device: str) -> tuple[Step, Step]:
    import torch

    a = torch.randn(1024, 1024, device=device)

    def bad() -> None:
        a @ a
        torch.cuda.empty_cache()

    return bad, lambda: a @ a


@habit("exceptions", "host-work-grew", stack=True, pair=True)
def exceptions(device: str) -> tuple[Step, Step]:
    """PR 87855: an exception is thrown and caught in a hot path; the device's work is the same."""
    model, x, _ = _mlp(device)

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


@habit("tracebacks", "exceptions", stack=True)
def tracebacks(device: str) -> tuple[Step, Step]:
    model, x, _ = _mlp(device)

    def step(count: int) -> None:
        model(x)
        for _ in range(count):
            try:
                raise ValueError("not here")
            except ValueError:
                traceback.format_exc()
        model(x)

    return lambda: step(50), lambda: step(0)


@habit("kernel-changed", "kernel-changed", pair=True)
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


@habit("fused-slower", "fused-slower", pair=True)
def fused_slower(device: str) -> tuple[Step, Step]:
    """PR 65594 and 72148: one kernel that takes longer than those it replaces; here for want of parallelism."""
    import torch
    from slow_fusion import fused_add_relu

    x, b = torch.randn(4096, 4096, device=device), torch.randn(4096, 4096, device=device)
    return lambda: fused_add_relu(x, b), lambda: torch.relu(x + b)


@habit("operator-slowed", "operator-slowed", pair=True)
def operator_slowed(device: str) -> tuple[Step, Step]:
    """PR 71904: the same kernel at the same shapes takes longer; here because it reads memory out of order."""
    import torch

    values = torch.randn(1 << 24, device=device)
    ordered = torch.arange(1 << 24, device=device)
    shuffled = torch.randperm(1 << 24, device=device)
    return lambda: values.take(shuffled), lambda: values.take(ordered)
