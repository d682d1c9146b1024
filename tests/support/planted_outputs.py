"""One layer whose output is wrapped in every way that models use, as a plug-in: `planted_output_dict` and so on.

Each output has three tensors, in this order: the scores, their positive part, and the hidden layer. The loss reads
the first two."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tare.workloads import workload
from tare.workloads.base import Batch

WIDTH = 16
TENSORS = 3


class Named(NamedTuple):
    scores: Any
    positive: Any
    hidden: Any


@dataclass
class Detections:
    scores: Any
    extra: dict[str, Any]
    label: str = "detections"


@dataclass(frozen=True, slots=True)
class Frozen:
    inner: Detections
    nothing: None = None
    # The constructor does not take it.
    count: int = field(default=3, init=False)


def _huggingface(scores: Any, positive: Any, hidden: Any) -> Any:
    from transformers.modeling_outputs import SequenceClassifierOutput

    return SequenceClassifierOutput(logits=scores, hidden_states=(positive,), attentions=(hidden,))


# How an output is wrapped, and how its loss gets at the first two tensors.
Wrap = Callable[[Any, Any, Any], Any]
Read = Callable[[Any], tuple[Any, Any]]
KINDS: dict[str, tuple[Wrap, Read]] = {
    "dict": (lambda s, p, h: {"z": s, "a": {"z": p, "a": h}}, lambda o: (o["z"], o["a"]["z"])),
    "named": (Named, lambda o: (o.scores, o.positive)),
    "dataclass": (
        lambda s, p, h: Detections(s, {"z": p, "a": h}),
        lambda o: (o.scores, o.extra["z" if o.label == "detections" else "a"]),
    ),
    "nested": (
        lambda s, p, h: [{"outputs": Frozen(Detections(s, {"pair": (p, h)}))}, None],
        lambda o: (o[0]["outputs"].inner.scores, o[0]["outputs"].inner.extra["pair"][0]),
    ),
    "tuples": (lambda s, p, h: [(s, None), (p, h, "a text")], lambda o: (o[0][0], o[1][0])),
    "huggingface": (_huggingface, lambda o: (o.logits, o.hidden_states[0])),
}


def _plant(kind: str, wrap: Wrap, read: Read) -> None:
    @workload(f"planted_output_{kind}", domain="other", task="", source="", batch=4)
    class Wrapped:
        def build(self) -> Any:
            from torch import nn

            class Layer(nn.Module):  # type: ignore[misc]
                def __init__(self) -> None:
                    super().__init__()
                    self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

                def forward(self, x: Any) -> Any:
                    hidden = self.first(x).tanh()
                    scores = self.second(hidden)
                    return wrap(scores, scores.relu(), hidden)

            return Layer()

        def inputs(self, batch: int) -> Batch:
            import torch

            return Batch((torch.randn(batch, WIDTH),), torch.randn(batch, 3))

        def loss(self, output: Any, target: Any) -> Any:
            from torch.nn import functional

            scores, positive = read(output)
            return functional.mse_loss(scores + positive, target)


for _kind, (_wrap, _read) in KINDS.items():
    _plant(_kind, _wrap, _read)
