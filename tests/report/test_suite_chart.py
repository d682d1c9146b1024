"""The picture of a suite: a bar a figure, as far to the right for twice as much as to the left for half of it."""

from xml.etree import ElementTree

import pytest
from builders import make_case, make_failure, make_record, make_round
from suite_records import failed, record, records

from tare.errors import BadInput
from tare.records.record import Record
from tare.report.formats import get_record_format
from tare.report.formats.svg import BETTER, LONGEST_LINE, WORSE

SVG = "{http://www.w3.org/2000/svg}"
Bar = tuple[float, float, str]


def draw(*drawn: Record) -> ElementTree.Element:
    return ElementTree.fromstring(get_record_format("svg")(drawn))


def bars(picture: ElementTree.Element) -> dict[str, Bar]:
    """Where each begins and ends, and its colour, by what it says of itself."""
    found = {}
    for one in picture.iter(f"{SVG}rect"):
        if (title := one.find(f"{SVG}title")) is not None:
            x, width = float(one.attrib["x"]), float(one.attrib["width"])
            found[title.text or ""] = (x, x + width, one.attrib["fill"])
    return found


def words(picture: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in picture.iter(f"{SVG}text")]


def test_bars_begin_at_one_and_end_where_their_figures_are() -> None:
    picture = draw(
        record("a", "eager", 2e-3, 100), record("a", "compile", 1e-3, 100),
        record("b", "eager", 1e-3, 100), record("b", "compile", 2e-3, 100),
    )  # fmt: skip
    found = bars(picture)
    faster, slower = found["a: 2.00x"], found["b: 0.500x"]
    assert faster[0] == pytest.approx(slower[1], abs=0.2), "both begin at the line of eager"
    assert faster[1] - faster[0] == pytest.approx(slower[1] - slower[0], abs=0.2)
    assert (faster[2], slower[2]) == (BETTER, WORSE)


def test_of_a_long_cause_the_beginning_is_shown() -> None:
    long = make_failure(cause="exception", message="wrong. " * 100)
    rounds = [make_round(0, series=[], failure=long)]
    broken = record("b", "compile", 1.0, rounds=rounds, failure=long)
    said = words(draw(*records()[:2], record("b", "eager", 1e-3), broken))
    (shown,) = (line for line in said if line.startswith("b: compile failed: exception"))
    assert len(shown) == LONGEST_LINE
    assert shown.endswith("…")


def test_more_memory_is_worse_and_less_is_better() -> None:
    found = bars(draw(*records()))
    assert found["a: 4.00x"][2] == BETTER, "of time"
    assert (found["a: 2.00x"][2], found["b: 0.500x"][2]) == (WORSE, BETTER), "of the host's memory"
    assert found["b: 4.00x"][2] == WORSE, "of the device's"


def test_the_means_say_of_how_many_and_what_was_left_out_has_its_cause() -> None:
    said = words(draw(*records()))
    assert "2.00x over 2 of 6" in said
    assert {
        "c: compile failed: device-oom in prepare: no room",
        "d: compile does not compute the same (different)",
    } <= set(said)


def test_the_fastest_comes_first_and_suites_stand_below_each_other() -> None:
    steps = {("p", "eager"): 1e-3, ("p", "compile"): 1e-3, ("q", "eager"): 3e-3, ("q", "compile"): 1e-3}
    trained = [
        record(name, rung, step, case=make_case(workload=name, rung=rung, device="cuda", mode="train"))
        for (name, rung), step in steps.items()
    ]
    picture = draw(*records(), *trained)
    said = words(picture)
    assert said.index("q") < said.index("p")
    places = [one.attrib["transform"] for one in picture.iter(f"{SVG}g")]
    assert len(places) == len(set(places)) == 2


def test_what_a_failure_says_gives_no_orders_to_the_picture() -> None:
    failure = make_failure(message="<script>&\x1b[31m\x00")
    broken = record("a", "compile", 1.0, rounds=[make_round(0, series=[], failure=failure)], failure=failure)
    (said,) = (
        one for one in words(draw(record("a", "eager", 1.0), broken, record("b", "eager", 1.0))) if "&" in one
    )
    assert "<script>&" in said
    assert said.isprintable()


def test_where_nothing_ran_on_both_sides_the_causes_are_all_there_is() -> None:
    picture = draw(
        record("a", "eager", 1.0), failed("a", "compile"), record("b", "eager", 1.0), failed("b", "compile")
    )
    assert not bars(picture)
    assert "a: compile failed: device-oom in prepare: no room" in words(picture)


def test_one_workload_or_none_is_no_suite() -> None:
    with pytest.raises(BadInput, match="nothing to draw"):
        draw(make_record())
    with pytest.raises(BadInput, match="nothing to draw"):
        draw()
