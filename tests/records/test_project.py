"""The user's project in a record: kept, and without effect on what may be compared."""

import json
from typing import Any

import pytest
from builders import ENVIRONMENT, make_case, make_record, make_round

from tare.cases.case import Case
from tare.execute.runner import make_record as finish_record
from tare.guard.comparable import baseline_differences, package_differences, split_differences
from tare.records.codec import decode_record, encode
from tare.records.environment import Environment, difference_lines
from tare.records.record import Record
from tare.system.repository import Repository

PROJECT = Repository(commit="1234567890abcdef1234567890abcdef12345678", branch="main", dirty=True)


def with_packages(**versions: str) -> Environment:
    fields = {name: getattr(ENVIRONMENT, name) for name in ("machine", "software", "flags", "circumstances")}
    return Environment(**fields, packages=versions)


def test_a_record_keeps_project_tags_and_packages() -> None:
    record = make_record(project=PROJECT, tags={"pr": "12"}, environment=with_packages(timm="1.0"))
    again = decode_record(encode(record), "a file")
    assert (again.project, again.tags, again.environment.packages) == (PROJECT, {"pr": "12"}, {"timm": "1.0"})


def test_a_record_of_before_is_read() -> None:
    document: dict[str, Any] = json.loads(encode(make_record()))
    for name in ("project", "tags"):
        del document[name]
    del document["environment"]["packages"]
    for round_ in document["rounds"]:
        del round_["packages"]
    record = decode_record(json.dumps(document), "a file")
    assert (record.project, record.tags, record.environment.packages) == (None, {}, {})
    assert record.environment.id == ENVIRONMENT.id


def test_packages_are_reported_and_prevent_nothing() -> None:
    before, now = with_packages(timm="1.0", einops="0.8"), with_packages(timm="1.1", einops="0.8")
    assert (before.id, before.base_id) == (now.id, now.base_id) == (ENVIRONMENT.id, ENVIRONMENT.base_id)
    subjects, blocking = split_differences([(before, now)])
    assert [str(each) for each in subjects] == ["packages.timm: 1.0 against 1.1"]
    assert blocking == []
    # Of a machine that was only probed, and of older records, the packages are not known.
    assert difference_lines(before, ENVIRONMENT) == []
    assert baseline_differences([make_record(environment=before)], ENVIRONMENT) == ([], [])


def test_packages_of_a_check_are_compared_by_family() -> None:
    def measured(case: Case, **versions: str) -> Record:
        return make_record(case, environment=with_packages(**versions))

    old, new = (make_case(workload="my.py::Model", source=digest) for digest in ("0" * 8, "1" * 8))
    other = make_case(batch=7)
    before, now = [measured(old, timm="1.0"), measured(other, timm="0.9")], [measured(new, timm="1.1")]
    assert [str(each) for each in package_differences(before, now)] == ["packages.timm: 1.0 against 1.1"]
    assert package_differences(now, now) == []


@pytest.mark.parametrize("failed_first", [False, True])
def test_the_packages_of_a_round_become_those_of_its_record(failed_first: bool) -> None:
    packages = {"timm": "1.0", "torch": "2.10.0"}
    rounds = (
        [make_round(0), make_round(1, packages=packages)] if failed_first else [make_round(0, packages=packages)]
    )
    record = finish_record(make_case(), rounds, ENVIRONMENT, "run000000001", None, PROJECT, {"pr": "12"})
    # torch is part of the software already.
    assert record.environment.packages == {"timm": "1.0"}
    assert (record.project, record.tags) == (PROJECT, {"pr": "12"})
    assert record.environment.id == ENVIRONMENT.id


def test_what_a_worker_sends_can_be_read_again() -> None:
    """A worker that is not ours may send any number of packages, of any names."""
    sent = {f"{i} {'x' * 20_000}": "9" * 20_000 for i in range(1_200)}
    round_ = make_round(0, packages=sent)
    assert len(round_.packages) == 1_000
    assert {len(version) for version in round_.packages.values()} == {200}
    record = finish_record(make_case(), [round_], ENVIRONMENT, "run000000001")
    assert decode_record(encode(record), "a file") == record
