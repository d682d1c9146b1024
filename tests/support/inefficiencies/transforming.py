"""What transformers do wrong. Off a GPU the tensors are small: there the operators count and not their times."""

from collections.abc import Callable
from typing import Any

from inefficiencies.base import Step, inefficiency, stating


def pick(device: str, gpu: Any, cpu: Any) -> Any:
    return gpu if device == "cuda" else cpu


def heads(device: str, length: int) -> tuple[Any, Any, Any]:
    """Queries, keys and values, for 16 heads."""
    import torch

    torch.manual_seed(0)
    kind = pick(device, torch.bfloat16, torch.float32)
    shape = pick(device, (8, 16, length, 64), (2, 8, 64, 32))
    return tuple(torch.randn(3, *shape, device=device, dtype=kind).unbind())


@inefficiency("attention-by-hand", "attention-by-hand")
def attention_by_hand(device: str) -> tuple[Step, Step]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention, softmax

    q, k, v = heads(device, 1024)
    hidden = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=device).triu(1)

    def bad() -> Any:
        scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        return softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ v

    return bad, lambda: scaled_dot_product_attention(q, k, v, is_causal=True)


@inefficiency("attention-in-a-loop", "attention-in-a-loop")
def attention_in_a_loop(device: str) -> tuple[Step, Step]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention, softmax

    q, k, v = heads(device, 512)

    def head(number: int) -> Any:
        scores = q[:, number] @ k[:, number].transpose(-2, -1)
        return softmax(scores * q.shape[-1] ** -0.5, dim=-1) @ v[:, number]

    def bad() -> Any:
        return torch.cat([head(number) for number in range(q.shape[1])], dim=-1)

    def good() -> Any:
        return scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    return bad, good


@inefficiency("growing-cache", "growing-cache", steps=4)
def growing_cache(device: str) -> tuple[Step, Step]:
    """Eight caches, to each of which a step appends one entry."""
    import torch

    batch, rows, length = pick(device, (8, 16, 4096), (1, 4, 64))
    new = torch.randn(batch, rows, 1, 64, device=device)
    growing = [torch.randn(batch, rows, length, 64, device=device) for _ in range(8)]
    whole = [torch.randn(batch, rows, 2 * length, 64, device=device) for _ in range(8)]
    written = {"entries": length}

    def bad() -> None:
        for number, cache in enumerate(growing):
            growing[number] = torch.cat([cache, new], dim=2)

    def good() -> None:
        at = written["entries"] = length + (written["entries"] + 1) % length
        for cache in whole:
            cache[:, :, at : at + 1] = new

    return bad, good


@inefficiency("host-made-mask", "host-made-tensors")
def host_made_mask(device: str) -> tuple[Step, Step]:
    import torch

    scores = torch.randn(1024, 1024, device=device)
    kept = torch.ones(1024, 1024, device=device).tril()
    return lambda: scores * torch.ones(1024, 1024).tril().to(device), lambda: scores * kept


@inefficiency("norm-by-hand", "norm-by-hand")
def norm_by_hand(device: str) -> tuple[Step, Step]:
    from torch.nn.functional import layer_norm

    def by_hand(x: Any, weight: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        return weight * (x - mean) / (variance + 1e-5).sqrt() + bias

    def fused(x: Any, weight: Any, bias: Any) -> Any:
        return layer_norm(x, weight.shape, weight, bias)

    return _between_products(device, by_hand), _between_products(device, fused)


@inefficiency("rms-norm-by-hand", "norm-by-hand")
def rms_norm_by_hand(device: str) -> tuple[Step, Step]:
    import torch

    def by_hand(x: Any, weight: Any, _: Any) -> Any:
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def fused(x: Any, weight: Any, _: Any) -> Any:
        return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)

    return _between_products(device, by_hand), _between_products(device, fused)


@inefficiency("activation-by-hand", "activation-by-hand")
def activation_by_hand(device: str) -> tuple[Step, Step]:
    """As GPT-2 was published."""
    import torch

    def by_hand(x: Any, *_: Any) -> Any:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))

    def fused(x: Any, *_: Any) -> Any:
        return torch.nn.functional.gelu(x, approximate="tanh")

    return _between_products(device, by_hand), _between_products(device, fused)


