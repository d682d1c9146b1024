"""Decoder-only language models: prefill, decoding with a cache, mixture of experts, int8 weights."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import LanguageModel
from tare.workloads.registry import workload

SOURCE = "written here; Grattafiori et al., The Llama 3 Herd of Models (2024), the 1B model of version 3.2"
SIZES = {
    "vocabulary": 128256, "width": 2048, "layers": 16, "heads": 32, "groups": 8, "inner": 8192, "length": 512,
}  # fmt: skip
SMOKE = {
    "batch": 2, "vocabulary": 211, "width": 64, "layers": 2, "heads": 4, "groups": 2, "inner": 128, "length": 16,
}  # fmt: skip
DECODES = {"train": "decoding generates one token at a time; train llama_prefill instead"}


def _llama(
    vocabulary: int, width: int, layers: int, heads: int, groups: int, inner: int, length: int, linear: Any = None
) -> Any:
    from torch import nn

    from tare.workloads.networks.llama import Gated, Llama

    linear = linear or nn.Linear
    return Llama(
        vocabulary, width, layers, heads, groups, length, lambda: Gated(width, inner, linear), linear
    )  # fmt: skip


@workload(
    "llama_prefill",
    domain="nlp",
    task="language modelling",
    source=SOURCE,
    differs="frequencies of the rotary embedding are not rescaled for long contexts",
    batch=1,
    sizes=SIZES,
    smoke=SMOKE,
    tokens="length",
    optimizer="adamw",
    groups=("mlperf",),
    counterpart=("llama",),
)
class Prefill(LanguageModel):
    def build(self, **sizes: int) -> Any:
        return _llama(**sizes)


class Decoding:
    """One token, its position, and a cache of keys and values for all positions."""

    def inputs(
        self, batch: int, vocabulary: int, width: int, layers: int, heads: int, groups: int, length: int, **_: int
    ) -> Batch:
        import torch

        cache = torch.randn(layers, 2, batch, groups, length, width // heads)
        return Batch((torch.randint(vocabulary, (batch, 1)), torch.tensor([length - 1]), cache))


@workload(
    "llama_decode",
    domain="nlp",
    task="generation",
    source=SOURCE,
    differs="decodes one token at the end of a full cache of random keys and values",
    batch=1,
    sizes=SIZES,
    smoke=SMOKE,
    tokens=1,
    groups=("mlperf",),
    unsupported=DECODES,
)
class Decode(Decoding):
    def build(self, **sizes: int) -> Any:
        from tare.workloads.networks.llama import Decode

        return Decode(_llama(**sizes))


@workload(
    "llama_decode_int8",
    domain="nlp",
    task="generation",
    source=f"{SOURCE}, weights of linear layers in int8 with one scale per row",
    differs="weights are rounded to the nearest value without calibration; the embedding is not quantised",
    batch=1,
    sizes=SIZES,
    smoke=SMOKE,
    tokens=1,
    unsupported=DECODES,
)
class DecodeInt8(Decoding):
    def build(self, **sizes: int) -> Any:
        from tare.workloads.networks.int8 import Int8Linear
        from tare.workloads.networks.llama import Decode

        return Decode(_llama(**sizes, linear=Int8Linear))


@workload(
    "moe",
    domain="nlp",
    task="language modelling",
    source="written here; the sizes of IBM's Granite 3.0 1B-A400M (2024): 32 experts, 8 for each token",
    differs="an expert has a capacity of 1.5 times its share of the tokens; tokens beyond that are dropped",
    batch=1,
    sizes={
        "vocabulary": 49155, "width": 1024, "layers": 24, "heads": 16, "groups": 8, "inner": 512, "length": 512,
        "experts": 32, "chosen": 8,
    },
    smoke={**SMOKE, "inner": 32, "experts": 8, "chosen": 2},
    tokens="length",
    optimizer="adamw",
)  # fmt: skip
class MixtureOfExperts(LanguageModel):
    def build(
        self, vocabulary: int, width: int, layers: int, heads: int, groups: int, inner: int, length: int,
        experts: int, chosen: int,
    ) -> Any:  # fmt: skip
        from tare.workloads.networks.llama import Llama
        from tare.workloads.networks.moe import Experts

        return Llama(
            vocabulary, width, layers, heads, groups, length, lambda: Experts(width, inner, experts, chosen)
        )
