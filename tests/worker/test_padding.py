"""How much of a batch is padding, from the attention mask among its arguments."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tare
from tare.trace.metadata import batch_padding
from tare.trace.read import read
from tare.worker.padding import arguments_of, padding

# 3 of 8 positions are padding.
MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])


def test_the_share_is_that_of_the_hidden_positions() -> None:
    expected = {"share": 0.375, "batch": 2, "length": 4}
    for mask in (MASK, MASK.bool(), MASK.float()):
        assert padding({"attention_mask": mask, "input_ids": MASK}) == expected


@pytest.mark.parametrize(
    "mask",
    [
        None,
        "a mask",
        torch.ones(2, 4),
        torch.zeros(2, 4),
        # Not of positions, empty, and one that is added to scores.
        torch.tensor([1, 0]),
        torch.ones(0, 4),
        torch.tensor([[0.0, -1e4]]),
    ],
)
def test_what_is_no_mask_of_padding_says_nothing(mask: Any) -> None:
    assert padding({"attention_mask": mask}) is None
    assert padding({}) is None


class Model(torch.nn.Module):  # type: ignore[misc]
    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        return input_ids.float() * attention_mask


@pytest.mark.parametrize(
    ("definition", "args"),
    [
        # As a user's inputs name them, as a workload does, and as the model's forward does.
        (SimpleNamespace(names=("attention_mask", "other")), (MASK, 5)),
        (SimpleNamespace(arguments=("input_ids", "attention_mask")), (5, MASK)),
        (SimpleNamespace(), (5, MASK)),
    ],
)
def test_arguments_have_the_names_of_the_definition_or_of_the_model(
    definition: Any, args: tuple[Any, ...]
) -> None:
    program = SimpleNamespace(
        workload=SimpleNamespace(definition=definition), model=Model(), held=SimpleNamespace(args=args)
    )
    assert arguments_of(program)["attention_mask"] is MASK


@pytest.mark.full
def test_explain_writes_it_into_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "step.json.gz"
    tare.explain(Model(), MASK, attention_mask=MASK, budget=0.1, stacks=False, trace=path)
    stated = batch_padding(read(path))
    assert stated is not None
    assert (stated.share, stated.batch, stated.length) == (0.375, 2, 4)
