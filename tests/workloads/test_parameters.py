"""Full sizes are those of the literature: the number of parameters is the published one. Nothing is allocated."""

import pytest
import torch

from tare.workloads import Size, get_workload

# Millions, from the papers, model cards and package documentation of each.
PUBLISHED = {
    "alexnet": 61.10,
    "conv_tasnet": 5.1,
    "densenet121": 7.98,
    "detectron2_fasterrcnn_r_50_fpn": 41.76,
    "detectron2_fcos_r_50_fpn": 32.27,
    "dit": 675.0,
    "doctr_det_predictor": 25.4,
    "doctr_reco_predictor": 15.8,
    "fambench_xlmr": 560.0,
    "hf_Bart": 139.4,
    "hf_Bert": 110.0,
    "hf_Bert_large": 336.0,
    "hf_BigBird": 128.0,
    "hf_clip": 151.3,
    "hf_distil_whisper": 394.0,
    "hf_DistilBert": 66.4,
    "hf_Electra": 13.7,
    "hf_GPT2": 124.4,
    "hf_GPT2_large": 774.0,
    "hf_Longformer": 149.0,
    "hf_ModernBert": 149.6,
    "hf_Roberta_base": 124.7,
    "hf_Segformer": 3.75,
    "hf_T5": 60.5,
    "hf_T5_base": 222.9,
    "hf_T5_large": 737.7,
    "hf_VideoMAE": 87.0,
    "hf_Whisper": 37.8,
    "hifigan": 13.92,
    "llama_prefill": 1235.8,
    "mamba2": 129.0,
    "mnasnet1_0": 4.38,
    "mobilenet_v2": 3.50,
    "mobilenet_v3_large": 5.48,
    "moe": 1334.0,
    "nanogpt": 124.4,
    "phlippe_densenet": 0.2391,
    "phlippe_resnet": 0.2724,
    "pytorch_stargan": 53.2,
    "pytorch_unet": 31.04,
    "resnet152": 60.19,
    "resnet18": 11.69,
    "resnet50": 25.56,
    "resnext50_32x4d": 25.03,
    "retinanet_r_50_fpn": 34.01,
    "sam": 93.7,
    "shufflenet_v2_x1_0": 2.28,
    "squeezenet1_1": 1.24,
    "stable_diffusion_text_encoder": 123.1,
    "stable_diffusion_unet": 859.5,
    "stable_diffusion_vae": 83.65,
    "Super_SloMo": 39.6,
    "tacotron2": 28.2,
    "timm_convnext": 28.59,
    "timm_efficientdet": 3.9,
    "timm_efficientnet": 5.29,
    "timm_mixer": 59.88,
    "timm_nfnet": 71.49,
    "timm_regnet": 19.44,
    "timm_resnest": 10.61,
    "timm_swin": 28.29,
    "timm_vision_transformer": 22.05,
    "timm_vision_transformer_large": 304.3,
    "timm_vovnet": 6.54,
    "unet3d": 31.19,
    "vgg16": 138.36,
    "vision_maskrcnn": 44.40,
    "wav2vec2": 94.4,
    "yolov3": 61.9,
}
# Where the number is that of a part: the discriminators are not counted.
COUNTED = {"hifigan": "generator"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_has_as_many_parameters_as_published(name: str) -> None:
    workload = get_workload(name)
    # torchvision's detectors are published with 91 classes, with the empty numbers of COCO.
    sizes = workload.defaults | ({"classes": 91} if workload.sizes.get("classes", Size(0)).default == 81 else {})
    with torch.device("meta"):
        model = workload.definition.build(**sizes)
    counted = model.get_submodule(COUNTED.get(name, ""))
    count = sum(parameter.numel() for parameter in counted.parameters()) / 1e6
    assert count == pytest.approx(PUBLISHED[name], rel=0.025)
