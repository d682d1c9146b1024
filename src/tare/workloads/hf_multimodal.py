"""Models of transformers that combine images with text or with point prompts."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import LanguageModel
from tare.workloads.registry import workload

CLIP = {
    "resolution": 224, "patch": 32, "length": 77, "vocabulary": 49408, "vision_layers": 12, "text_layers": 12,
    "vision_width": 768, "text_width": 512,
}  # fmt: skip
CLIP_SMOKE = {
    "batch": 2, "resolution": 64, "length": 16, "vocabulary": 211, "vision_layers": 2, "text_layers": 2,
    "vision_width": 64, "text_width": 64,
}  # fmt: skip


@workload(
    "hf_clip",
    domain="multimodal",
    task="contrastive pretraining",
    source="transformers CLIPModel; Radford et al., CLIP (2021), ViT-B/32",
    batch=32,
    sizes=CLIP,
    smoke=CLIP_SMOKE,
    requires=("transformers",),
    optimizer="adamw",
)
class Clip:
    def build(
        self, resolution: int, patch: int, length: int, vocabulary: int, vision_layers: int, text_layers: int,
        vision_width: int, text_width: int,
    ) -> Any:  # fmt: skip
        from tare.workloads.networks.wrapped import from_config

        text = {
            "vocab_size": vocabulary, "hidden_size": text_width, "intermediate_size": 4 * text_width,
            "num_hidden_layers": text_layers, "num_attention_heads": text_width // 64,
            "max_position_embeddings": length, "bos_token_id": 0, "eos_token_id": vocabulary - 1,
        }  # fmt: skip
        vision = {
            "image_size": resolution, "patch_size": patch, "hidden_size": vision_width,
            "intermediate_size": 4 * vision_width, "num_hidden_layers": vision_layers,
            "num_attention_heads": vision_width // 64,
        }  # fmt: skip
        return from_config(
            "CLIPModel", "CLIPConfig", ("input_ids", "pixel_values"), "logits_per_text",
            text_config=text, vision_config=vision, projection_dim=512,
        )  # fmt: skip

    def inputs(self, batch: int, resolution: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        tokens = torch.randint(vocabulary - 1, (batch, length))
        tokens[:, -1] = vocabulary - 1
        return Batch((tokens, torch.randn(batch, 3, resolution, resolution)), torch.arange(batch))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return (functional.cross_entropy(output, target) + functional.cross_entropy(output.t(), target)) / 2


@workload(
    "stable_diffusion_text_encoder",
    domain="multimodal",
    task="text encoding",
    source="transformers CLIPTextModel; Radford et al., CLIP (2021), ViT-L/14, as in Stable Diffusion 1",
    batch=16,
    sizes={"length": 77, "vocabulary": 49408, "layers": 12, "width": 768},
    smoke={"batch": 2, "length": 16, "vocabulary": 211, "layers": 2, "width": 64},
    requires=("transformers",),
    unsupported={"train": "Stable Diffusion does not train its text encoder"},
)
class ClipText:
    def build(self, length: int, vocabulary: int, layers: int, width: int) -> Any:
        from tare.workloads.networks.wrapped import from_config

        return from_config(
            "CLIPTextModel", "CLIPTextConfig", field="last_hidden_state", vocab_size=vocabulary,
            hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
            num_attention_heads=width // 64, max_position_embeddings=length, bos_token_id=0,
            eos_token_id=vocabulary - 1,
        )  # fmt: skip

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randint(vocabulary, (batch, length)),))


@workload(
    "llava",
    domain="multimodal",
    task="visual question answering",
    source="transformers LlavaForConditionalGeneration; Liu et al., LLaVA (2023)",
    differs="a language model of the size of TinyLlama (1.1 billion) instead of 7 billion parameters",
    batch=1,
    sizes={
        "resolution": 336, "length": 64, "vocabulary": 32064, "layers": 22, "hidden": 2048, "inner": 5632,
        "heads": 32, "vision_layers": 24, "vision_width": 1024,
    },
    smoke={
        "resolution": 56, "length": 8, "vocabulary": 211, "layers": 2, "hidden": 64, "inner": 128, "heads": 4,
        "vision_layers": 4, "vision_width": 64,
    },
    requires=("transformers",),
    optimizer="adamw",
)  # fmt: skip
class Llava(LanguageModel):
    PATCH = 14

    def build(
        self, resolution: int, vocabulary: int, layers: int, hidden: int, inner: int, heads: int,
        vision_layers: int, vision_width: int, **_: int,
    ) -> Any:  # fmt: skip
        from transformers import CLIPVisionConfig, LlamaConfig

        from tare.workloads.networks.wrapped import from_config

        vision = CLIPVisionConfig(
            image_size=resolution, patch_size=self.PATCH, hidden_size=vision_width, projection_dim=vision_width,
            intermediate_size=4 * vision_width, num_hidden_layers=vision_layers,
            num_attention_heads=vision_width // 64,
        )  # fmt: skip
        text = LlamaConfig(
            vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=max(heads // 8, 1), use_cache=False,
        )  # fmt: skip
        return from_config(
            "LlavaForConditionalGeneration", "LlavaConfig", ("input_ids", "pixel_values"),
            vision_config=vision, text_config=text, image_token_index=vocabulary - 1,
        )  # fmt: skip

    def inputs(self, batch: int, length: int, vocabulary: int, resolution: int = 336, **_: int) -> Batch:
        import torch

        patches = (resolution // self.PATCH) ** 2
        words = super().inputs(batch, length, vocabulary - 1)
        image = torch.full((batch, patches), vocabulary - 1)
        tokens = torch.cat([image, words.args[0]], 1)
        # cross_entropy ignores targets of -100: the positions of the image have no loss.
        target = torch.cat([torch.full((batch, patches), -100), words.target], 1)
        return Batch((tokens, torch.randn(batch, 3, resolution, resolution)), target)


@workload(
    "sam",
    domain="vision",
    task="segmentation",
    source="transformers SamModel; Kirillov et al., Segment Anything (2023), ViT-B",
    differs="ViT-B instead of ViT-H as in TorchBench; the image encoder is initialised with a deviation of 0.02 "
    "instead of transformers' 1e-10, with which the image would not matter; positional frequencies have the "
    "paper's scale of 1 instead of transformers' half width; the prediction of mask quality is not trained",
    batch=1,
    sizes={"resolution": 1024, "layers": 12, "width": 768},
    smoke={"resolution": 128, "layers": 2, "width": 96},
    requires=("transformers",),
    optimizer="adamw",
)
class Sam:
    def build(self, resolution: int, layers: int, width: int) -> Any:
        from transformers import SamMaskDecoderConfig, SamPromptEncoderConfig, SamVisionConfig

        from tare.workloads.networks.still import awake
        from tare.workloads.networks.wrapped import from_config

        step = max(layers // 4, 1)
        vision = SamVisionConfig(
            image_size=resolution, patch_size=16, hidden_size=width, num_hidden_layers=layers, mlp_dim=4 * width,
            num_attention_heads=12, global_attn_indexes=list(range(step - 1, layers, step)), window_size=14,
            initializer_range=0.02,  # with transformers' 1e-10 the image would not matter
        )  # fmt: skip
        # The paper's scale of the positional frequencies. transformers' default is half the width: phases of
        # hundreds of turns, which are noise in any precision below float32.
        vision.scale = 1.0
        prompt = SamPromptEncoderConfig(image_size=resolution, patch_size=16)
        model = from_config(
            "SamModel", "SamConfig", ("pixel_values", "input_points"), "pred_masks",
            vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=SamMaskDecoderConfig(),
        )  # fmt: skip
        return awake(model)

    def inputs(self, batch: int, resolution: int, **_: int) -> Batch:
        import torch

        points = torch.rand(batch, 1, 4, 2) * resolution
        masks = torch.randint(2, (batch, 1, 3, resolution // 4, resolution // 4)).float()
        return Batch((torch.randn(batch, 3, resolution, resolution), points), masks)

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.binary_cross_entropy_with_logits(output, target)
