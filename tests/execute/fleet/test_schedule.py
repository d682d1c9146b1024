"""Which node measures which ladder: pure decisions."""

from builders import make_case
from hypothesis import given
from hypothesis import strategies as st

from tare.cases.case import Case
from tare.execute.fleet.schedule import MOST_LOSSES, MOST_RESTARTS, LadderPortion, Schedule, make_portions

A, B, C = (make_case(rung=rung) for rung in ("eager", "torchscript", "compile"))
LATER = make_case(batch=64)
SAME_KIND = {"one": "x", "two": "x"}


def portion(*cases: Case, able: tuple[str, ...] = ("one", "two")) -> LadderPortion:
    return LadderPortion(list(cases), list(able))


def test_a_ladder_stays_together() -> None:
    both = {A, B, C, LATER}
    first, second = make_portions([A, LATER, B, C], {"one": both, "two": both})
    assert (first.cases, second.cases) == ([A, B, C], [LATER])
    assert first.able == ["one", "two"]


def test_a_ladder_goes_to_the_nodes_that_can_measure_most_of_it() -> None:
    (whole,) = make_portions([A, B, C], {"one": {A, B}, "two": {A, B, C}})
    assert (whole.cases, whole.able) == ([A, B, C], ["two"])


def test_a_ladder_that_no_node_can_measure_whole_is_split() -> None:
    first, rest = make_portions([A, B, C], {"one": {A, B}, "two": {B, C}})
    assert (first.cases, first.able) == ([A, B], ["one"])
    assert (rest.cases, rest.able) == ([C], ["two"])


def test_what_no_node_can_measure_is_in_no_portion() -> None:
    assert make_portions([A], {"one": set(), "two": set()}) == []
    assert make_portions([A, LATER], {"one": {LATER}})[0].cases == [LATER]


def test_every_node_gets_the_next_ladder_in_the_order_of_the_plan() -> None:
    first, second, third = portion(A), portion(LATER), portion(B)
    schedule = Schedule([first, second, third], SAME_KIND)
    assert schedule.assign() == [("one", first), ("two", second)]
    assert schedule.assign() == []
    assert schedule.finish("two") is second
    assert schedule.assign() == [("two", third)]


def test_a_plan_is_measured_by_one_kind_of_nodes_as_long_as_there_is_one() -> None:
    """Records of two kinds are not compared, even where the other nodes would be free."""
    kinds = {"old": "a", "one": "x", "two": "x"}
    ladders = [portion(A, able=("old", "one", "two")), portion(B, able=("old", "one", "two"))]
    only_old = portion(LATER, able=("old",))
    schedule = Schedule([*ladders, only_old], kinds)
    assert schedule.assign() == [("old", only_old), ("one", ladders[0]), ("two", ladders[1])]
    schedule.finish("old")
    for name in ("one", "two"):
        schedule.lose(name, is_gone=True)
    assert schedule.assign() == [("old", ladders[1])]


def test_a_lost_ladder_is_measured_next_and_elsewhere() -> None:
    first, second, third = portion(A), portion(LATER), portion(B)
    schedule = Schedule([first, second, third], SAME_KIND)
    schedule.assign()
    assert schedule.lose("one", is_gone=True) == (first, False)
    schedule.finish("two")
    assert schedule.assign() == [("two", first)]


def test_a_ladder_waits_for_a_node_that_comes_back_with_its_rounds() -> None:
    first, second = portion(A), portion(LATER)
    schedule = Schedule([first, second], SAME_KIND)
    schedule.assign()
    assert schedule.lose("one", is_gone=False) == (first, True)
    schedule.finish("two")
    assert schedule.assign() == []
    assert not schedule.is_over
    schedule.came_back("one")
    assert schedule.assign() == [("one", first)]


def test_a_node_is_started_again_only_so_often() -> None:
    first = portion(A)
    schedule = Schedule([first], {"one": "x"})
    for _ in range(MOST_RESTARTS):
        schedule.assign()
        assert schedule.lose("one", is_gone=False)[1]
        schedule.came_back("one")
    schedule.assign()
    assert schedule.lose("one", is_gone=False) == (first, False)
    assert schedule.is_over
    # It may be the node's fault: nobody is there to tell.
    assert (schedule.pending, schedule.given_up) == ([first], [])


def test_a_ladder_that_ends_one_node_after_another_is_given_up() -> None:
    names = [f"node-{i}" for i in range(MOST_LOSSES + 1)]
    first = portion(A, able=tuple(names))
    schedule = Schedule([first], dict.fromkeys(names, "x"))
    for _ in range(MOST_LOSSES):
        ((name, assigned),) = schedule.assign()
        assert assigned is first
        schedule.lose(name, is_gone=True)
    assert schedule.given_up == [first]
    assert schedule.is_over
    assert len(schedule.usable) == 1


def test_a_ladder_begun_on_a_node_that_is_gone_may_begin_anew() -> None:
    first = portion(A)
    first.home = "one"
    schedule = Schedule([first], SAME_KIND)
    schedule.lose("one", is_gone=True)
    assert schedule.assign() == [("two", first)]


@given(st.data())
def test_whatever_is_lost_every_ladder_is_finished_given_up_or_waiting(data: st.DataObject) -> None:
    names = [f"node-{i}" for i in range(data.draw(st.integers(1, 4)))]
    kinds = {name: data.draw(st.sampled_from("xy")) for name in names}
    portions = [
        portion(make_case(batch=i + 1), able=tuple(data.draw(st.sets(st.sampled_from(names), min_size=1))))
        for i in range(data.draw(st.integers(1, 8)))
    ]
    schedule, finished = Schedule(portions, kinds), list[LadderPortion]()
    for _ in range(200):
        if schedule.is_over:
            break
        for name, assigned in schedule.assign():
            assert name in assigned.able
            assert name in schedule.usable
        restarting = sorted(set(names) & (schedule._usable - schedule.usable))
        events = [("finish", name) for name in sorted(schedule.measuring)]
        events += [("lose", name) for name in sorted(schedule.usable)]
        events += [("back", name) for name in restarting]
        # A node is lost now and then.
        kind, name = data.draw(st.sampled_from([*events[: len(schedule.measuring)] * 4, *events]))
        if kind == "finish":
            finished.append(schedule.finish(name))
        elif kind == "back":
            schedule.came_back(name)
        else:
            schedule.lose(name, data.draw(st.booleans()))
    else:
        raise AssertionError("the schedule never ends")
    places = [*finished, *schedule.given_up, *schedule.pending]
    assert sorted(map(id, places)) == sorted(map(id, portions))
    for waiting in schedule.pending:
        assert not set(waiting.able) & schedule.usable
