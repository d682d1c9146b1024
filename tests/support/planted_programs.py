"""Rungs whose programs have planted faults, and a workload whose reference fails. TARE_PLUGINS loads them into
workers and into every command; only the workers import torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tare.cases.case import Case
from tare.errors import Unsupported
from tare.rungs import Missing
from tare.rungs.native.rung import NativeRung
from tare.rungs.registry import rung
from tare.workloads.base import Batch, Workload
from tare.workloads.registry import workload

# Not `>&$TARE_FD`: some shells do not support descriptors of two digits.
DONE = """echo '{"kind": "done"}' > /dev/fd/$TARE_FD"""


class Planted(NativeRung):
    """Runs a shell script as its program."""

    script = ""
    not_by_default = {"": "planted"}

    def available(self, device_type: str) -> Missing | None:  # noqa: ARG002
        return None

    def command(self, case: Case, on_build: Callable[[], None]) -> tuple[str, ...]:  # noqa: ARG002
        return "sh", "-c", self.script

    def stage(self, workload: Workload, case: Case, folder: Path) -> None:
        pass


@rung
class Absent(Planted):
    name = "planted_absent"
    summary = "a program that is not there"

    def command(self, case: Case, on_build: Callable[[], None]) -> tuple[str, ...]:  # noqa: ARG002
        return ("/no/such/program",)


@rung
class Refusing(Planted):
    name = "planted_refusing"
    summary = "a workload that cannot be staged"
    script = "exit 3"

    def stage(self, workload: Workload, case: Case, folder: Path) -> None:  # noqa: ARG002
        (folder / "half").touch()
        raise Unsupported("a planted operator")


@rung
class Silent(Planted):
    name = "planted_silent"
    summary = "says that it is done, and leaves nothing"
    script = DONE


@rung
class Babbling(Planted):
    name = "planted_babbling"
    summary = "leaves what is no evidence and no report"
    script = f"""
        folder=$(sed -n 's/.*"evidence": *"\\([^"]*\\)".*/\\1/p')
        [ -z "$folder" ] || echo "[1" > "$folder/names.json"
        [ -z "$TARE_FRAMES" ] || echo "[1" > "$TARE_FRAMES"
        {DONE}
    """


@rung
class Hanging(Planted):
    name = "planted_hanging"
    summary = "says that it has begun, in a file, and never ends"
    script = 'touch "$TARE_HOME/begun"; sleep 3600'


@workload(
    "planted_no_reference", domain="other", task="fault", source="tests", batch=4,
    sizes={"features": 64, "classes": 10},
)  # fmt: skip
class NoReference:
    def build(self, features: int, classes: int) -> Any:
        from planted_modules import NoFloat64

        return NoFloat64(features, classes)

    def inputs(self, batch: int, features: int, classes: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, features),), torch.randint(classes, (batch,)))

    def loss(self, output: Any, target: Any) -> Any:
        import torch

        return torch.nn.functional.cross_entropy(output, target)
