"""Reinforcement learning: in training one update from a batch of transitions, at inference a batch of actions."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import NO_TRACED_TRAINING
from tare.workloads.registry import workload

TOGETHER = "all networks are updated in the same step; target networks are updated at its beginning"


class Update:
    """In training, the output of an agent is its loss."""

    def loss(self, output: Any, target: Any) -> Any:  # noqa: ARG002
        return output


@workload(
    "soft_actor_critic",
    domain="rl",
    task="continuous control",
    source="written here; Haarnoja et al., Soft Actor-Critic (2018)",
    differs=f"{TOGETHER}; the noise of the actions is part of the batch",
    batch=256,
    sizes={"state": 17, "action": 6, "hidden": 1024},
    smoke={"batch": 8, "hidden": 32},
    unsupported=NO_TRACED_TRAINING,
    optimizer="adam",
    learning_rate=0.003,
)
class SoftActorCritic(Update):
    def build(self, state: int, action: int, hidden: int) -> Any:
        from tare.workloads.networks.actor_critic import SoftActorCritic, layers

        return SoftActorCritic(
            lambda out: layers([state, hidden, hidden, out]),
            lambda: layers([state + action, hidden, hidden, 1]),
            action,
        )

    def inputs(self, batch: int, state: int, action: int, **_: int) -> Batch:
        import torch

        now, later = torch.randn(2, batch, state)
        done = (torch.rand(batch, 1) < 0.05).float()
        noise = torch.randn(2, batch, action)
        return Batch((now, torch.rand(batch, action) * 2 - 1, torch.randn(batch, 1), later, done, noise))


@workload(
    "drq",
    domain="rl",
    task="control from pixels",
    source="written here; Kostrikov et al., Image Augmentation Is All You Need (2020)",
    differs=f"{TOGETHER}; random shifts and the noise of the actions are part of the batch; actor and critics "
    "also share the last layer of the encoder",
    batch=128,
    sizes={"resolution": 84, "action": 6, "hidden": 1024, "features": 50},
    smoke={"batch": 2, "resolution": 40, "hidden": 32, "features": 10},
    unsupported=NO_TRACED_TRAINING,
    optimizer="adam",
    learning_rate=0.01,
)
class Drq(Update):
    def build(self, resolution: int, action: int, hidden: int, features: int) -> Any:
        from tare.workloads.networks.pixels import drq

        return drq(resolution, action, hidden, features)

    def inputs(self, batch: int, resolution: int, action: int, **_: int) -> Batch:
        import torch

        now, later = torch.rand(2, batch, 9, resolution, resolution) * 255
        done = torch.zeros(batch, 1)
        # Four shifts: two views of the current observation and two of the next one. Three sets of noise: the
        # actions in both next views, and the actor's action.
        noise = torch.randn(3, batch, action)
        shifts = torch.randint(9, (4, batch, 2))
        return Batch((now, torch.rand(batch, action) * 2 - 1, torch.randn(batch, 1), later, done, noise, shifts))


@workload(
    "dqn",
    domain="rl",
    task="game playing",
    source="written here; Mnih et al., Human-level control (2015)",
    differs="the target network is not updated within a step",
    batch=32,
    sizes={"resolution": 84, "actions": 18, "width": 32},
    smoke={"batch": 2, "width": 4},
)
class Dqn(Update):
    def build(self, resolution: int, actions: int, width: int) -> Any:
        from tare.workloads.networks.pixels import Dqn

        return Dqn(resolution, actions, width)

    def inputs(self, batch: int, resolution: int, actions: int, **_: int) -> Batch:
        import torch

        now, later = torch.rand(2, batch, 4, resolution, resolution)
        action = torch.randint(actions, (batch,))
        return Batch((now, action, torch.randn(batch), later, (torch.rand(batch) < 0.05).float()))


@workload(
    "LearningToPaint",
    domain="rl",
    task="painting",
    source="written here; Huang et al., Learning to Paint (2019), the baseline",
    differs=f"{TOGETHER}; the reward is the decrease of the distance to the target image instead of a "
    "discriminator's score; episodes do not end",
    batch=96,
    sizes={"strokes": 5, "blocks": 2, "hidden": 512},
    smoke={"batch": 1, "strokes": 1, "blocks": 1, "hidden": 16},
    unsupported=NO_TRACED_TRAINING,
    optimizer="adam",
    learning_rate=0.003,
)
class Painter(Update):
    def build(self, strokes: int, blocks: int, hidden: int) -> Any:
        from tare.workloads.networks.painting import Painter

        return Painter(strokes, blocks, hidden)

    def inputs(self, batch: int, strokes: int, **_: int) -> Batch:
        import torch

        from tare.workloads.networks.painting import COLOUR, SHAPE

        canvas, target = torch.rand(2, batch, 3, 128, 128)
        drawn = torch.rand(batch, strokes * (SHAPE + COLOUR))
        return Batch((canvas, target, drawn, torch.rand(batch, 1)))
