"""Scalars, parameters and batches that are copied needlessly or too slowly."""

from inefficiencies.base import Step, inefficiency, mlp


@inefficiency("scalar-copies", "scalar-copies", stack=True)
def scalar_copies(device: str) -> tuple[Step, Step]:
    import torch

    model, x, _ = mlp(device)
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


@inefficiency("ping-pong", "parameter-ping-pong")
def ping_pong(device: str) -> tuple[Step, Step]:
    model, x, _ = mlp(device)

    def bad() -> None:
        model.cpu()
        model.to(device)
        model(x)

    return bad, lambda: model.to(device)(x)


@inefficiency("pageable-copy", "pageable-copies")
def pageable_copy(device: str) -> tuple[Step, Step]:
    import torch

    host = torch.randn(4096, 4096)
    pinned, w = host.pin_memory(), torch.randn(4096, 4096, device=device)
    return lambda: host.to(device) @ w, lambda: pinned.to(device, non_blocking=True) @ w


@inefficiency("exposed-copy", "exposed-copies")
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
