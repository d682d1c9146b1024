"""A transformers architecture by the name of a configuration, or by a config.json: random weights, no download."""

import hashlib
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from tare.cases.source import ModelDescription, ModelSource
from tare.errors import BadInput, brief
from tare.workloads.base import Batch
from tare.workloads.own.calls import call_by_name
from tare.workloads.own.shapes import draw_inputs, inputs_text, read_shape

# Published configurations, as a model type of transformers and what differs from that type's defaults.
KNOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base-uncased": ("bert", {}),
    "bert-base-cased": ("bert", {"vocab_size": 28996}),
    "bert-large-uncased": (
        "bert",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "distilbert-base-uncased": ("distilbert", {}),
    "roberta-base": ("roberta", {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}),
    "roberta-large": (
        "roberta",
        {
            "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "hidden_size": 1024,
            "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
        },
    ),
    "gpt2": ("gpt2", {}),
    "gpt2-medium": ("gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "gpt2-large": ("gpt2", {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    "gpt2-xl": ("gpt2", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    "distilgpt2": ("gpt2", {"n_layer": 6}),
    "t5-small": ("t5", {}),
    "t5-base": ("t5", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_decoder_layers": 12, "num_heads": 12}),
    "google/vit-base-patch16-224": ("vit", {}),
    "facebook/opt-125m": ("opt", {}),
    "openai/whisper-tiny": (
        "whisper",
        {
            "d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6,
            "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536,
        },
    ),
}  # fmt: skip
# The classes to try, in order: what a model of this type is mostly used as.
HEADS = ("CausalLM", "MaskedLM", "Seq2SeqLM", "ImageClassification", "SpeechSeq2Seq", "AudioClassification")
# Types that read in both directions, although a class for generating exists.
MASKED = ("bert", "roberta", "electra", "xlm-roberta", "camembert", "megatron-bert", "roformer", "data2vec-text")
BATCH, LENGTH = 8, 128


class TransformersModel:
    def __init__(self, source: ModelSource) -> None:
        self.source = source

    @cached_property
    def config(self) -> Any:
        """BadInput if there is none without a download."""
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import AutoConfig
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        name = self.source.location
        try:
            if name.endswith(".json"):
                config = AutoConfig.from_pretrained(name)
            elif name in KNOWN:
                kind, changes = KNOWN[name]
                config = AutoConfig.for_model(kind, **changes)
            elif name in CONFIG_MAPPING:
                config = AutoConfig.for_model(name)
            else:
                # Downloaded earlier, by the user.
                config = AutoConfig.from_pretrained(name, local_files_only=True)
        except Exception as error:
            if name.endswith(".json"):
                raise BadInput(f"{self.source.target}: {type(error).__name__}: {brief(error)}") from error
            known = ", ".join(list(KNOWN)[:6])
            raise BadInput(
                f"{self.source.target} is not here, and nothing is downloaded: name a type of transformers (bert, "
                f"gpt2, llama, ...), a published one ({known}, ...), or a config.json"
            ) from error
        # The output of a step is not kept for the next one.
        config.use_cache = False
        return config

    def build(self, **_: int) -> Any:
        return call_by_name(self._model(), self.names)

    def _model(self) -> Any:
        import transformers

        config = self.config
        declared = next(iter(config.architectures or ()), "")
        if declared and hasattr(transformers, declared):
            return getattr(transformers, declared)(config)
        heads = sorted(HEADS, key=lambda head: head != "MaskedLM") if config.model_type in MASKED else HEADS
        for head in heads:
            auto = getattr(transformers, f"AutoModelFor{head}", None)
            if auto is not None and type(config) in auto._model_mapping:
                return auto.from_config(config)
        return transformers.AutoModel.from_config(config)

    @cached_property
    def names(self) -> tuple[str, ...]:
        if self.source.shapes:
            shapes = [read_shape(text) for text in self.source.shapes]
            return tuple(shape.name for shape in shapes) if all(shape.name for shape in shapes) else ()
        return tuple(self._shapes(1, 8))

    def _shapes(self, batch: int, length: int) -> dict[str, str]:
        """The inputs of a model by what its configuration has."""
        config = self.config
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        words = getattr(text, "vocab_size", None) or getattr(config, "vocab_size", None)
        tokens = f"{batch}x{length}:int64<{words}"
        if getattr(config, "num_mel_bins", None) and getattr(config, "max_source_positions", None):
            frames = 2 * config.max_source_positions
            return {"input_features": f"{batch}x{config.num_mel_bins}x{frames}", "decoder_input_ids": tokens}
        if getattr(config, "conv_kernel", None) and getattr(config, "feat_extract_norm", None):
            return {"input_values": f"{batch}x16000"}
        if getattr(config, "image_size", None) and not words:
            size = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
            return {"pixel_values": f"{batch}x{getattr(config, 'num_channels', 3)}x{size}x{size}"}
        if words and getattr(config, "is_encoder_decoder", False):
            return {"input_ids": tokens, "decoder_input_ids": tokens}
        if words and not getattr(config, "vision_config", None):
            return {"input_ids": tokens}
        raise BadInput(f"{self.source.target}: say what it takes: --input input_ids=8x128:int64<30522")

    def inputs(self, batch: int, length: int = LENGTH, **_: int) -> Batch:
        import torch

        texts = self.source.shapes or tuple(self._shapes(batch, length).values())
        args = draw_inputs([read_shape(text) for text in texts], batch)
        if self._classes is None:
            return Batch(args, torch.randint(0, int(args[-1].max()) + 1, args[-1].shape))
        return Batch(args, torch.randint(0, self._classes, (batch,)))

    @property
    def _classes(self) -> int | None:
        """Of a model that classifies images or sounds; None for one that predicts words."""
        return None if self.names[-1:] and "ids" in self.names[-1] else int(self.config.num_labels)

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        logits = output["logits"] if "logits" in output else output[0]
        return functional.cross_entropy(logits.flatten(0, -2), target.flatten())

    def describe(self) -> ModelDescription:
        import torch

        has_length = not self.source.shapes and any("ids" in name for name in self.names)
        length = min(LENGTH, int(getattr(self.config, "max_position_embeddings", LENGTH) or LENGTH))
        shapes = [read_shape(text) for text in self.source.shapes or self._shapes(BATCH, length).values()]
        with torch.device("meta"):
            output = self._model()
        trains = hasattr(output, "get_output_embeddings") and output.get_output_embeddings() is not None
        location = Path(self.source.location)
        config = location.read_bytes() if location.suffix == ".json" else b""
        return ModelDescription(
            batch=shapes[0].sizes[0],
            inputs=inputs_text(shapes) if self.source.shapes else None,
            digest=hashlib.sha256(config).hexdigest()[:8] if config else None,
            sizes={"length": length} if has_length else {},
            trains=trains or self._classes is not None,
            requires=("transformers",),
            tokens="length" if has_length else "",
        )
