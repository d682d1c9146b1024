"""`--batch auto` against memory that really ends, on the host and (as torch says it) on a device."""

import json

import pytest
from commandline import Tare

QUICK = ("--rung", "eager", "--device", "cpu", "--batch", "auto", "--quick", "--threads", "1", "--json")


@pytest.mark.parametrize(
    ("workload", "cause", "extra"),
    [
        ("planted_batch_device", "device-oom", ()),
        ("planted_batch_host", "host-oom", ("--memory", "800", "--budget", "0.1")),
    ],
)
def test_memory_that_ends_is_normal(tare: Tare, workload: str, cause: str, extra: tuple[str, ...]) -> None:
    done = tare("run", workload, *QUICK, *extra)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (record,) = document["records"]
    search = record["search"]
    assert search["stop"] == "memory"
    assert search["points"][-1]["round"]["failure"]["cause"] == cause
    assert all(point["round"]["failure"] is None for point in search["points"][:-1])
    batches = [point["batch"] for point in search["points"]]
    assert batches == [2**k for k in range(len(batches))]
    assert len(batches) >= 2
    assert record["case"]["batch"] == search["chosen"] < batches[-1]
    assert record["failure"] is None
    assert any("memory ended" in note for ladder in document["ladders"] for note in ladder["notes"])


def test_what_never_works_is_a_failed_case(tare: Tare) -> None:
    done = tare("run", "planted_raise", *QUICK)
    (record,) = json.loads(done.stdout)["records"]
    assert done.returncode == 1
    assert (record["failure"]["cause"], record["case"]["batch"]) == ("exception", 1)
    assert record["search"]["stop"] == "failure"
