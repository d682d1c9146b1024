"""Every rule, on records with known answers."""

from collections.abc import Sequence
from typing import Any

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tare.cases.plan import Skip
from tare.errors import BadInput
from tare.records.record import HostMemory, Parity, Record
from tare.report.formats.mpe import mean_percentage_errors
from tare.studies.evidence import Evidence
from tare.studies.judge import judge_rule
from tare.studies.outcome import PartVerdict
from tare.studies.rules import RULES, StudyRule, make_rule

# Ratios of rounds that scatter by a percent.
QUIET = (1.0, 1.01, 0.99, 1.0, 1.005)
EAGER, COMPILE = ("rung=eager",), ("rung=compile",)
Rule = StudyRule


def record(rung: str, seconds: float, rounds: Sequence[float] = QUIET, **fields: Any) -> Record:
    """A record whose rounds take `seconds` times each of `rounds`."""
    more = {name: fields.pop(name) for name in ("parity", "failure", "environment", "counts") if name in fields}
    case = make_case(rung=rung, **fields)
    counts = more.pop("counts", {})
    made = [make_round(i, seconds * factor, counts=counts) for i, factor in enumerate(rounds)]
    key = f"{abs(hash((case.key, str(more.get('environment')))))}"
    return make_record(case, rounds=made, id=key[:12], **more)


def rule(name: str, **table: Any) -> Rule:
    return make_rule({"rule": name, **table}, "a test")


def judged(wanted: Rule, records: Sequence[Record], **more: Any) -> PartVerdict:
    return judge_rule(wanted, Evidence(records=list(records), **more))


def sides(ratio: float, rounds: Sequence[float] = QUIET, **fields: Any) -> list[Record]:
    """Eager, and compile that takes 1 / ratio of its time."""
    return [
        record("eager", ratio * 1e-3, rounds, **fields),
        record("compile", 1e-3, [1.0] * len(rounds), **fields),
    ]


def test_a_ratio_has_the_interval_between_rounds_and_a_verdict_beside_the_published_one() -> None:
    part = judged(rule("ratio", of=EAGER, to=COMPILE, published=2.0, tolerance=0.1), sides(2.0))
    assert part.outcome == "holds"
    assert part.figure is not None
    assert part.figure.value == pytest.approx(2.0, rel=0.01)
    # Student's interval of five logarithms: 2.776 * 0.0074 / sqrt(5) is 0.9 %.
    assert (part.figure.low, part.figure.high) == pytest.approx((1.98, 2.02), rel=0.005)
    assert (part.figure.rounds, part.figure.points, part.figure.planned, part.figure.unit) == (5, 1, 1, "x")
    assert part.figure.parity == "same"
    assert part.limits == pytest.approx((2 / 1.1, 2.2))
    assert list(part.values.values()) == pytest.approx([2.0], rel=0.01)


@pytest.mark.parametrize(
    ("region", "outcome"),
    [
        ({"published": 2.0, "tolerance": 0.1}, "holds"),
        ({"published": 2.3, "tolerance": 0.1}, "contradicted"),
        ({"published": 2.0, "within": 0.001}, "undecided"),
        ({"at_least": 1.5}, "holds"),
        ({"at_least": 2.0}, "undecided"),
        ({"at_least": 2.5}, "contradicted"),
        ({"at_most": 1.5}, "contradicted"),
        ({"at_least": 1.5, "at_most": 2.5}, "holds"),
    ],
)
def test_an_interval_inside_outside_and_across_the_limits(region: dict[str, float], outcome: str) -> None:
    assert judged(rule("ratio", of=EAGER, to=COMPILE, **region), sides(2.0)).outcome == outcome


