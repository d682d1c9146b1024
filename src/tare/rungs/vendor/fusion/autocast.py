"""Autocast in a trace: casts the arguments of an exported program's operators by torch's rules for CUDA.

torch decides by the dispatcher's key of the device, which a trace on the CPU does not have; torch's rules for the
CPU are others (aten/src/ATen/autocast_mode.h). Weights stay in float32, and their gradients with them."""

from typing import Any

# Computed in the half type.
HALF = frozenset({
    "_convolution", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution", "einsum",
    "gru", "gru_cell", "linalg_multi_dot", "linalg_vecdot", "linear", "lstm", "lstm_cell", "matmul", "mm", "mv",
    "prelu", "rnn_relu", "rnn_tanh", "scaled_dot_product_attention",
})  # fmt: skip
# Computed in float32. Cross entropy is a log-softmax and a likelihood, which are.
FLOAT32 = frozenset({
    "acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy_loss", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1",
    "frobenius_norm", "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm",
    "linalg_matrix_norm", "linalg_vector_norm", "log", "log10", "log1p", "log2", "log_softmax", "logsumexp",
    "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "native_group_norm",
    "native_layer_norm", "nll_loss", "nll_loss2d", "nll_loss_nd", "norm", "nuclear_norm", "pdist",
    "poisson_nll_loss", "pow", "prod", "reciprocal", "renorm", "rms_norm", "rsqrt", "sinh", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softplus", "sum", "tan", "triplet_margin_loss", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "upsample_trilinear3d",
})  # fmt: skip
# Computed in the widest type of their arguments.
WIDEST = frozenset({
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "index_put", "scatter_add",
    "tensordot", "vdot",
})  # fmt: skip


def interpreter_class(half: Any) -> Any:
    """What runs a program operator by operator; with a half type, as under autocast with it."""
    import torch
    from torch.utils import _pytree as pytree

    if half is None:
        return torch.fx.Interpreter

    class Autocast(torch.fx.Interpreter):  # type: ignore[misc]
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            name = str(target).removeprefix("aten.").partition(".")[0]
            if name == "_assert_tensor_metadata":
                # It remembers the types of the export, which had no autocast.
                return None
            wanted = half if name in HALF else torch.float32 if name in FLOAT32 else None
            if name in WIDEST:
                leaves = pytree.tree_leaves((args, kwargs))
                wide = any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32 for leaf in leaves)
                wanted = torch.float32 if wide else half
            if wanted is not None:
                args, kwargs = pytree.tree_map(lambda leaf: cast(leaf, wanted), (args, kwargs))
            return super().call_function(target, args, kwargs)

    def cast(leaf: Any, dtype: Any) -> Any:
        is_float = isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.float32, half)
        return leaf.to(dtype) if is_float else leaf

    return Autocast
