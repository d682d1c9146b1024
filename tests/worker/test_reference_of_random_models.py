"""Models that draw random numbers: dropout is turned off to compare them, and other randomness is named."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tare.cases.case import Case
from tare.measure.parity import Reference, load_reference
from tare.records.record import Parity
from tare.rungs import get_rung
from tare.rungs.torch.program import TorchProgram
from tare.worker import reference
from tare.worker.reference import check_parity, make_reference
from tare.workloads.base import Batch, Workload
from tare.workloads.randomness import without_dropout

WIDTH = 12


class Small:
    """Two layers with whatever `middle` gives between them."""

    def middle(self) -> nn.Module:
        return nn.ReLU()

    def build(self) -> Any:
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), self.middle(), nn.Linear(WIDTH, 3))

    def inputs(self, batch: int) -> Batch:
        return Batch((torch.randn(batch, WIDTH),), torch.randn(batch, 3))

    def loss(self, output: Any, target: Any) -> Any:
        return functional.mse_loss(output, target)


class Calls(nn.Module):  # type: ignore[misc]
    """A layer that calls a function of its input and of the layer itself."""

    def __init__(self, function: Any, **attributes: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: Any) -> Any:
        return self.function(x, self)


class DropPath(nn.Module):  # type: ignore[misc]
    """As timm's."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_prob = 0.3

    def forward(self, x: Any) -> Any:
        if self.drop_prob == 0.0 or not self.training:
            return x
        return x * x.new_empty(x.shape[0], 1).bernoulli_(1 - self.drop_prob) / (1 - self.drop_prob)


class StochasticDepth(nn.Module):  # type: ignore[misc]
    """As torchvision's."""

    def __init__(self) -> None:
        super().__init__()
        self.p = 0.3

    def forward(self, x: Any) -> Any:
        keep = x.new_empty(x.shape[0], 1).bernoulli_(1 - self.p) if self.training else 1
        return x * keep


