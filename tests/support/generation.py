"""A small decoder that generates text with a cache, recorded by torch's profiler."""

from pathlib import Path
from typing import Any

VOCABULARY, WIDTH, HEADS, LAYERS = 300, 64, 4, 2


def make_decoder() -> Any:
    import torch
    from torch.nn import functional

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inwards, self.outwards = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Any, cache: dict[Any, Any]) -> Any:
            batch, length, _ = x.shape
            parts = self.inwards(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            query, key, value = parts[0], parts[1], parts[2]
            if self in cache:
                key, value = (torch.cat(pair, 2) for pair in zip(cache[self], (key, value), strict=True))
            cache[self] = key, value
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
            return x + self.outwards(mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    class Decoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
            self.head = torch.nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens: Any, cache: dict[Any, Any]) -> Any:
            x = self.tokens(tokens)
            for layer in self.layers:
                x = layer(x, cache)
            return self.head(x[:, -1:])

    return Decoder().eval()


def record_generation(path: Path, device: str, batch: int, prompt: int, tokens: int, stacks: bool) -> Path:
    """Greedy decoding of so many tokens, the first of which the prefill makes."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    decoder = make_decoder().to(device)

    def generate() -> None:
        cache: dict[Any, Any] = {}
        given = torch.randint(VOCABULARY, (batch, prompt), device=device)
        for _ in range(tokens):
            given = decoder(given, cache).argmax(-1)
        given.cpu()

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with torch.inference_mode():
        generate()
        with profile(
            activities=activities, record_shapes=True, profile_memory=True, with_stack=stacks
        ) as profiler:
            generate()
    profiler.export_chrome_trace(str(path))
    return path
