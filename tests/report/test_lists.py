"""What `tare list` says of rungs: where they run, and why not where they do not."""

from typing import Any

import pytest
from builders import ENVIRONMENT

from tare.errors import BadInput
from tare.protocol.messages import Missing, Probed
from tare.report.lists import describe_rungs, describe_workloads
from tare.workloads import get_workload


def rungs(devices: list[str], absent: dict[str, dict[str, Missing]]) -> dict[str, dict[str, Any]]:
    probed = Probed(devices=devices, absent=absent, missing_packages={}, gpus={}, environment=ENVIRONMENT)
    return {entry["rung"]: entry for entry in describe_rungs(probed)}


def test_a_variant_that_needs_a_gpu_is_not_available_without_one() -> None:
    found = rungs(["cpu"], {"cpu": {}})
    assert found["compile"]["available"] == "on cpu"
    assert found["compile:reduce-overhead"]["available"] == "no"
    assert "CUDA" in found["compile:reduce-overhead"]["reason"]


def test_a_rung_is_available_where_one_device_has_it() -> None:
    missing = Missing(reason="no compiler", remedy="install one")
    found = rungs(["cuda", "cpu"], {"cuda": {}, "cpu": {"compile": missing}})
    assert found["compile"]["available"] == "on cuda"
    assert found["compile"]["reason"] is None
    assert found["compile:reduce-overhead"]["available"] == "on cuda"
    assert found["eager"]["available"] == "on cuda, cpu"


def test_what_is_missing_everywhere_says_why_and_how_to_get_it() -> None:
    missing = Missing(reason="no compiler", remedy="install one")
    found = rungs(["cpu"], {"cpu": {"libtorch": missing}})
    for name in ("libtorch", "libtorch:script"):
        assert (found[name]["reason"], found[name]["remedy"]) == ("no compiler", "install one")


def test_workloads_by_domain_group_and_name() -> None:
    every = describe_workloads()
    vision = describe_workloads(domain="vision")
    assert {entry["domain"] for entry in vision} == {"vision"}
    assert 0 < len(vision) < len(every)
    assert "resnet50" in [entry["workload"] for entry in describe_workloads(["@mlperf"])]
    assert [entry["workload"] for entry in describe_workloads(["mlp", "@vision"], "other")] == ["mlp"]
    # Other tests may have registered workloads in this process.
    ours = [
        entry for entry in every if type(get_workload(entry["workload"]).definition).__module__.startswith("tare.")
    ]
    assert len(ours) > 100
    assert all("@zoo" in entry["groups"] for entry in ours)


@pytest.mark.parametrize(
    ("terms", "domain", "named"),
    [([], "visoin", "did you mean 'vision'"), (["@visoin"], None, "@vision"), (["mlpp"], None, "'mlp'")],
)
def test_an_unknown_domain_group_or_name_is_refused(terms: list[str], domain: str | None, named: str) -> None:
    with pytest.raises(BadInput, match=named):
        describe_workloads(terms, domain)
