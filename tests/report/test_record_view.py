"""One record in full: the user's project, the tags and the packages."""

import msgspec
import pytest
from builders import ENVIRONMENT, make_record

from tare.records.record import Parity
from tare.report.lists import describe_record
from tare.report.record import provenance_view, record_view
from tare.report.terminal import plain_text
from tare.system.repository import Repository

COMMIT = "1234567890abcdef1234567890abcdef12345678"


@pytest.mark.parametrize(
    ("branch", "dirty", "shown"),
    [
        ("main", False, f"{COMMIT} on main, without changes"),
        ("main", True, f"{COMMIT} on main, with changes"),
        ("", None, f"{COMMIT}, changes not known"),
    ],
)
def test_a_record_shows_where_it_comes_from(branch: str, dirty: bool | None, shown: str) -> None:
    record = make_record(
        project=Repository(commit=COMMIT, branch=branch, dirty=dirty),
        tags={"pr": "12", "note": "first try"},
        environment=msgspec.structs.replace(ENVIRONMENT, packages={"einops": "0.8", "timm": "1.0"}),
    )
    text = " ".join(plain_text(record_view(record)).split())
    assert f"project {shown}" in text
    assert "tags pr=12, note=first try" in text
    assert "packages einops 0.8, timm 1.0" in text
    entry = describe_record(record)
    assert (entry["project"], entry["tags"]) == (record.project, record.tags)


def test_a_record_without_any_of_it_has_no_such_lines() -> None:
    lines = plain_text(record_view(make_record())).splitlines()
    assert not [line for line in lines if line.split()[:1] in (["project"], ["tags"], ["packages"])]


def test_several_records_name_each_project_and_tag_once() -> None:
    main, topic = (Repository(commit=COMMIT, branch=name, dirty=name == "topic") for name in ("main", "topic"))
    records = [make_record(project=main, tags={"pr": "12"}), make_record(project=main), make_record(project=topic)]
    text = plain_text(provenance_view(records))
    assert text.splitlines() == ["project: 1234567890 (main), 1234567890+ (topic)", "tags: pr=12"]
    many = [make_record(tags={"pr": str(i)}) for i in range(8)]
    assert plain_text(provenance_view(many)).strip() == "tags: pr=0, pr=1, pr=2, pr=3, pr=4 and 3 more"
    assert plain_text(provenance_view([make_record()])).strip() == ""


@pytest.mark.parametrize(
    ("parity", "text"),
    [
        (Parity(status="same", compared=3, reference="eager float64"), "same, 3 tensors against eager float64"),
        (
            Parity(status="unchecked", reason="a step draws random numbers"),
            "unchecked, a step draws random numbers",
        ),
    ],
)
def test_parity_has_its_proof_or_the_reason_why_there_is_none(parity: Parity, text: str) -> None:
    assert f"parity {text}" in " ".join(plain_text(record_view(make_record(parity=parity))).split())