class Sequence(nn.Module):  # type: ignore[misc]
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        rows = x.view(x.shape[0], 3, WIDTH // 3)
        if isinstance(self.layer, nn.MultiheadAttention):
            return self.layer(rows, rows, rows, need_weights=False)[0].flatten(1)
        return self.layer(rows)[0].flatten(1)


class Configuration:
    def __init__(self) -> None:
        self.attention_probs_dropout_prob = 0.4


DROPOUTS: dict[str, Any] = {
    "nn.Dropout": lambda: nn.Dropout(0.5),
    "nn.AlphaDropout": lambda: nn.AlphaDropout(0.5),
    "nn.FeatureAlphaDropout": lambda: nn.FeatureAlphaDropout(0.5),
    "functional with a constant": lambda: Calls(lambda x, layer: functional.dropout(x, 0.5, layer.training)),
    "functional in place": lambda: Calls(lambda x, layer: functional.dropout(x + 0, 0.5, layer.training, True)),
    "torch.dropout": lambda: Calls(lambda x, layer: torch.dropout(x, 0.5, layer.training)),
    "an attribute": lambda: Calls(
        lambda x, layer: x * (torch.rand_like(x) >= layer.hidden_dropout_prob), hidden_dropout_prob=0.3
    ),
    "a configuration": lambda: Calls(
        lambda x, layer: x * (torch.rand_like(x) >= layer.config.attention_probs_dropout_prob),
        config=Configuration(),
    ),
    "recurrent": lambda: Sequence(nn.LSTM(WIDTH // 3, WIDTH // 3, 2, dropout=0.4, batch_first=True)),
    "attention": lambda: Sequence(nn.MultiheadAttention(WIDTH // 3, 2, dropout=0.4, batch_first=True)),
    "DropPath": DropPath,
    "StochasticDepth": StochasticDepth,
}


def of(definition: Any, monkeypatch: pytest.MonkeyPatch, mode: Any = "train") -> tuple[Workload, Case]:
    workload = Workload(name="random", definition=definition, domain="other", task="", source="", batch=4)
    monkeypatch.setattr(reference, "get_workload", lambda _: workload)
    optimizer: Any = "sgd" if mode == "train" else None
    return workload, Case(workload="random", rung="eager", mode=mode, batch=4, sizes={}, optimizer=optimizer)


def with_middle(middle: Any) -> Any:
    definition = Small()
    definition.middle = middle  # type: ignore[method-assign]
    return definition


def made(case: Case, folder: Path) -> Reference:
    make_reference(case, folder)
    loaded = load_reference(folder)
    assert loaded is not None
    return loaded


def judged(workload: Workload, case: Case, folder: Path, dropout_off: bool) -> Parity:
    with without_dropout(dropout_off):
        program = get_rung(case.rung).prepare(workload, case)
        assert isinstance(program, TorchProgram)
        try:
            return check_parity(program.evidence, folder, case)
        finally:
            program.close()


@pytest.mark.parametrize("kind", DROPOUTS)
def test_dropout_is_turned_off_and_then_eager_is_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload, case = of(with_middle(DROPOUTS[kind]), monkeypatch)
    found = made(case, tmp_path)
    assert (found.without_dropout, found.unchecked) == (True, "")
    assert found.described == "eager float64 on cpu with dropout off"
    assert judged(workload, case, tmp_path, dropout_off=True).status == "same"
    assert judged(workload, case, tmp_path, dropout_off=False).status == "different"


def test_torchscript_compiles_without_dropout_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, case = of(with_middle(lambda: nn.Dropout(0.5)), monkeypatch)
    made(case, tmp_path)
    for rung in ("torchscript", "torchscript:script"):
        other = Case(workload="random", rung=rung, mode="train", batch=4, sizes={}, optimizer="sgd")
        assert judged(workload, other, tmp_path, dropout_off=True).status == "same"


def test_dropout_that_does_not_act_needs_no_second_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, case = of(with_middle(lambda: nn.Dropout(0.5)), monkeypatch, mode="infer")
    assert not made(case, tmp_path / "inference").without_dropout
    _, case = of(with_middle(lambda: nn.Dropout(0.0)), monkeypatch)
    assert not made(case, tmp_path / "zero").without_dropout


def test_a_model_has_its_dropout_back_afterwards() -> None:
    with without_dropout():
        assert torch.equal(functional.dropout(torch.ones(100), 0.5, True), torch.ones(100))
    assert (functional.dropout(torch.ones(100), 0.5, True) == 0).any()
    assert (torch.dropout(torch.ones(100), 0.5, True) == 0).any()
    assert nn.Dropout(0.5).p == 0.5


@pytest.mark.parametrize(
    ("middle", "mode"),
    [
        (lambda: Calls(lambda x, _: x + 0.1 * torch.rand_like(x)), "infer"),
        (lambda: Calls(lambda x, _: x * torch.multinomial(torch.ones(WIDTH), WIDTH)), "train"),
        (lambda: Calls(lambda x, _: x * np.random.default_rng().random()), "infer"),
    ],
    ids=["rand", "multinomial", "numpy"],
)
def test_other_sampling_is_unchecked_and_says_so(
    middle: Any, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload, case = of(with_middle(middle), monkeypatch, mode)
    found = made(case, tmp_path)
    assert found.unchecked.startswith("a step draws random numbers")
    parity = judged(workload, case, tmp_path, dropout_off=False)
    assert (parity.status, parity.reason) == ("unchecked", found.unchecked)


def test_weights_that_do_not_follow_the_seed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reseeds(Small):
        def build(self) -> Any:
            torch.seed()
            return super().build()

    workload, case = of(Reseeds(), monkeypatch, "infer")
    found = made(case, tmp_path)
    assert found.unchecked == (
        "two builds of the model have different weights (0.weight): they do not follow torch's seed"
    )
    assert judged(workload, case, tmp_path, dropout_off=False).status == "unchecked"


@pytest.mark.parametrize(
    "source", [lambda: random.SystemRandom().random(), lambda: np.random.default_rng().random()]
)
def test_inputs_that_do_not_follow_the_seed_are_named(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Random(Small):
        def inputs(self, batch: int) -> Batch:
            return Batch((torch.full((batch, WIDTH), source()),), torch.randn(batch, 3))

    _, case = of(Random(), monkeypatch)
    assert made(case, tmp_path).unchecked.startswith("two calls of inputs() give different batches")


class Counts(nn.Module):  # type: ignore[misc]
    """Its factor grows with every step."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.steps += 1
        return x * self.steps


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: nn.Sequential(nn.Linear(WIDTH, 3), Counts()), "depends on the steps before it"),
        (lambda: nn.Sequential(Calls(lambda x, _: x.mul_(1.5)), nn.Linear(WIDTH, 3)), "overwrites its input"),
    ],
    ids=["a counter", "in place"],
)
def test_inference_that_leaves_something_for_the_next_step_is_unchecked(
    build: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timed steps follow one another: what eager computes in them is not what it computes in the first ones."""
    definition = Small()
    definition.build = build  # type: ignore[method-assign]
    workload, case = of(definition, monkeypatch, "infer")
    found = made(case, tmp_path)
    assert found.unchecked.startswith(f"a step {what}: a second step on the same batch differs")
    assert judged(workload, case, tmp_path, dropout_off=False).reason == found.unchecked


def test_an_activation_in_place_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, case = of(with_middle(lambda: nn.ReLU(inplace=True)), monkeypatch, "infer")
    assert made(case, tmp_path).unchecked == ""