def _between_products(device: str, function: Callable[..., Any]) -> Step:
    """A training step of two linear layers with something between them."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    rows, width, kind = pick(device, (32768, 2048, torch.bfloat16), (256, 64, torch.float32))
    layers = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)]).to(device, kind)
    weight, bias = (nn.Parameter(torch.rand(width, device=device, dtype=kind)) for _ in range(2))
    x = torch.randn(rows, width, device=device, dtype=kind)

    def step() -> None:
        layers[1](function(layers[0](x), weight, bias)).sum().backward()
        for parameter in (*layers.parameters(), weight, bias):
            parameter.grad = None

    return step


@inefficiency("loss-by-hand", "loss-by-hand")
def loss_by_hand(device: str) -> tuple[Step, Step]:
    import torch
    from torch.nn.functional import cross_entropy, softmax

    torch.manual_seed(0)
    rows, classes = pick(device, (8192, 32000), (256, 500))
    logits = torch.randn(rows, classes, device=device, requires_grad=True)
    target = torch.randint(0, classes, (rows,), device=device)

    def by_hand() -> Any:
        return -torch.log(softmax(logits, dim=-1)).gather(1, target[:, None]).mean()

    def training(loss: Callable[[], Any]) -> Step:
        def step() -> None:
            loss().backward()
            logits.grad = None

        return step

    return training(by_hand), training(lambda: cross_entropy(logits, target))


@inefficiency("rotary-by-hand", "rotary-by-hand")
def rotary_by_hand(device: str) -> tuple[Step, Step]:
    import torch

    torch.manual_seed(0)
    shape = pick(device, (8, 16, 2048, 128), (2, 4, 64, 32))
    q, k = torch.randn(2, *shape, device=device).unbind()
    angles = torch.randn(shape[2], shape[3] // 2, device=device)
    cos, sin = (torch.cat([part, part], dim=-1) for part in (angles.cos(), angles.sin()))
    rotation = torch.polar(torch.ones_like(angles), angles)

    def by_hand(x: Any) -> Any:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def complex_product(x: Any) -> Any:
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * rotation).flatten(-2)

    return lambda: (by_hand(q), by_hand(k)), lambda: (complex_product(q), complex_product(k))


@inefficiency("expanded-factor", "slow-products")
def expanded_factor(device: str) -> tuple[Step, Step]:
    """One position of each sample cannot be viewed as rows of one matrix: torch expands the weight over the batch,
    which is then read for each sample."""
    import torch
    from torch.nn.functional import linear

    batch, width, vocabulary = pick(device, (32, 2048, 32000), (32, 64, 1000))
    kind = pick(device, torch.bfloat16, torch.float32)
    hidden = torch.randn(batch, 16, width, device=device, dtype=kind)
    weight = torch.randn(vocabulary, width, device=device, dtype=kind)
    return lambda: linear(hidden[:, -1:], weight), lambda: linear(hidden[:, -1], weight)


@inefficiency("unused-logits", "unused-positions")
def unused_logits(device: str) -> tuple[Step, Step]:
    """Only the last position chooses the next token."""
    import torch
    from torch.nn.functional import linear

    batch, length, width, vocabulary = pick(device, (8, 512, 2048, 32000), (2, 32, 64, 1000))
    kind = pick(device, torch.bfloat16, torch.float32)
    hidden = torch.randn(batch, length, width, device=device, dtype=kind)
    weight = torch.randn(vocabulary, width, device=device, dtype=kind)

    def bad() -> Any:
        return linear(hidden, weight).float()[:, -1, :].argmax(dim=-1)

    def good() -> Any:
        return linear(hidden[:, -1], weight).float().argmax(dim=-1)

    return bad, good


@inefficiency("dense-embedding-gradient", "dense-embedding-gradients")
def dense_embedding_gradient(device: str) -> tuple[Step, Step]:
    import torch
    from torch import nn

    rows, width, batch = pick(device, (4_000_000, 128, 4096), (80_000, 16, 64))
    indices = torch.randint(0, rows, (batch,), device=device)

    def training(sparse: bool) -> Step:
        torch.manual_seed(0)
        table = nn.Embedding(rows, width, sparse=sparse, device=device)
        head = nn.Linear(width, 1, device=device)
        optimizers: list[Any] = [torch.optim.Adam(head.parameters(), fused=True)]
        of_table = torch.optim.SparseAdam if sparse else torch.optim.Adam
        optimizers.append(of_table(table.parameters(), **({} if sparse else {"fused": True})))

        def step() -> None:
            for optimizer in optimizers:
                optimizer.zero_grad()
            head(table(indices)).square().mean().backward()
            for optimizer in optimizers:
                optimizer.step()

        return step

    return training(False), training(True)


@inefficiency("padded-batch", "padding")
def padded_batch(device: str) -> tuple[Step, Step]:
    """Texts of a quarter of the longest length, padded to that; and in batches of one length."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    batch, length, width = pick(device, (16, 512, 1024), (4, 64, 32))
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, device=device, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()

    def training(positions: int, used: int) -> Step:
        x = torch.randn(batch, positions, width, device=device)
        hidden = torch.arange(positions, device=device).expand(batch, positions) >= used

        def step() -> None:
            encoder(x, src_key_padding_mask=hidden).sum().backward()
            encoder.zero_grad()

        stated = {"share": 1 - used / positions, "batch": batch, "length": positions}
        return stating(step, tare_padding=stated) if used < positions else step

    return training(length, length // 4), training(length // 4, length // 4)
