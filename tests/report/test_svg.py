"""Pictures: of a ladder, whose bars are its figures; of a suite, where twice and half as much are equally far."""

from xml.etree import ElementTree

import pytest
from builders import make_case, make_failure, make_record, make_round
from suite_records import failed, record, records

from tare.errors import BadInput
from tare.records.record import Net, Record
from tare.report.formats import get_record_format
from tare.report.formats.svg import BETTER, WORSE
from tare.report.svg import LONGEST_LINE

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


def test_a_record_without_a_time_is_nothing_to_draw() -> None:
    failure = make_failure()
    with pytest.raises(BadInput, match="nothing to draw"):
        draw(make_record(rounds=[make_round(0, series=[], failure=failure)], failure=failure))
    with pytest.raises(BadInput, match="nothing to draw"):
        draw()


def ladder_record(rung: str, step_s: float, share: float | None = None) -> Record:
    net = Net(steps=3, share=share) if share is not None else None
    return make_record(make_case(rung=rung), rounds=[make_round(i, step_s, net=net) for i in range(3)], id=rung)


def test_the_bars_of_a_ladder_are_gross_split_into_net_and_tare() -> None:
    picture = draw(ladder_record("eager", 4e-3, 0.25), ladder_record("compile", 1e-3))
    found = bars(picture)
    net, tare = found["eager: net 1.0 ms"], found["eager: tare 3.0 ms, 75% of gross"]
    compiled = next(bar for tip, bar in found.items() if tip.startswith("compile: gross 1.0"))
    assert net[1] == pytest.approx(tare[0], abs=0.2), "tare begins where net ends"
    assert tare[1] - net[0] == pytest.approx(4 * (compiled[1] - compiled[0]), abs=1)
    assert net[0] == compiled[0], "all bars begin at zero"
    said = words(picture)
    assert {"eager", "compile", "1.00x", "4.00x", "same, 3 of 3", "net: the device computes"} <= set(said)
    assert "prefers-color-scheme:dark" in get_record_format("svg")([ladder_record("eager", 1e-3)])


def test_the_ladders_of_one_workload_stand_below_each_other_with_what_failed() -> None:
    failure = make_failure()
    rounds = [make_round(0, series=[], failure=failure)]
    broken = make_record(make_case(rung="aot"), rounds=rounds, failure=failure)
    other = make_record(make_case(batch=1), id="other")
    picture = draw(ladder_record("eager", 1e-3), broken, other)
    assert len(list(picture.iter(f"{SVG}g"))) == 2
    assert "aot failed: exception in prepare: it broke" in words(picture)
