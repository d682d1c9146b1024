"""Which records of a case are shown."""

from builders import ENVIRONMENT, make_failure, make_record
from msgspec.structs import replace

from tare.records.environment import Environment
from tare.records.record import Record
from tare.report.ladder import make_ladders
from tare.store.selection import newest_in_each_environment

# What is known of a round that ended before its worker said which flags it pinned.
EARLY = replace(ENVIRONMENT, flags={})
PINNED_OTHERWISE = replace(ENVIRONMENT, flags={"tf32": "on"})
ELSEWHERE = replace(ENVIRONMENT, machine={"cpu": "other"})


def on_day(day: int, environment: Environment = ENVIRONMENT, failed: bool = False) -> Record:
    return make_record(
        steps_s=() if failed else (1e-3,),
        id=f"day{day}",
        created=f"2026-01-{day:02d}T00:00:00+00:00",
        environment=environment,
        failure=make_failure(cause="timeout", stage="") if failed else None,
    )


def ids(*records: Record) -> list[str]:
    return [record.id for record in newest_in_each_environment(records)]


def test_the_newest_stands_for_its_case_and_environment() -> None:
    assert ids(on_day(1), on_day(3), on_day(2)) == ["day3"]
    assert ids(on_day(1), on_day(2, ELSEWHERE), on_day(3)) == ["day3", "day2"]


def test_environments_with_good_records_are_all_kept() -> None:
    assert ids(on_day(1), on_day(2, PINNED_OTHERWISE), on_day(3, EARLY)) == ["day1", "day2", "day3"]


def test_an_early_failure_gives_way_to_what_is_newer() -> None:
    records = (on_day(1), on_day(2, EARLY, failed=True), on_day(3))
    assert ids(*records) == ["day3"]
    assert ids(*records, on_day(4, EARLY, failed=True)) == ["day4"]
    assert ids(on_day(1, ELSEWHERE), on_day(2, EARLY, failed=True)) == ["day1", "day2"]


def test_a_failure_that_knows_its_environment_stands_for_that_one_alone() -> None:
    assert ids(on_day(1), on_day(2, PINNED_OTHERWISE, failed=True)) == ["day1", "day2"]


def test_the_ladder_of_records_in_any_order_has_the_newest() -> None:
    (ladder,) = make_ladders([on_day(3), on_day(1), on_day(2, EARLY, failed=True)])
    assert [row.record for row in ladder.rows] == ["day3"]
