"""What a program holds on its device: known sizes, each storage once."""

import torch

from tare.execute.resident import resident_bytes


class Held:
    def __init__(self, device: str) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.BatchNorm1d(20)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)


def test_weights_and_optimizer_state_of_a_device() -> None:
    """What lies on the host takes nothing on a device."""
    program = Held("cpu")
    assert resident_bytes(program) == {"weights": 0, "optimizer state": 0}
    assert resident_bytes(object()) == {}


def test_storages_count_once() -> None:
    from tare.execute.resident import _bytes

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

    tensors = [OnDevice(1, 400), OnDevice(1, 400), OnDevice(2, 80), OnDevice(3, 8, "cpu"), 5, None]
    assert _bytes(tensors) == 480