@given(
    ratio=st.floats(0.2, 5.0),
    bound=st.floats(0.2, 5.0),
    noise=st.lists(st.floats(0.9, 1.1), min_size=2, max_size=7),
)
def test_no_interval_that_reaches_over_a_limit_decides(ratio: float, bound: float, noise: list[float]) -> None:
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=bound), sides(ratio, noise))
    figure = part.figure
    assert figure is not None
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low <= figure.value <= figure.high
    expected = "holds" if bound <= figure.low else "contradicted" if figure.high < bound else "undecided"
    assert part.outcome == expected


@settings(max_examples=30)
@given(
    ratios=st.lists(st.floats(0.2, 5.0), min_size=1, max_size=4), noise=st.lists(st.floats(0.8, 1.2), min_size=3)
)
def test_swapped_sides_have_the_inverse_ratio(ratios: list[float], noise: list[float]) -> None:
    records = [one for i, ratio in enumerate(ratios) for one in sides(ratio, noise[:6], batch=i + 1)]
    ways = ((EAGER, COMPILE), (COMPILE, EAGER))
    there, back = (judged(rule("ratio", of=of, to=to, at_least=1.0), records).figure for of, to in ways)
    assert there is not None
    assert back is not None
    assert there.low is not None
    assert there.high is not None
    assert (back.low, back.value, back.high) == pytest.approx((1 / there.high, 1 / there.value, 1 / there.low))


@settings(max_examples=30)
@given(ratios=st.lists(st.floats(0.2, 5.0), min_size=1, max_size=5))
def test_the_mean_percentage_error_is_that_of_its_definition(ratios: list[float]) -> None:
    """(first - second) / first, as `tare export --format mpe` computes it."""
    records = [one for i, ratio in enumerate(ratios) for one in sides(ratio, [1.0, 1.0], batch=i + 1)]
    figure = judged(rule("mpe", of=EAGER, to=COMPILE, at_least=0.0), records).figure
    (pair,) = mean_percentage_errors(records)
    assert (pair.first, pair.second) == ("eager", "compile")
    assert figure is not None
    assert (figure.value, figure.least, figure.most) == pytest.approx((pair.mean, pair.least, pair.most))


def test_one_round_is_a_lead_and_not_a_result() -> None:
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), sides(9.0, [1.0]))
    assert (part.outcome, part.reason) == ("missing", "one round is a lead, not a result")
    assert part.figure is not None
    assert part.figure.value == pytest.approx(9.0)
    assert part.figure.low is None


def test_the_mean_over_points_is_geometric_and_says_over_how_many() -> None:
    records = [*sides(2.0, batch=1), *sides(8.0, batch=8), record("eager", 1e-3, batch=64)]
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), records)
    assert part.figure is not None
    assert part.figure.value == pytest.approx(4.0, rel=0.01)
    assert (part.figure.least, part.figure.most) == pytest.approx((2.0, 8.0), rel=0.01)
    assert (part.figure.points, part.figure.planned) == (2, 3)
    assert list(part.missed.values()) == ["no record of rung=compile"]


def test_too_few_points_decide_nothing() -> None:
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0, fewest=2), sides(2.0))
    assert (part.outcome, part.reason) == ("missing", "1 point of the 2 or more that decide this claim")


def test_a_sample_has_the_interval_of_the_mean_over_its_points() -> None:
    """Half of the workloads are twice as fast and half eight times: the mean is 4. One round of each is a lead."""
    ratios = [2.0, 8.0] * 8
    records, leads = (
        [one for i, ratio in enumerate(ratios) for one in sides(ratio, [1.0] * rounds, batch=i + 1)]
        for rounds in (2, 1)
    )
    wanted = rule("ratio", of=EAGER, to=COMPILE, points="sample", published=4.0, tolerance=0.6)
    part = judged(wanted, records)
    assert part.outcome == "holds"
    assert part.figure is not None
    # ln 2 * sqrt(16/15) / 4 * 2.131 = 0.381 on either side of ln 4.
    assert (part.figure.low, part.figure.high) == pytest.approx((4 / 1.464, 4 * 1.464), rel=0.01)
    lead = judged(wanted, leads)
    assert (lead.outcome, lead.reason) == ("undecided", "one round is a lead, not a result")
    few = judged(wanted, records[:14])
    assert (few.outcome, few.reason) == ("missing", "7 points are no sample of others: 8 are")


