"""A step as one graph of core ATen operators: the forward pass, or the forward and the backward pass of a loss."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tare.errors import Unsupported, brief
from tare.rungs.vendor.fusion.autocast import interpreter_class
from tare.rungs.vendor.lowering.origin import BACKWARD


class TracedStep(NamedTuple):
    """The graph's placeholders are the parameters, the buffers and the batch, in this order. Its results are the
    outputs, the gradients of the trained parameters, and the buffers and the batch as the step leaves them."""

    graph: Any
    parameters: dict[str, Any]
    buffers: dict[str, Any]
    outputs: int
    trained: list[str]
    changed: list[str]
    changed_inputs: list[int]


def trace(
    exported: Any, module: Any, tensors: tuple[Any, ...], trains: bool, autocast: str | None = None
) -> TracedStep:
    """`exported` is the program of the module, whose Python code is not run again. `autocast` is the half type of
    the arithmetic, where it has one."""
    import torch
    from torch.export.graph_signature import InputKind, OutputKind
    from torch.func import functionalize, grad_and_value
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.traceback import preserve_node_meta
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if trains and any("batch_norm" in str(node.target) for node in exported.graph.nodes):
        # A batch norm that updates its statistics in place cannot be differentiated.
        exported = exported.run_decompositions({})
    signature = exported.graph_signature
    parameters, first_name = _once(module.named_parameters(remove_duplicate=False))
    buffers, first_buffer = _once(module.named_buffers(remove_duplicate=False))
    first_name |= first_buffer
    trained = [name for name, parameter in parameters.items() if trains and parameter.requires_grad]
    counts: list[int] = []
    half = None if autocast is None else getattr(torch, autocast)

    def outputs_of(weights: dict[str, Any], state: dict[str, Any], batch: list[Any]) -> list[Any]:
        """The results of the program. What it changes is in `state` and `batch` afterwards."""
        remaining = iter(batch)
        users = [spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
        arguments = []
        for spec in signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                arguments.append(next(remaining))
            else:
                name = first_name.get(spec.target, spec.target)
                known = weights.get(name, state.get(name))
                arguments.append(exported.constants[spec.target] if known is None else known)
        # Node by node, so that every operator of the trace knows the module that it came from.
        results = run_with_modules(exported.graph_module, half, arguments)
        outputs = []
        for spec, result in zip(signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                state[first_name.get(spec.target, spec.target)] = result
            elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                batch[users.index(spec.target)] = result
            elif spec.kind is not OutputKind.USER_OUTPUT:
                raise Unsupported(f"a forward pass that changes a weight ({spec.target})")
            elif isinstance(result, torch.Tensor):
                outputs.append(result)
        return outputs

    def run(weights: dict[str, Any], state: dict[str, Any], batch: list[Any]) -> list[Any]:
        state, batch = dict(state), list(batch)
        if not trains:
            with torch.no_grad():
                outputs = outputs_of(weights, state, batch)
            counts.append(len(outputs))
            return [*outputs, *state.values(), *batch]

        def loss_of(chosen: dict[str, Any], state: dict[str, Any], batch: list[Any]) -> Any:
            state, batch = dict(state), list(batch)
            loss = outputs_of({**weights, **chosen}, state, batch)[0]
            return loss, (state, batch)

        chosen = {name: weights[name] for name in trained}
        gradients, (loss, (state, batch)) = grad_and_value(loss_of, has_aux=True)(chosen, state, batch)
        forget_module()
        counts.append(1)
        return [loss, *(gradients[name] for name in trained), *state.values(), *batch]

    # Scaled dot products as products and a softmax, which become strided calls and one kernel. Tensors without
    # memory (fake), because only shapes and types matter; without oneDNN, whose layers are no core operators.
    no_onednn = torch.backends.mkldnn.flags(enabled=False)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH), preserve_node_meta(), no_onednn:
        warnings.simplefilter("ignore")
        try:
            traced = make_fx(
                functionalize(run, remove="mutations_and_views"),
                decomposition_table=decompositions(),
                tracing_mode="fake",
                # What the exported program keeps as a constant has numbers.
                _allow_non_fake_inputs=True,
            )(parameters, buffers, list(tensors))
        except Unsupported:
            raise
        except Exception as error:  # torch raises whatever the module's own code runs into
            raise Unsupported(f"it cannot be traced: {brief(error)}") from error
    traced.graph.eliminate_dead_code()
    # What a step does not change is its own placeholder afterwards. Nothing reads how many batches there were.
    placeholders = [node for node in traced.graph.nodes if node.op == "placeholder"][len(parameters) :]
    after = traced.graph.output_node().args[0][counts[0] + len(trained) :]
    changed = [
        place for place, (before, now) in enumerate(zip(placeholders, after, strict=True)) if before is not now
    ]
    names = list(buffers)
    return TracedStep(
        traced.graph,
        parameters,
        buffers,
        counts[0],
        trained,
        [names[at] for at in changed if at < len(names) and not names[at].endswith("num_batches_tracked")],
        [at - len(names) for at in changed if at >= len(names)],
    )


def _once(named: Iterable[tuple[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Every tensor under its first name, and the first name of each name: tied weights are one tensor."""
    tensors: dict[str, Any] = {}
    first: dict[str, str] = {}
    by_identity: dict[int, str] = {}
    for name, tensor in named:
        first[name] = by_identity.setdefault(id(tensor), name)
        tensors.setdefault(first[name], tensor)
    return tensors, first


