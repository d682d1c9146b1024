"""The network as a workload of tare, for whoever has this package installed: `tare run tinyvision`."""

from tare.workloads import Batch, workload


@workload(
    "tinyvision",
    domain="vision",
    task="classification",
    source="tinyvision.model",
    batch=16,
    sizes={"resolution": 32, "channels": 32},
    smoke={"batch": 2, "resolution": 16, "channels": 8},
)
class TinyVision:
    def build(self, channels, **_):
        from tinyvision.model import TinyNet

        return TinyNet(channels)

    def inputs(self, batch, resolution, **_):
        import torch

        return Batch((torch.randn(batch, 3, resolution, resolution),), torch.randint(0, 10, (batch,)))

    def loss(self, output, target):
        from tinyvision.model import loss

        return loss(output, target)