def test_the_mean_percentage_error_is_negative_where_the_second_is_slower() -> None:
    """(1 - 2) / 1 = -1 at one batch, (1 - 0.5) / 1 = 0.5 at the other."""
    records = [*sides(0.5, batch=1), *sides(2.0, batch=8)]
    part = judged(rule("mpe", of=EAGER, to=COMPILE, published=-0.25, within=0.1), records)
    assert part.outcome == "holds"
    assert part.figure is not None
    assert part.figure.value == pytest.approx(-0.25, abs=0.01)
    assert (part.figure.least, part.figure.most) == pytest.approx((-1.0, 0.5), abs=0.02)
    assert judged(rule("mpe", of=EAGER, to=COMPILE, published=0.5, within=0.1), records).outcome == "contradicted"


def test_the_value_of_one_selection() -> None:
    part = judged(rule("value", of=EAGER, published=3e-3, tolerance=0.1), [record("eager", 3e-3)])
    assert part.outcome == "holds"
    assert part.figure is not None
    assert part.figure.value == pytest.approx(3e-3, rel=0.01)
    assert part.figure.unit == "s"


def test_bytes_at_equal_batches_are_equal_and_one_round_is_enough() -> None:
    records = [
        record("eager", 1e-3, [1.0], batch=16, counts={"bytes_copied": 12_582_912}),
        record("eager", 1e-3, [1.0], batch=32, counts={"bytes_copied": 25_165_824}),
        record("libtorch", 1e-3, [1.0], batch=32, counts={"bytes_copied": 25_165_824}),
    ]
    same = rule("ratio", metric="bytes_copied", of=EAGER, to=("rung=libtorch",), published=2.0, tolerance=0.01)
    part = judged(same, records)
    assert part.outcome == "contradicted"
    assert part.figure is not None
    assert (part.figure.value, part.figure.low, part.figure.high) == (1.0, 1.0, 1.0)
    batches = rule(
        "ratio", metric="bytes_copied", of=(*EAGER, "batch=32"), to=(*EAGER, "batch=16"), differ=["batch"],
        published=2.0, tolerance=0.01,
    )  # fmt: skip
    assert judged(batches, records).outcome == "holds"


def test_a_metric_that_no_record_has_is_named() -> None:
    part = judged(rule("ratio", metric="bytes_copied", of=EAGER, to=COMPILE, at_least=1.0), sides(2.0))
    assert (part.outcome, part.reason) == ("missing", "eager has no bytes_copied")


def test_memory_is_a_metric_like_time() -> None:
    def with_memory(rung: str, peak: int) -> Record:
        memory = HostMemory(peak=peak, prepare_peak=0, start=0, method="x")
        rounds = [make_round(i, host_memory=memory) for i in range(3)]
        return make_record(make_case(rung=rung), rounds=rounds, id=f"memory-{rung}")

    records = [with_memory("eager", 400), with_memory("compile", 100)]
    part = judged(rule("ratio", metric="host_peak", of=COMPILE, to=EAGER, published=0.25, tolerance=0.1), records)
    assert part.outcome == "holds"


def test_each_point_must_keep_the_limit() -> None:
    every = rule("each", of=EAGER, to=COMPILE, at_least=1.0)
    assert judged(every, [*sides(2.0, batch=1), *sides(3.0, batch=8)]).outcome == "holds"
    # The mean is above 1, and one point is not.
    part = judged(every, [*sides(9.0, batch=1), *sides(0.8, batch=8)])
    assert part.outcome == "contradicted"
    assert part.reason.startswith("not at mlp infer fp32 batch=8,width=64")
    assert part.figure is not None
    assert part.figure.value == pytest.approx(0.8, rel=0.01)


