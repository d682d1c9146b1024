"""Language models of transformers, each from the configuration of its paper; names follow TorchBench."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tare.workloads.base import Batch, Size
from tare.workloads.kinds import LanguageModel
from tare.workloads.registry import workload


@dataclass(frozen=True)
class Hf(LanguageModel):
    """`names` maps a size to its name in the configuration ("" if it has none); `fixed` holds other options."""

    model: str
    config: str
    names: Mapping[str, str]
    fixed: Mapping[str, Any]
    arguments: ClassVar[tuple[str, ...]] = ("input_ids",)

    def build(self, **sizes: int) -> Any:
        from tare.workloads.networks.wrapped import from_config

        values: dict[str, Any] = {
            self.names.get(name, name): value for name, value in sizes.items() if self.names.get(name) != ""
        }
        return from_config(self.model, self.config, self.arguments, **self.fixed, **values, use_cache=False)


class Longformer(Hf):
    """The batch says which positions attend to all others."""

    arguments = ("input_ids", "global_attention_mask")

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        text = super().inputs(batch, length, vocabulary)
        global_attention = torch.zeros(batch, length, dtype=torch.long)
        global_attention[:, 0] = 1
        return Batch((*text.args, global_attention), text.target)


BERT = {
    "vocabulary": "vocab_size",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "length": "",
}
GPT2 = {"vocabulary": "vocab_size", "hidden": "n_embd", "layers": "n_layer", "heads": "n_head", "length": ""}
DISTIL = {
    "vocabulary": "vocab_size", "hidden": "dim", "layers": "n_layers", "heads": "n_heads", "inner": "hidden_dim",
    "length": "",
}  # fmt: skip
SMOKE = {"batch": 2, "vocabulary": 211, "hidden": 64, "layers": 2, "heads": 4, "inner": 128, "length": 32}


Sizes = dict[str, int | Size]


def _sizes(
    vocabulary: int, hidden: int, layers: int, heads: int, inner: int, length: int, positions: int = 512
) -> Sizes:
    """`positions` is the number of position embeddings, and so the longest text."""
    return {
        "vocabulary": vocabulary, "hidden": hidden, "layers": layers, "heads": heads, "inner": inner,
        "length": Size(length, maximum=positions),
    }  # fmt: skip


def _register(name: str, definition: Hf, sizes: Sizes, paper: str, batch: int = 8, **metadata: Any) -> None:
    smoke = {key: value for key, value in SMOKE.items() if key == "batch" or key in sizes} | metadata.pop(
        "smoke", {}
    )
    unmasked = "the loss covers all positions, not only masked ones" if "Masked" in definition.model else ""
    workload(
        name,
        domain="nlp",
        task="language modelling",
        source=f"transformers {definition.model}; {paper}",
        differs="; ".join(filter(None, ("no dropout", unmasked, metadata.pop("differs", "")))),
        batch=batch,
        sizes=sizes,
        smoke=smoke,
        tokens="length",
        requires=("transformers",),
        optimizer="adamw",
        **metadata,
    )(definition)


_register(
    "hf_Albert",
    Hf("AlbertForMaskedLM", "AlbertConfig", BERT, {"embedding_size": 128}),
    _sizes(30000, 768, 12, 12, 3072, 512),
    "Lan et al., ALBERT (2019), base",
)
_register(
    "hf_Bert",
    Hf("BertForMaskedLM", "BertConfig", BERT, {}),
    _sizes(30522, 768, 12, 12, 3072, 512),
    "Devlin et al., BERT (2018), base",
    batch=4,
)
_register(
    "hf_Bert_large",
    Hf("BertForMaskedLM", "BertConfig", BERT, {}),
    _sizes(30522, 1024, 24, 16, 4096, 512),
    "Devlin et al., BERT (2018), large",
    batch=4,
    groups=("mlperf",),
)
_register(
    "hf_Roberta_base",
    Hf("RobertaForMaskedLM", "RobertaConfig", BERT, {"max_position_embeddings": 514}),
    _sizes(50265, 768, 12, 12, 3072, 512),
    "Liu et al., RoBERTa (2019), base",
    batch=4,
)
_register(
    "fambench_xlmr",
    Hf("XLMRobertaForMaskedLM", "XLMRobertaConfig", BERT, {"max_position_embeddings": 514}),
    _sizes(250002, 1024, 24, 16, 4096, 256),
    "Conneau et al., XLM-R (2019), large",
    batch=4,
)
_register(
    "hf_DistilBert",
    Hf("DistilBertForMaskedLM", "DistilBertConfig", DISTIL, {}),
    _sizes(30522, 768, 6, 12, 3072, 512),
    "Sanh et al., DistilBERT (2019)",
)
_register(
    "hf_Electra",
    Hf("ElectraForMaskedLM", "ElectraConfig", BERT, {"embedding_size": 128}),
    _sizes(30522, 256, 12, 4, 1024, 512),
    "Clark et al., ELECTRA (2020), small",
)
_register(
    "hf_ModernBert",
    Hf(
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        BERT,
        {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    _sizes(50368, 768, 22, 12, 1152, 1024, 8192),
    "Warner et al., ModernBERT (2024), base",
)
_register(
    "hf_GPT2",
    Hf("GPT2LMHeadModel", "GPT2Config", GPT2, {"bos_token_id": 0, "eos_token_id": 0}),
    {"vocabulary": 50257, "hidden": 768, "layers": 12, "heads": 12, "length": Size(512, maximum=1024)},
    "Radford et al., GPT-2 (2019)",
    batch=4,
    counterpart=("hf_public_text_generator1",),
)
_register(
    "hf_GPT2_large",
    Hf("GPT2LMHeadModel", "GPT2Config", GPT2, {"bos_token_id": 0, "eos_token_id": 0}),
    {"vocabulary": 50257, "hidden": 1280, "layers": 36, "heads": 20, "length": Size(512, maximum=1024)},
    "Radford et al., GPT-2 large (2019)",
    batch=4,
    counterpart=("hf_public_text_generator1_large",),
)
_register(
    "hf_BigBird",
    Hf("BigBirdForMaskedLM", "BigBirdConfig", BERT | {"block": "block_size"}, {"num_random_blocks": 3}),
    # transformers uses full attention for texts of eleven blocks or fewer.
    _sizes(50358, 768, 12, 12, 3072, 1024, 4096) | {"block": 64},
    "Zaheer et al., Big Bird (2020), base",
    batch=2,
    smoke={"length": 256, "block": 16},
)
_register(
    "hf_Longformer",
    Longformer(
        "LongformerForMaskedLM",
        "LongformerConfig",
        BERT,
        {"max_position_embeddings": 4098, "attention_window": 64},
    ),
    _sizes(50265, 768, 12, 12, 3072, 1024, 4096),
    "Beltagy et al., Longformer (2020), base",
    batch=2,
    smoke={"length": 128},
    differs="an attention window of 64 instead of 512, because sequences have 1024 tokens instead of 4096; the "
    "first position has global attention",
)
