"""What `tare list` says of rungs: where they run, and why not where they do not."""

from typing import Any

from builders import ENVIRONMENT

from tare.execute.protocol import Absent, Probed
from tare.report.lists import describe_rungs


def rungs(devices: list[str], absent: dict[str, dict[str, Absent]]) -> dict[str, dict[str, Any]]:
    probed = Probed(devices=devices, absent=absent, missing_packages={}, gpus={}, environment=ENVIRONMENT)
    return {entry["rung"]: entry for entry in describe_rungs(probed)}


def test_a_variant_that_needs_a_gpu_is_not_available_without_one() -> None:
    found = rungs(["cpu"], {"cpu": {}})
    assert found["compile"]["available"] == "on cpu"
    assert found["compile:reduce-overhead"]["available"] == "no"
    assert "CUDA" in found["compile:reduce-overhead"]["reason"]


def test_a_rung_is_available_where_one_device_has_it() -> None:
    missing = Absent(reason="no compiler", remedy="install one")
    found = rungs(["cuda", "cpu"], {"cuda": {}, "cpu": {"compile": missing}})
    assert found["compile"]["available"] == "on cuda"
    assert found["compile"]["reason"] is None
    assert found["compile:reduce-overhead"]["available"] == "on cuda"
    assert found["eager"]["available"] == "on cuda, cpu"


def test_what_is_missing_everywhere_says_why_and_how_to_get_it() -> None:
    missing = Absent(reason="no compiler", remedy="install one")
    found = rungs(["cpu"], {"cpu": {"libtorch": missing}})
    for name in ("libtorch", "libtorch:script"):
        assert (found[name]["reason"], found[name]["remedy"]) == ("no compiler", "install one")