def test_a_point_on_the_limit_is_not_decided_and_one_round_never_is() -> None:
    every = rule("each", of=EAGER, to=COMPILE, at_least=1.0)
    assert judged(every, [*sides(2.0, batch=1), *sides(1.0, batch=8)]).outcome == "undecided"
    assert judged(every, [*sides(2.0, [1.0], batch=1), *sides(0.1, [1.0], batch=8)]).outcome == "missing"


def test_a_hundred_points_that_are_equal_do_not_refute_a_limit() -> None:
    """At 95 %, five of a hundred intervals would lie beyond: the p-values are corrected for their number."""
    import random

    draw = random.Random(1)
    records = [
        one for i in range(100) for one in sides(1.0, [draw.gauss(1.0, 0.02) for _ in range(6)], batch=i + 1)
    ]
    assert judged(rule("each", of=EAGER, to=COMPILE, at_most=1.0), records).outcome == "undecided"


def test_no_side_is_the_best_everywhere() -> None:
    mixed = rule("mixed", of=EAGER, to=COMPILE)
    assert judged(mixed, [*sides(2.0, batch=1), *sides(0.5, batch=8)]).outcome == "holds"
    assert judged(mixed, [*sides(2.0, batch=1), *sides(3.0, batch=8)]).outcome == "contradicted"
    assert judged(mixed, [*sides(2.0, batch=1), *sides(0.97, (1.0, 1.2, 0.8), batch=8)]).outcome == "undecided"
    assert judged(mixed, [*sides(2.0, [1.0], batch=1), *sides(0.5, [1.0], batch=8)]).outcome == "missing"


def test_two_machines_are_compared_where_the_environment_differs() -> None:
    other = replace(ENVIRONMENT, machine={**ENVIRONMENT.machine, "cpu": "another"})
    here = [record("eager", 2e-3, batch=1), record("eager", 1e-3, batch=8), record("eager", 1e-3, batch=9)]
    there = [record("eager", 1e-3, batch=1, environment=other), record("eager", 2e-3, batch=8, environment=other)]
    between = rule("mixed", of=EAGER, differ=["environment"])
    part = judged(between, [*here, *there])
    assert part.outcome == "holds"
    assert part.figure is not None
    assert (part.figure.least, part.figure.most) == pytest.approx((0.5, 2.0))
    assert (part.figure.points, part.figure.planned) == (2, 3)
    assert part.figure.machine == "test-cpu (2 cores), torch 2.10.0, another (2 cores), torch 2.10.0"
    assert judged(between, here).reason == "there are records of one machine: give those of two"
    # Without that, records of two machines are never compared.
    assert judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), [here[0], there[0]]).figure is None


def trend_records(ratios: dict[int, float], **fields: Any) -> list[Record]:
    return [one for batch, ratio in ratios.items() for one in sides(ratio, batch=batch, **fields)]


@pytest.mark.parametrize(
    ("ratios", "direction", "outcome"),
    [
        ({8: 3.4, 64: 2.0, 512: 1.05}, "falls", "holds"),
        ({8: 3.4, 64: 2.0, 512: 1.05}, "rises", "contradicted"),
        # It falls from end to end, and rises between.
        ({8: 3.0, 64: 4.0, 512: 1.05}, "falls", "contradicted"),
        ({8: 1.0, 64: 1.001, 512: 1.0}, "falls", "contradicted"),
        ({8: 1.0, 64: 1.5, 512: 2.0}, "rises", "holds"),
        ({8: 2.0}, "falls", "missing"),
    ],
)
def test_a_trend_over_the_batch(ratios: dict[int, float], direction: str, outcome: str) -> None:
    trend = rule("trend", of=EAGER, to=COMPILE, axis="batch", direction=direction)
    part = judged(trend, trend_records(ratios))
    assert part.outcome == outcome
    if len(ratios) > 1:
        assert part.figure is not None
        assert part.figure.value == pytest.approx(
            list(ratios.values())[-1] / next(iter(ratios.values())), rel=0.03
        )