def run_with_modules(module: Any, half: Any, arguments: Sequence[Any]) -> Any:
    """Runs a graph node by node, under autocast with a half type if there is one, and tells the gradient of every
    operator which module the operator came from."""
    import torch
    from torch.fx import traceback
    from torch.utils import _pytree as pytree

    known: set[Any] = set()

    class ModuleKeeper(interpreter_class(half)):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            meta = {"nn_module_stack": n.meta.get("nn_module_stack") or {}, "custom": BACKWARD}
            pending = [leaf.grad_fn for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            while pending:
                function = pending.pop()
                if function is not None and function not in known:
                    known.add(function)
                    # Autograd calls it before it computes this gradient, whose nodes get the fields.
                    function.register_prehook(lambda _: traceback.current_meta.update(meta))
                    pending += [following for following, _ in function.next_functions]
            return result

    return ModuleKeeper(module).run(*arguments)


def forget_module() -> None:
    """What follows the gradients in the trace belongs to no module."""
    from torch.fx import traceback

    for field in ("nn_module_stack", "custom"):
        traceback.current_meta.pop(field, None)


def decompositions() -> dict[Any, Any]:
    """Core ATen, and beyond it whatever is a handful of elementwise operators and reductions."""
    import torch
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    more = (
        "_euclidean_dist", "_fused_rms_norm", "_fused_rms_norm_backward", "_log_softmax",
        "_log_softmax_backward_data", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training", "_softmax", "_softmax_backward_data", "_unsafe_index", "addcdiv",
        "addcmul", "binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits",
        "elu", "elu_backward", "gelu", "gelu_backward", "glu", "glu_backward", "grid_sampler_2d", "hardsigmoid",
        "hardsigmoid_backward", "hardswish", "hardswish_backward", "hardtanh", "hardtanh_backward", "huber_loss",
        "huber_loss_backward", "leaky_relu", "leaky_relu_backward", "lerp", "linalg_vector_norm",
        "log_sigmoid_backward", "log_sigmoid_forward", "logit", "logsumexp", "masked_fill", "mish", "mse_loss",
        "mse_loss_backward", "native_batch_norm", "native_batch_norm_backward", "native_group_norm",
        "native_group_norm_backward", "native_layer_norm", "native_layer_norm_backward", "new_full", "new_zeros",
        "nll_loss_backward", "nll_loss_forward", "norm", "pixel_shuffle", "pixel_unshuffle", "prelu",
        "reflection_pad2d", "repeat", "roll", "rrelu_with_noise", "rsub", "select_backward", "sigmoid_backward",
        "silu", "silu_backward", "slice_backward", "smooth_l1_loss", "smooth_l1_loss_backward", "softplus",
        "softplus_backward", "split", "stack", "std", "t", "tanh_backward", "threshold_backward", "tril", "triu",
        "unbind", "unfold_backward", "upsample_bilinear2d", "upsample_nearest2d",
    )  # fmt: skip
    packets = [getattr(aten, name) for name in more if hasattr(aten, name)]
    table = {**core_aten_decompositions(), **get_decompositions(packets)}
    for kept in ("embedding_dense_backward", "index_put", "addmm", "baddbmm"):
        table.pop(getattr(aten, kept).default, None)
    return table
