"""Coverage from answers written by hand: unions, what one workload alone brings, groups, the ratio, failures."""

import pytest
from builders import make_failure

from tare.cases.plan import Skip
from tare.protocol.messages import Covered, Registered
from tare.records.record import Failure
from tare.report.coverage import Coverage, coverage_view, make_coverage
from tare.report.terminal import make_console

REGISTERED = Registered(torch="9.9", api=["f", "g", "h", "i"], aten=["a", "b", "c", "d", "e"], core=["a", "b"])
GROUPS = {"mlperf": ("one",), "zoo": ("one", "two", "three")}


def covered(api: str = "", aten: str = "", core: str = "") -> Covered:
    return Covered(api=api.split(), aten=aten.split(), core=core.split(), others=["q::x"])


def figures() -> Coverage:
    answers: list[tuple[str, str, Covered | Failure]] = [
        ("one", "infer", covered("f", "a b", "a b")),
        ("one", "train", covered("f", "a c", "a")),
        ("two", "infer", covered("f g h", "a d", "a")),
        ("two", "train", make_failure(message="no gradient")),
    ]
    skipped = [Skip("three/eager/infer/cpu/fp32/batch=1/feed=device", "not-installed", "needs x: pip install x")]
    return make_coverage(REGISTERED, "cpu", answers, skipped, GROUPS)


def test_modes_are_joined_and_workloads_too() -> None:
    found = figures()
    one = next(entry for entry in found.workloads if entry.workload == "one")
    assert (one.modes, {name: len(names) for name, names in one.covered.items()}) == (
        ["infer", "train"],
        {"api": 1, "aten": 3, "core": 2},
    )
    assert found.registries == {"api": 4, "aten": 5, "core": 2}
    assert found.total == {"api": 3, "aten": 4, "core": 2}
    assert found.missing["aten"] == ["e"]


def test_a_mode_on_two_devices_is_one_mode() -> None:
    answers = [("one", "infer", covered("f", "a")), ("one", "infer", covered("f", "b"))]
    (one,) = make_coverage(REGISTERED, "cpu and cuda", answers, [], {}).workloads
    assert (one.modes, one.covered["aten"]) == (["infer"], ["a", "b"])


def test_what_a_workload_alone_brings() -> None:
    alone = {entry.workload: entry.alone for entry in figures().workloads}
    assert (alone["one"]["api"], alone["one"]["aten"], alone["one"]["core"]) == ([], ["b", "c"], ["b"])
    assert (alone["two"]["api"], alone["two"]["aten"]) == (["g", "h"], ["d"])


def test_groups_say_how_many_ran_and_the_ratio_compares_two_of_them() -> None:
    found = figures()
    assert {g.group: (g.ran, g.workloads) for g in found.groups} == {"mlperf": (1, 1), "zoo": (2, 3)}
    assert found.ratio == pytest.approx({"api": 3.0, "aten": 4 / 3, "core": 1.0})


def test_without_both_groups_there_is_no_ratio() -> None:
    found = make_coverage(REGISTERED, "cpu", [("one", "infer", covered("f"))], [], {"mlperf": ("one",)})
    assert found.ratio is None


def test_a_failure_is_listed_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures()
    assert found.failed
    two = next(entry for entry in found.workloads if entry.workload == "two")
    assert two.failures == {"train": "exception in prepare: no gradient"}
    make_console().print(coverage_view(found))
    text = capsys.readouterr().out
    assert "two train failed: exception in prepare: no gradient" in text
    assert "three not run for infer: needs x: pip install x" in text
    assert "@zoo over @mlperf: Python API 3.00" in text
    assert max(map(len, text.splitlines())) <= 100
