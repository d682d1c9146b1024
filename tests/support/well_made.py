"""Small transformers as they should be written: fused attention, norms, activations and losses, a cache that is
written in place, the last position alone for the next token, one optimizer kernel. No rule has anything to say of
them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy, rms_norm, scaled_dot_product_attention, silu

Step = Callable[[], Any]


class Scale(NamedTuple):
    batch: int = 4
    length: int = 64
    width: int = 64
    heads: int = 4
    words: int = 500
    depth: int = 2
    device: str = "cpu"
    kind: torch.dtype = torch.float32

    def tokens(self, more: int = 0) -> Any:
        return torch.randint(0, self.words, (self.batch, self.length + more), device=self.device)

    def visible(self) -> Any:
        """Which positions are no padding."""
        return torch.rand(self.batch, 1, 1, self.length, device=self.device) < 0.9

    def images(self) -> Any:
        side = 4 * int(self.length**0.5)
        return torch.randn(self.batch, 3, side, side, device=self.device, dtype=self.kind)


SMALL = Scale()
WELL_MADE: dict[str, Callable[[Scale], Step]] = {}


def well_made(make: Callable[[Scale], Step]) -> Callable[[Scale], Step]:
    WELL_MADE[make.__name__.replace("_", "-")] = make
    return make


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, scale: Scale, causal: bool) -> None:
        super().__init__()
        width = scale.width
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = scale.heads, causal

    def forward(self, x: Any, hidden: Any = None) -> Any:
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=hidden, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):  # type: ignore[misc]
    """Of GPT, BERT and ViT alike, with the norm first."""

    def __init__(self, scale: Scale, causal: bool) -> None:
        super().__init__()
        width = scale.width
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(scale, causal)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any, hidden: Any = None) -> Any:
        x = x + self.attention(self.first(x), hidden)
        return x + self.inner(self.second(x))


class Language(nn.Module):  # type: ignore[misc]
    """GPT (causal) and BERT, with tied weights."""

    def __init__(self, scale: Scale, causal: bool) -> None:
        super().__init__()
        width = scale.width
        self.words, self.places = nn.Embedding(scale.words, width), nn.Embedding(scale.length, width)
        self.blocks = nn.ModuleList(Block(scale, causal) for _ in range(scale.depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, scale.words, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("order", torch.arange(scale.length))

    def forward(self, tokens: Any, hidden: Any = None, last: bool = False) -> Any:
        x = self.words(tokens) + self.places(self.order[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x, hidden)
        return self.head(self.norm(x[:, -1] if last else x))


class Vision(nn.Module):  # type: ignore[misc]
    def __init__(self, scale: Scale) -> None:
        super().__init__()
        width = scale.width
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, scale.length + 1, width))
        self.blocks = nn.ModuleList(Block(scale, causal=False) for _ in range(scale.depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 16)

    def forward(self, images: Any) -> Any:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], dim=1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class LlamaBlock(nn.Module):  # type: ignore[misc]
    def __init__(self, scale: Scale) -> None:
        super().__init__()
        width = scale.width
        self.heads = scale.heads
        self.norms = nn.ParameterList(torch.ones(width) for _ in range(2))
        self.q, self.kv, self.out = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any, rotation: Any, cache: Any = None, at: int = 0) -> Any:
        y = rms_norm(x, x.shape[-1:], self.norms[0])
        q = rotate(self.q(y).unflatten(-1, (self.heads, -1)), rotation).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2, self.heads // 2, -1)).unbind(2)
        k, v = rotate(k, rotation).transpose(1, 2), v.transpose(1, 2)
        if cache is not None:
            cache[0][:, :, at : at + 1], cache[1][:, :, at : at + 1] = k, v
            k, v = (part[:, :, : at + 1] for part in cache)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = rms_norm(x, x.shape[-1:], self.norms[1])
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):  # type: ignore[misc]
    def __init__(self, scale: Scale) -> None:
        super().__init__()
        width = scale.width
        self.words, self.head = nn.Embedding(scale.words, width), nn.Linear(width, scale.words, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(scale) for _ in range(scale.depth))
        self.norm = nn.Parameter(torch.ones(width))
        rates = torch.arange(width // scale.heads // 2).neg().exp()
        angles = torch.outer(torch.arange(4 * scale.length), rates).to(scale.device)
        # No buffer: complex numbers keep their type.
        self.rotation = torch.polar(torch.ones_like(angles), angles)

    def forward(self, tokens: Any, caches: Any = None, at: int = 0) -> Any:
        x = self.words(tokens)
        rotation = self.rotation[at : at + tokens.shape[1], None]
        for number, block in enumerate(self.blocks):
            x = block(x, rotation, caches[number] if caches else None, at)
        return self.head(rms_norm(x, x.shape[-1:], self.norm))


def rotate(x: Any, rotation: Any) -> Any:
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)


def training(model: nn.Module, loss: Callable[[], Any], **options: Any) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    return step


def inferring(forward: Callable[[], Any]) -> Step:
    def step() -> None:
        with torch.no_grad():
            forward()

    return step


def next_token(scale: Scale, model: nn.Module) -> Callable[[], Any]:
    text = scale.tokens(more=1)
    return lambda: cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


@well_made
def gpt_training(scale: Scale) -> Step:
    model = Language(scale, causal=True).to(scale.device, scale.kind)
    return training(model, next_token(scale, model), fused=True)


@well_made
def gpt_compiled_training(scale: Scale) -> Step:
    model = Language(scale, causal=True).to(scale.device, scale.kind)
    return training(model, next_token(scale, torch.compile(model)), fused=True)


@well_made
def gpt_prefill(scale: Scale) -> Step:
    model, text = Language(scale, causal=True).to(scale.device, scale.kind).eval(), scale.tokens()
    return inferring(lambda: model(text, last=True).argmax(-1))


@well_made
def bert_training(scale: Scale) -> Step:
    model, text = Language(scale, causal=False).to(scale.device, scale.kind), scale.tokens()
    visible, target = scale.visible(), torch.where(torch.rand_like(text, dtype=torch.float32) < 0.15, text, -100)
    return training(
        model, lambda: cross_entropy(model(text, visible).flatten(0, 1), target.flatten()), foreach=True
    )


@well_made
def bert_inference(scale: Scale) -> Step:
    model, text = Language(scale, causal=False).to(scale.device, scale.kind).eval(), scale.tokens()
    visible = scale.visible()
    return inferring(lambda: model(text, visible).log_softmax(-1))


@well_made
def vit_training(scale: Scale) -> Step:
    model, images = Vision(scale).to(scale.device, scale.kind), scale.images()
    target = torch.randint(0, 16, (scale.batch,), device=scale.device)
    return training(model, lambda: cross_entropy(model(images), target, label_smoothing=0.1), fused=True)


@well_made
def vit_inference(scale: Scale) -> Step:
    model, images = Vision(scale).to(scale.device, scale.kind).eval(), scale.images()
    return inferring(lambda: model(images).softmax(-1))


@well_made
def llama_training(scale: Scale) -> Step:
    model = Llama(scale).to(scale.device, scale.kind)
    return training(model, next_token(scale, model), fused=True)


@well_made
def llama_decoding(scale: Scale) -> Step:
    """Each step writes one token's keys and values into the cache, and reads what is there."""
    model = Llama(scale).to(scale.device, scale.kind).eval()
    shape = 2, scale.batch, scale.heads // 2, 4 * scale.length, scale.width // scale.heads
    caches = [torch.zeros(shape, device=scale.device, dtype=scale.kind) for _ in model.blocks]
    state = {"at": scale.length, "token": scale.tokens()[:, :1]}

    def step() -> None:
        logits = model(state["token"], caches, state["at"])
        state["token"], state["at"] = logits[:, -1].argmax(-1, keepdim=True), state["at"] + 1

    return inferring(step)
