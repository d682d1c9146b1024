"""Nothing random in a step: dropout and its like are off, or no two rungs could be compared in training."""

from typing import Any

import torch
from torch import nn

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def still(model: Any) -> Any:
    """The model with every probability of dropping something set to zero."""
    for module in model.modules():
        if isinstance(module, _DROPOUTS):
            module.p = 0.0
        elif isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
            module.dropout = 0.0
        for name in ("drop_prob", "drop_rate", "stochastic_depth_prob"):  # timm's drop path
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if type(module).__name__ == "StochasticDepth":  # torchvision's
            module.p = 0.0
    return model


def awake(model: Any) -> Any:
    """The model with small numbers where a package starts from zero: whole branches would compute nothing, and no
    rung could be proved right or wrong in them. Biases stay as they are."""
    for name, parameter in model.named_parameters():
        if not name.endswith("bias") and not parameter.is_meta and not bool(parameter.detach().any()):
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            else:
                nn.init.constant_(parameter, 0.2)
    return model


def settled(model: Any, *batch: Any) -> Any:
    """The model after one pass over a batch: its norms know the batch, and quantisers the ranges. At inference a
    network that has seen nothing shrinks its activations from layer to layer, until what it gives does not depend
    on what it gets, and a rung that is wrong could be proved right."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return model
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # this batch alone
    with torch.no_grad():
        model.train()(*batch)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return model


def still_config(config: Any) -> Any:
    """The same for a configuration of transformers, and for those inside it."""
    for name, value in list(vars(config).items()):
        if isinstance(value, float) and ("drop" in name or name.startswith("mask_time_prob")):
            setattr(config, name, 0.0)
        elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
            still_config(value)
    return config
