"""Encoder-decoder models of transformers, and the Reformer."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.kinds import Translator
from tare.workloads.registry import workload

SMOKE = {"batch": 2, "vocabulary": 211, "hidden": 64, "layers": 2, "heads": 4, "inner": 128, "length": 16}
T5 = {
    "hf_T5": (512, 6, 8, 2048, 8, "small"),
    "hf_T5_base": (768, 12, 12, 3072, 4, "base"),
    "hf_T5_large": (1024, 24, 16, 4096, 2, "large"),
}


@dataclass(frozen=True)
class T5Model(Translator):
    def build(self, vocabulary: int, hidden: int, layers: int, heads: int, inner: int, **_: int) -> Any:
        from tare.workloads.networks.wrapped import from_config

        return from_config(
            "T5ForConditionalGeneration", "T5Config", ("input_ids", "decoder_input_ids"),
            vocab_size=vocabulary, d_model=hidden, num_layers=layers, num_heads=heads, d_ff=inner,
            d_kv=hidden // heads, use_cache=False, decoder_start_token_id=0,
        )  # fmt: skip


for _name, (_hidden, _layers, _heads, _inner, _batch, _variant) in T5.items():
    workload(
        _name,
        domain="nlp",
        task="language modelling",
        source=f"transformers T5ForConditionalGeneration; Raffel et al., T5 (2019), {_variant}",
        differs="no dropout",
        batch=_batch,
        sizes={
            "vocabulary": 32128,
            "hidden": _hidden,
            "layers": _layers,
            "heads": _heads,
            "inner": _inner,
            "length": 512,
        },
        smoke=SMOKE,
        tokens="length",
        requires=("transformers",),
        optimizer="adamw",
    )(T5Model())


@workload(
    "hf_T5_generate",
    domain="nlp",
    task="generation",
    source="transformers T5ForConditionalGeneration.generate; Raffel et al., T5 (2019), small",
    differs="always generates the same number of tokens: no token ends the text",
    batch=1,
    sizes={
        "vocabulary": 32128, "hidden": 512, "layers": 6, "heads": 8, "inner": 2048, "length": 128, "written": 32,
    },
    smoke={**SMOKE, "written": 4},
    tokens="written",
    requires=("transformers",),
    unsupported={
        "train": "generation selects tokens, which has no gradient",
        "torchscript": "the loop over tokens is in Python: a trace would keep the tokens of one text",
    },
)  # fmt: skip
class T5Generate:
    def build(self, written: int, **sizes: int) -> Any:
        from tare.workloads.networks.generation import Generate

        return Generate(T5Model().build(**sizes).model, written)

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randint(2, vocabulary, (batch, length)),))


@workload(
    "hf_Bart",
    domain="nlp",
    task="language modelling",
    source="transformers BartForConditionalGeneration; Lewis et al., BART (2019), base",
    differs="no dropout",
    batch=4,
    sizes={
        "vocabulary": 50265, "hidden": 768, "layers": 6, "heads": 12, "inner": 3072,
        "length": Size(512, maximum=1024),
    },
    smoke=SMOKE,
    tokens="length",
    requires=("transformers",),
    optimizer="adamw",
)  # fmt: skip
class Bart(Translator):
    def build(self, vocabulary: int, hidden: int, layers: int, heads: int, inner: int, **_: int) -> Any:
        from tare.workloads.networks.wrapped import from_config

        return from_config(
            "BartForConditionalGeneration", "BartConfig", ("input_ids", "decoder_input_ids"),
            vocab_size=vocabulary, d_model=hidden, encoder_layers=layers, decoder_layers=layers,
            encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=inner,
            decoder_ffn_dim=inner, use_cache=False,
        )  # fmt: skip


@workload(
    "hf_Reformer",
    domain="nlp",
    task="language modelling",
    source="transformers ReformerModelWithLMHead; Kitaev et al., Reformer (2020), the model for enwik8",
    differs="no dropout; the random rotations of the hashing are drawn once instead of in each step; texts of "
    "1024 instead of 65536 characters, in chunks of 64; every second layer has local attention",
    batch=4,
    sizes={"vocabulary": 258, "hidden": 1024, "layers": 12, "heads": 8, "inner": 4096, "length": 1024},
    smoke={**SMOKE, "vocabulary": 211, "length": 128},
    tokens="length",
    requires=("transformers",),
    optimizer="adamw",
    unsupported={
        "torchscript": "its reversible layers are a Python autograd function, which cannot be traced",
        "compile/infer": "a NumPy scalar in the model fails Dynamo's own guard in inference mode (torch 2.10)",
    },
)
class Reformer(Translator):
    def build(
        self, vocabulary: int, hidden: int, layers: int, heads: int, inner: int, length: int, **_: int
    ) -> Any:
        from tare.workloads.networks.hashing import fix_rotations
        from tare.workloads.networks.wrapped import from_config

        rows = 32 if length % 32 == 0 else 1
        model = from_config(
            "ReformerModelWithLMHead", "ReformerConfig", vocab_size=vocabulary, hidden_size=hidden,
            attn_layers=["local", "lsh"] * (layers // 2), num_hashes=2, num_buckets=max(2 * length // 64, 2),
            num_attention_heads=heads, feed_forward_size=inner,
            attention_head_size=hidden // heads, axial_pos_shape=(rows, length // rows),
            axial_pos_embds_dim=(hidden // 4, hidden - hidden // 4), local_attn_chunk_length=64,
            lsh_attn_chunk_length=64,
            max_position_embeddings=length, is_decoder=True, use_cache=False,
        )  # fmt: skip
        return fix_rotations(model)

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        translation = super().inputs(batch, length, vocabulary)
        # The Reformer has no encoder: it takes the target text alone.
        return Batch((translation.args[1],), translation.target)
