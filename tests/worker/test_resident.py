"""What a program holds on its device: known sizes by module, each storage once."""

from typing import Any

import torch

from tare.worker.profiling import by_module, resident_bytes


class Held:
    """A layer of 200 weights and 20 biases, a norm of twice 20 with its statistics and its counter."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.model: Any = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.BatchNorm1d(20))
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)


def test_weights_and_optimizer_state_by_module() -> None:
    program = Held()
    layer, norm = 4 * 220, 4 * 80 + 8
    held = resident_bytes(program)
    assert (held["weights"], held["optimizer state"], held["device"]) == (layer + norm, 0, "cpu")
    assert held["modules"] == {"weights": {"0 (Linear)": layer, "1 (BatchNorm1d)": norm}, "optimizer state": {}}
    program.model(torch.randn(4, 10)).sum().backward()
    program.optimizer.step()
    held = resident_bytes(program)
    assert held["optimizer state"] == layer + 4 * 40
    assert held["modules"]["optimizer state"] == {"0 (Linear)": layer, "1 (BatchNorm1d)": 4 * 40}


def test_a_scripted_and_a_compiled_model_bear_the_names_of_the_model() -> None:
    class Own(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3))
            self.layer = torch.nn.Linear(3, 1, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.scale * x)

    program = Held()
    for wrap in (lambda model: model, torch.jit.script, torch.compile):
        program.model, program.optimizer = wrap(Own()), None
        assert resident_bytes(program)["modules"] == {"weights": {"Own": 12, "layer (Linear)": 12}}


def test_what_is_no_model_holds_nothing_that_is_known() -> None:
    assert resident_bytes(object()) == {}


def test_storages_count_once_and_on_their_device_alone() -> None:
    class OnDevice:
        """A tensor as the counter sees it."""

        def __init__(self, address: int, size: int, kind: str = "cuda") -> None:
            self.device = torch.device(kind)
            self._storage = (address, size)

        def untyped_storage(self) -> "OnDevice":
            return self

        def data_ptr(self) -> int:
            return self._storage[0]

        def nbytes(self) -> int:
            return self._storage[1]

    held = [("a", OnDevice(1, 400)), ("b", OnDevice(1, 400)), ("b", OnDevice(2, 80)), ("a", OnDevice(3, 8, "cpu"))]
    assert by_module([*held, ("a", 5), ("a", None)], "cuda") == {"a": 400, "b": 80}