def test_a_trend_that_noise_hides_is_not_decided() -> None:
    noisy = [
        *sides(1.2, (1.0, 1.4, 0.7), batch=8),
        *sides(1.0, (1.1, 0.8, 1.0), batch=512),
    ]
    trend = rule("trend", of=EAGER, to=COMPILE, axis="batch", direction="falls")
    assert judged(trend, noisy).outcome == "undecided"


def test_a_trend_over_a_size_without_a_second_side_and_over_the_common_values() -> None:
    """A series that ends earlier counts as far as it goes."""
    records = [record("eager", width * 1e-5, sizes={"width": width}) for width in (16, 32, 64)]
    records += [record("compile", width * 1e-6, sizes={"width": width}) for width in (16, 32)]
    part = judged(rule("trend", of=("workload=mlp",), axis="width", direction="rises"), records)
    assert part.outcome == "holds"
    assert part.figure is not None
    assert part.figure.value == pytest.approx(2.0)


def test_what_cannot_be_run() -> None:
    broken = record("torchscript", 1e-3, failure=make_failure(message="no gradients"))
    refused = record("torchscript", 1e-3, batch=8, failure=make_failure(cause="unsupported", message="cannot"))
    absent = record("torchscript", 1e-3, failure=make_failure(cause="not-installed", message="no torch"))
    wrong = record("torchscript", 1e-3, parity=Parity(status="different", error=1.0))
    fails = rule("fails", of=("rung=torchscript",))
    assert judged(fails, [broken, refused]).outcome == "holds"
    assert judged(fails, [broken, record("torchscript", 1e-3, batch=9)]).outcome == "contradicted"
    assert judged(fails, [absent]).outcome == "impossible"
    assert judged(fails, [wrong]).outcome == "undecided"
    assert judged(fails, []).outcome == "missing"


def test_what_failed_or_differs_is_left_out_with_its_reason() -> None:
    wrong = [
        record("eager", 2e-3),
        record("compile", 1e-9, parity=Parity(status="different", error=1.0)),
    ]
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), wrong)
    assert (part.outcome, part.reason) == ("missing", "compile does not compute the same (different)")
    full = [
        record("eager", 2e-3),
        record("compile", 1e-3, failure=make_failure(cause="device-oom", message="full")),
    ]
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), full)
    assert (part.outcome, part.reason) == ("missing", "compile: device-oom: full")


def test_a_rung_that_nobody_has_checked_decides_nothing() -> None:
    unchecked = Parity(status="unchecked", reason="not asked for")
    fast = [record("eager", 9e-3, parity=unchecked), record("compile", 1e-3, parity=unchecked)]
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), fast)
    assert (part.outcome, part.reason) == (
        "missing", "the parity of compile was not checked: a lead, not a result"
    )  # fmt: skip
    eager = [record("eager", 9e-3, parity=unchecked), record("eager", 1e-3, parity=unchecked, threads=1)]
    threads = rule("ratio", of=EAGER, to=(*EAGER, "threads=1"), differ=["threads"], at_least=1.0)
    part = judged(threads, eager)
    assert part.outcome == "holds"
    assert part.figure is not None
    assert part.figure.parity == "unchecked"


def test_what_a_machine_cannot_run_is_not_testable_there() -> None:
    refused = [
        record("eager", 1e-3),
        record("jax", 1.0, failure=make_failure(cause="unsupported", message="no LSTM")),
    ]
    wanted = rule("ratio", of=EAGER, to=("rung=jax",), at_least=1.0)
    assert judged(wanted, refused).outcome == "impossible"
    skips = [
        Skip("mlp/jax/infer/cpu/fp32/batch=32,width=64/feed=device,layout=contiguous", "not-installed", "no JAX")
    ]
    part = judged(wanted, [record("eager", 1e-3)], skips=skips)
    assert (part.outcome, part.reason) == ("impossible", "no JAX")


