"""Speech models of transformers: Whisper."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import LanguageModel
from tare.workloads.registry import workload

FRAMES = 3000
# name -> (width, encoder layers, decoder layers, heads, batch, paper)
MODELS = {
    "hf_Whisper": (384, 4, 4, 6, 8, "Radford et al., Whisper (2022), tiny"),
    "hf_distil_whisper": (1024, 24, 2, 16, 8, "Gandhi et al., Distil-Whisper (2023), medium"),
}


class Whisper(LanguageModel):
    def build(
        self, width: int, encoder_layers: int, decoder_layers: int, heads: int, vocabulary: int, frames: int,
        length: int,
    ) -> Any:  # fmt: skip
        from tare.workloads.networks.wrapped import from_config

        return from_config(
            "WhisperForConditionalGeneration", "WhisperConfig", ("input_features", "decoder_input_ids"),
            vocab_size=vocabulary, d_model=width, encoder_layers=encoder_layers, decoder_layers=decoder_layers,
            encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=4 * width,
            decoder_ffn_dim=4 * width, max_source_positions=frames // 2, max_target_positions=max(length, 448),
            use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
            suppress_tokens=None, begin_suppress_tokens=None,
        )  # fmt: skip

    def inputs(self, batch: int, length: int, vocabulary: int, frames: int = FRAMES, **_: int) -> Batch:
        import torch

        text = super().inputs(batch, length, vocabulary)
        return Batch((torch.randn(batch, 80, frames), *text.args), text.target)


for _name, (_width, _encoder, _decoder, _heads, _batch, _paper) in MODELS.items():
    workload(
        _name,
        domain="speech",
        task="recognition",
        source=f"transformers WhisperForConditionalGeneration; {_paper}",
        differs="no dropout",
        batch=_batch,
        sizes={
            "width": _width, "encoder_layers": _encoder, "decoder_layers": _decoder, "heads": _heads,
            "vocabulary": 51865, "frames": FRAMES, "length": 64,
        },
        smoke={
            "batch": 1, "width": 64, "encoder_layers": 2, "decoder_layers": 2, "heads": 4, "vocabulary": 211,
            "frames": 100, "length": 8,
        },
        requires=("transformers",),
        optimizer="adamw",
    )(Whisper())  # fmt: skip
