"""A callable that is a whole step: the user's own optimizer, clipping and schedule."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tare.cases.source import ModelDescription
from tare.errors import BadInput
from tare.workloads.base import OWN_OPTIMIZER, Batch
from tare.workloads.own.calls import required_parameters
from tare.workloads.own.definition import FileModel, declared_parity, declared_tokens
from tare.workloads.own.files import describe, load_again

OTHER_PRECISION = "a whole step chooses its own precision"


class OwnStep(NamedTuple):
    """A step with a state of its own, and the parts of that state that can be restored, by name."""

    call: Callable[..., Any]
    modules: dict[str, Any]
    optimizers: dict[str, Any]
    # Schedulers, loss scalers, averages: what has `state_dict` and `load_state_dict`.
    others: dict[str, Any]
    # Data that the step uses.
    tensors: dict[str, Any]


class StepModel(FileModel):
    """`build` gives what the step trains; a step takes the inputs if it has parameters."""

    # A loss that its file defines is the step's own business.
    has_target = False

    def open(self) -> OwnStep:
        """The step with fresh state."""
        step = self.fresh_value()
        return OwnStep(step, *_parts(step))

    def fresh_value(self) -> Any:
        """The user's object once more: its file is executed again."""
        value: Any = load_again(self.path)
        for part in self.source.object.split("."):
            value = getattr(value, part)
        return value

    def inputs(self, batch: int | None, **_: int) -> Batch:
        if not required_parameters(self.value):
            return Batch(())
        return super().inputs(batch)

    def describe(self) -> ModelDescription:
        """Calls the step once on the CPU, to see whether it trains."""
        import torch

        batch = self.inputs(None)
        step = self.open()
        before = {name: [p.detach().clone() for p in m.parameters()] for name, m in step.modules.items()}
        try:
            step.call(*batch.args)
        except (Exception, SystemExit) as error:
            raise BadInput(f"{self.source.object} fails: {describe(error)}") from error
        changed = any(
            not torch.equal(old, new)
            for name, module in step.modules.items()
            for old, new in zip(before[name], module.parameters(), strict=True)
        )
        first = next((leaf for leaf in batch.args if isinstance(leaf, torch.Tensor) and leaf.dim()), None)
        precisions = ("tf32", "bf16", "fp16", "amp-bf16", "amp-fp16")
        return ModelDescription(
            batch=int(first.shape[0]) if first is not None else 1,
            inputs=self.inputs_text if batch.args else None,
            digest=self.digest,
            trains=changed,
            is_step=True,
            optimizer=OWN_OPTIMIZER if changed else "sgd",
            parity=declared_parity(self.value, self.surroundings),
            tokens=declared_tokens(self.value, self.surroundings),
            unsupported=dict.fromkeys(precisions, OTHER_PRECISION),
        )

    def loss(self, output: Any, target: Any) -> Any:
        raise NotImplementedError("a whole step has its own loss")


def _parts(step: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The modules, optimizers and other stateful objects that a step can reach: what it closes over, the globals
    it uses, and what its owner holds."""
    from torch import Tensor, nn, optim

    modules: dict[str, Any] = {}
    optimizers: dict[str, Any] = {}
    others: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for name, value in _reachable(step):
        if isinstance(value, nn.Module):
            modules[name] = value
        elif isinstance(value, optim.Optimizer):
            optimizers[name] = value
        elif isinstance(value, Tensor):
            tensors[name] = value
        elif callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
            others[name] = value
    return modules, optimizers, others, tensors


def _reachable(step: Any) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    function = getattr(step, "__func__", step)
    owners = [getattr(step, "__self__", None), None if hasattr(step, "__code__") else step]
    holders: list[dict[str, Any]] = [vars(owner) for owner in owners if hasattr(owner, "__dict__")]
    code = getattr(function, "__code__", None)
    if code is not None:
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        holders.append({name: cell.cell_contents for name, cell in cells})
        # All globals, since a step may call other functions of its file.
        holders.append(function.__globals__)
    for holder in holders:
        for name, value in holder.items():
            # Names of submodules may not contain dots.
            if not name.startswith("__") and not isinstance(value, type) and id(value) not in seen:
                seen.add(id(value))
                yield name.replace(".", "_"), value
