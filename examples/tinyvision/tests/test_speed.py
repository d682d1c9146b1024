"""The speed of the network, against a baseline that `pytest --tare-save main` has stored."""

from tinyvision.data import batch
from tinyvision.model import TinyNet


def test_the_network_is_no_slower(tare):
    args, _ = batch()
    tare(TinyNet(), args).no_slower_than("main", by=0.10)
