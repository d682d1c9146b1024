"""Makes models deterministic and sensitive to their input, without which rungs could not be compared."""

from typing import Any

import torch
from torch import nn

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def still(model: Any) -> Any:
    """Sets all probabilities of dropout and of stochastic depth to zero."""
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
    """Gives small values to weights that a package starts at zero. Whole branches would otherwise compute nothing,
    and parity could not check them. Biases are unchanged."""
    for name, parameter in model.named_parameters():
        if not name.endswith("bias") and not parameter.is_meta and not bool(parameter.detach().any()):
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            else:
                nn.init.constant_(parameter, 0.2)
    return model


def settled(model: Any, *batch: Any) -> Any:
    """Runs the model once on a batch, so that batch norms have its statistics and quantisers its ranges. Without
    it, activations at inference shrink from layer to layer until the output no longer depends on the input, and a
    wrong rung would pass the parity check."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return model
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # the statistics of this batch alone
    with torch.no_grad():
        model.train()(*batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return model


def still_config(config: Any) -> Any:
    """Sets all dropout probabilities of a transformers configuration, and of those nested in it, to zero."""
    for name, value in list(vars(config).items()):
        if isinstance(value, float) and ("drop" in name or name.startswith("mask_time_prob")):
            setattr(config, name, 0.0)
        elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
            still_config(value)
    return config