def test_the_installation_with_most_points_counts_and_the_newest_of_as_many() -> None:
    newer = replace(ENVIRONMENT, software={**ENVIRONMENT.software, "torch": "2.11.0"})
    old = sides(2.0)
    new = [replace(each, created="2027-01-01T00:00:00+00:00") for each in sides(3.0, environment=newer)]
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), [*new, *old])
    assert part.figure is not None
    assert part.figure.value == pytest.approx(3.0, rel=0.01)
    more = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), [*new, *old, *sides(2.0, batch=1)])
    assert more.figure is not None
    assert more.figure.value == pytest.approx(2.0, rel=0.01)


def test_sides_of_one_run_are_compared_rather_than_the_newest_of_each() -> None:
    """Between two days a machine changes, and rounds of one run were interleaved."""
    newest = replace(record("compile", 9e-3), run="later", created="2027-01-01T00:00:00+00:00")
    part = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), [*sides(2.0), newest])
    assert part.figure is not None
    assert part.figure.value == pytest.approx(2.0, rel=0.01)
    alone = judged(rule("ratio", of=EAGER, to=COMPILE, at_least=1.0), [sides(2.0)[0], newest])
    assert alone.figure is not None
    assert alone.figure.value == pytest.approx(2 / 9, rel=0.01)


def test_a_side_with_two_cases_for_one_point_is_refused() -> None:
    records = [record("eager", 1e-3), record("compile", 1e-3), record("compile:max", 1e-3)]
    with pytest.raises(BadInput, match="a side of the rule has two cases for one point, "):
        judged(rule("ratio", of=EAGER, to=("rung=compile,compile:max",), at_least=1.0), records)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rule": "eval"}, "unknown rule 'eval' in a test"),
        ({}, "unknown rule 'None' in a test"),
        ({"rule": "ratio", "to": COMPILE, "at_least": 1}, "a test: "),
        ({"rule": "ratio", "of": EAGER, "at_least": 1}, "a test: the rule 'ratio' takes a second selection"),
        ({"rule": "ratio", "of": EAGER, "to": COMPILE}, "either tolerance, or within, or at_least and at_most"),
        (
            {"rule": "ratio", "of": EAGER, "to": COMPILE, "tolerance": 0.1},
            "'tolerance' is about a published number",
        ),
        ({"rule": "ratio", "of": EAGER, "to": COMPILE, "at_least": 2, "at_most": 1}, "no value is from 2 to 1"),
        (
            {"rule": "ratio", "of": EAGER, "to": COMPILE, "metric": "speed", "at_least": 1},
            "unknown metric 'speed'",
        ),
        ({"rule": "ratio", "of": ["mode=run"], "to": COMPILE, "at_least": 1}, "a test: unknown mode 'run'"),
        ({"rule": "value", "of": EAGER, "to": COMPILE, "at_least": 1}, "the rule 'value' has one selection"),
        ({"rule": "fails", "of": EAGER, "at_least": 1}, "the rule 'fails' takes no at_least"),
        ({"rule": "trend", "of": EAGER, "axis": "batch", "direction": "up"}, "unknown direction 'up'"),
        ({"rule": "each", "of": EAGER, "to": COMPILE, "at_least": -1}, "a limit of the rule 'each' is above 0"),
        ({"rule": "ratio", "of": EAGER, "to": COMPILE, "at_lest": 1}, "unknown key 'at_lest' in a test"),
    ],
)
def test_a_wrong_rule_is_one_line(table: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        make_rule(table, "a test")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_set_of_rules_is_closed() -> None:
    assert sorted(RULES) == [
        "accuracy", "coverage", "depth", "each", "fails", "mixed", "mpe", "ratio", "share", "trend", "value",
    ]  # fmt: skip
