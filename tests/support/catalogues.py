"""A catalogue written by hand: two workloads, three rungs, two devices; no torch, no probe."""

from collections.abc import Mapping, Sequence

from tare.cases.case import Case, Mode
from tare.errors import unknown

RUNGS = ("eager", "compile", "compile:max")


class FakeCatalogue:
    """`mlp` has the size width, `cnn` has resolution and depth; the GPU is not there."""

    def devices(self, name: str) -> list[str]:
        known = {"auto": ["cpu"], "all": ["cpu", "cuda"], "cpu": ["cpu"], "cuda": ["cuda"], "cuda:1": ["cuda:1"]}
        if name not in known:
            raise unknown("device", name, known)
        return known[name]

    def workload_names(self) -> list[str]:
        return ["mlp", "cnn"]

    def sizes(self, workload: str, smoke: bool = False) -> Mapping[str, int]:
        full = {"mlp": {"width": 64}, "cnn": {"resolution": 32, "depth": 2}}
        small = {"mlp": {"width": 4}, "cnn": {"resolution": 8, "depth": 2}}
        return (small if smoke else full)[workload]

    def batch(self, workload: str, smoke: bool = False) -> int:
        return ({"mlp": 2, "cnn": 2} if smoke else {"mlp": 32, "cnn": 8})[workload]

    def optimizer(self, workload: str) -> str:
        return {"mlp": "sgd", "cnn": "adam"}[workload]

    def modes(self, workload: str, wanted: Sequence[Mode]) -> Sequence[Mode]:  # noqa: ARG002
        return wanted

    def identity(self, workload: str) -> Mapping[str, str | None]:  # noqa: ARG002
        return {}

    def ladder(self, workload: str, device: str) -> list[str]:
        return ["eager", "compile"] if (workload, device) != ("cnn", "cpu") else ["eager"]

    def check_rung(self, name: str) -> None:
        if name not in RUNGS:
            raise unknown("rung", name, RUNGS)

    def refusal(self, case: Case) -> tuple[str, str] | None:
        return ("not-installed", "no GPU here") if case.device_type == "cuda" else None
