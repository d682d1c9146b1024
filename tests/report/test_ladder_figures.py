"""A ladder's figures: who is compared with whom, who never is, and what a reader is told."""

from typing import Any

import msgspec
import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round, make_series

from tare.records.environment import Environment
from tare.records.record import NOT_ASKED_FOR, BatchPoint, BatchSearch, Net, Parity, Record, Telemetry
from tare.report.ladder import Ladder, Row, make_ladders, row_cells
from tare.report.notes import NOT_COMPARED


def record(rung: str, *steps_s: float, **overrides: Any) -> Record:
    return make_record(make_case(rung=rung), steps_s or (1e-3, 1e-3), **overrides)


def one(*records: Record) -> Ladder:
    (ladder,) = make_ladders(records)
    return ladder


def rows(*records: Record) -> dict[str, Row]:
    return {row.rung: row for row in one(*records).rows}


def parity(status: Any, **fields: Any) -> Parity:
    defaults: dict[str, Any] = {"error": 0.01, "tolerance": 1e-4, "worst": "output/0", "compared": 3}
    return Parity(status=status, **(defaults | fields))


def notes(*records: Record) -> str:
    return "\n".join(one(*records).notes)


def test_speeds_are_relative_to_eager_and_to_the_best() -> None:
    found = rows(record("eager", 8e-3, 8e-3), record("compile", 2e-3, 2e-3), record("cudagraph", 4e-3, 4e-3))
    assert [row.speedup_over_eager for row in found.values()] == pytest.approx([1, 4, 2])
    assert [row.speed_of_best for row in found.values()] == pytest.approx([0.25, 1, 0.5])


@pytest.mark.parametrize("status", ["different", "nan"])
def test_a_rung_that_computes_something_else_is_never_faster(status: str) -> None:
    found = rows(record("eager", 8e-3, 8e-3), record("compile", 1e-3, 1e-3, parity=parity(status)))
    wrong = found["compile"]
    assert wrong.gross is not None
    assert (wrong.parity, wrong.speedup_over_eager, wrong.speed_of_best) == (status, None, None)
    assert found["eager"].speed_of_best == 1


def test_nothing_is_compared_with_an_eager_that_is_wrong() -> None:
    found = rows(record("eager", 8e-3, 8e-3, parity=parity("nan")), record("compile", 1e-3, 1e-3))
    assert (found["compile"].speedup_over_eager, found["compile"].speed_of_best) == (None, 1)


def test_without_eager_there_is_still_a_best() -> None:
    found = rows(record("compile", 1e-3, 1e-3), record("cudagraph", 2e-3, 2e-3))
    assert (found["cudagraph"].speedup_over_eager, found["cudagraph"].speed_of_best) == (None, 0.5)


def test_a_time_of_zero_compares_with_nothing() -> None:
    nothing = make_round(series=[make_series("pipelined", 0.0)])
    found = rows(record("eager", 1e-3, 1e-3), record("compile", rounds=[nothing, nothing]))
    assert (found["compile"].speedup_over_eager, found["compile"].speed_of_best) == (None, None)
    assert found["eager"].speed_of_best == 1


def test_a_failed_rung_is_listed_with_its_cause() -> None:
    failure = make_failure(cause="device-oom", message="CUDA out of memory", stage="sample")
    broken = record("compile", rounds=[make_round(series=[], failure=failure)], failure=failure)
    found = rows(record("eager"), broken)["compile"]
    assert found.failure == "device-oom in sample: CUDA out of memory"
    assert (found.gross, found.speedup_over_eager, found.rounds) == (None, None, "0 of 1")


def test_a_failure_before_any_stage_is_in_the_start() -> None:
    failure = make_failure(cause="timeout", message="stopped after 5 s", stage="")
    broken = record("compile", rounds=[make_round(series=[], failure=failure)], failure=failure)
    assert rows(broken)["compile"].failure == "timeout in start: stopped after 5 s"


def test_ladders_are_grouped_by_all_but_the_rung_and_the_newest_counts() -> None:
    old, new = record("eager", 9e-3, 9e-3, id="old"), record("eager", 1e-3, 1e-3, id="new")
    other = make_record(make_case(batch=64))
    found = make_ladders([old, other, record("compile"), new])
    assert [[row.rung for row in ladder.rows] for ladder in found] == [["eager", "compile"], ["eager"]]
    assert found[0].rows[0].record == "new"


def test_a_clean_ladder_has_no_notes() -> None:
    assert one(record("eager"), record("compile")).notes == []


def test_runs_that_were_not_interleaved_are_named() -> None:
    found = notes(record("eager", run="monday"), record("compile", run="tuesday"))
    assert "measured in different runs, not interleaved" in found


def test_two_gpus_of_one_kind_are_told_apart() -> None:
    def on(uuid: str) -> Environment:
        return msgspec.structs.replace(ENVIRONMENT, circumstances={"gpu_uuid": uuid})

    apart = notes(record("eager", environment=on("a")), record("compile", environment=on("b")))
    assert "on different GPUs of one kind" in apart
    assert not notes(record("eager", environment=on("a")), record("compile", environment=on("a")))


def test_what_comes_from_another_environment_stands_in_a_ladder_of_its_own() -> None:
    newer = msgspec.structs.replace(ENVIRONMENT, software={**ENVIRONMENT.software, "torch": "2.11.0"})
    first, second = make_ladders([record("eager"), record("compile", environment=newer)])
    assert [row.rung for row in first.rows] == ["eager"]
    assert second.rows[0].speedup_over_eager is None
    assert "another environment" in second.notes[0]
    assert "software.torch" in second.notes[0]


def test_a_rung_that_failed_before_its_flags_were_pinned_stays_in_the_ladder() -> None:
    bare = msgspec.structs.replace(ENVIRONMENT, flags={})
    failed = record("compile", environment=bare, failure=make_failure())
    assert len(make_ladders([record("eager"), failed])) == 1


def test_one_round_knows_no_noise_between_processes() -> None:
    ladder = one(record("eager", 1e-3))
    assert ladder.rows[0].gross is not None
    assert not ladder.rows[0].gross.sound
    assert "one round: the noise between processes is not known" in ladder.notes[0]


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (parity("different"), "compile: does not compute the same: output/0 is off by 0.01 (tolerance 0.0001)"),
        (parity("different", error=1e300), "output/0 is missing, of another shape or infinitely far off"),
        (parity("different", error=None, tolerance=None), "output/0 is different"),
        (parity("nan", error=1e300), "output/0 is not finite where the reference is"),
        (
            parity("same", undecided=2),
            "compile: 2 of 5 tensors prove nothing, because eager fp32 itself is rounding noise",
        ),
        (
            Parity(status="unchecked", reason="the reference failed"),
            "compile: was not checked: the reference failed",
        ),
    ],
)
def test_parity_is_explained(verdict: Parity, text: str) -> None:
    assert text in notes(record("eager"), record("compile", parity=verdict))


def test_throttling_is_told_with_what_became_of_it() -> None:
    some = make_round(throttled={"pipelined": [0, 1]})
    most = make_round(throttled={"pipelined": [0, 1, 2, 3, 4, 5, 6, 7]})
    kept = "80% of its samples were taken under throttling, and kept, because there are too few others"
    out = "20% of its samples were taken under throttling, and excluded"
    assert notes(record("eager", rounds=[some, some])) == f"eager: {out}"
    assert notes(record("eager", rounds=[most, most])) == f"eager: {kept}"


def test_rounds_that_failed_beside_good_ones_are_counted() -> None:
    bad = make_round(2, series=[], failure=make_failure(cause="signal"))
    mixed = record("eager", rounds=[make_round(0), make_round(1), bad])
    assert one(mixed).rows[0].rounds == "2 of 3"
    assert notes(mixed) == "eager: 2 of 3 rounds succeeded (signal)"


def test_what_a_rung_said_is_told_once() -> None:
    spoken = [make_round(i, notes=["graph breaks: 2"]) for i in range(2)]
    assert one(record("compile", rounds=spoken)).notes == ["compile: graph breaks: 2"]


def test_rungs_of_which_the_same_is_true_share_a_note() -> None:
    unchecked = parity("unchecked", reason="not asked for")
    records = [make_record(make_case(rung=rung), parity=unchecked) for rung in ("eager", "compile")]
    assert make_ladders(records)[0].notes[-1] == f"all rungs: {NOT_COMPARED}"
    mixed = [*records, make_record(make_case(rung="cudagraph"))]
    assert f"eager, compile: {NOT_COMPARED}" in make_ladders(mixed)[0].notes


def test_a_cpu_that_changes_its_speed_is_noted() -> None:
    calm, rough = (make_round(telemetry=Telemetry(cpu_pace=pace)) for pace in (1.05, 0.6))
    assert not any("speed" in note for note in make_ladders([make_record(rounds=[calm])])[0].notes)
    assert any("speed changed" in note for note in make_ladders([make_record(rounds=[rough])])[0].notes)


def test_the_curve_of_a_search_says_what_has_no_rate() -> None:
    """An imported record may hold a point that neither failed nor was timed."""
    out = make_failure(cause="device-oom")
    rounds = [make_round(0, 1e-5), make_round(0, series=[]), make_round(0, failure=out)]
    points = [BatchPoint(batch=2**i, round=done) for i, done in enumerate(rounds)]
    search = BatchSearch(chosen=1, stop="memory", points=points, rung="eager")
    assert one(record("eager", search=search)).notes == [
        "batch 1 was found on eager, until memory ended (1: 100,000/s, 2: -, 4: device-oom)"
    ]


def test_a_search_that_found_nothing_says_so() -> None:
    points = [BatchPoint(batch=2**i, round=make_round(0, failure=make_failure())) for i in range(3)]
    search = BatchSearch(chosen=1, stop="failure", points=points, rung="eager")
    failed = record("eager", rounds=[make_round(0, failure=make_failure())], search=search)
    assert one(failed).notes[0] == "no batch worked on eager (1: exception, 2: exception, 4: exception)"


def profiled(rung: str, step_s: float, **net: Any) -> Record:
    rounds = [make_round(0, step_s, net=Net(**net)), make_round(1, step_s)]
    return record(rung, rounds=rounds)


def test_tare_is_gross_minus_net() -> None:
    found = rows(
        profiled("eager", 8e-3, busy_s=2e-3, steps=5),
        profiled("torchscript", 4e-3, share=0.75, steps=5),
        profiled("compile", 1e-3, reason="nothing sees into it"),
        record("cudagraph"),
    )
    assert [row.net_s for row in found.values()] == [pytest.approx(2e-3), pytest.approx(3e-3), None, None]
    assert [row.tare_s for row in found.values()] == [pytest.approx(6e-3), pytest.approx(1e-3), None, None]
    assert found["eager"].tare_share == pytest.approx(0.75)
    assert found["compile"].net_reason == "nothing sees into it"


def test_a_missing_net_and_an_upper_bound_are_explained() -> None:
    text = notes(
        profiled("compile", 1e-3, reason="nothing sees into it"),
        profiled("vendor:graph", 1e-3, busy_s=0.9e-3, upper_bound=True, method="the graph's time with its gaps"),
    )
    assert "compile: no net: nothing sees into it" in text
    assert "vendor:graph: net is an upper bound: the graph's time with its gaps" in text


def test_kernels_that_are_slower_under_the_profiler_do_not_make_tare_negative() -> None:
    slow = profiled("eager", 1e-3, busy_s=1.2e-3)
    assert rows(slow)["eager"].tare_s == 0
    assert notes(slow) == "eager: its kernels took 1.2 ms while profiled, longer than a step: net is gross"


def test_a_busy_machine_is_named_with_its_load_and_the_spread() -> None:
    busy = make_round(0, 1e-3, telemetry=Telemetry(cpu_other_load=0.37, cpu_steal=0.04, other_gpu_processes=1))
    calm = make_round(1, 1.1e-3, telemetry=Telemetry(cpu_other_load=0.01, cpu_steal=0.0, other_gpu_processes=0))
    assert notes(record("eager", rounds=[busy, calm])) == (
        "this machine was busy: other processes used 37% of its cores, the hypervisor took 4% of its CPU time, 1 "
        "other process on the GPU; times spread by up to 0% within a round (interquartile) and 10% between rounds"
    )
    assert notes(record("eager", rounds=[calm, calm])) == ""


def test_rounds_that_disagree_are_named_even_on_a_calm_machine() -> None:
    text = notes(record("eager", 1e-3, 1.3e-3))
    assert text.startswith("the machine was unsteady: times spread by up to 0% within a round")


def test_what_each_rung_optimises_is_on_the_ladder() -> None:
    ladder = one(record("eager"), record("compile"), record("of_a_plug_in_that_is_not_here"))
    assert ladder.optimised == "optimised: eager: nothing; compile: operators fused by Inductor"
    assert one(record("eager")).optimised == ""


def test_a_rung_that_could_not_be_checked_has_no_ratios_where_a_check_was_asked_for() -> None:
    sampling = Parity(status="unchecked", reason="a step draws random numbers")
    not_asked = Parity(status="unchecked", reason=NOT_ASKED_FOR)
    records = [
        make_record(make_case(rung=rung), (step,), id=f"record{step:.4f}", parity=status)
        for rung, step, status in [
            ("eager", 4e-3, make_record().parity),
            ("torchscript", 2e-3, not_asked),
            ("compile", 1e-3, sampling),
        ]
    ]
    (ladder,) = make_ladders(records)
    found = {row.rung: row for row in ladder.rows}
    assert found["torchscript"].speedup_over_eager == pytest.approx(2)
    # The unchecked rung would be the best, and is not.
    assert found["torchscript"].speed_of_best == pytest.approx(1)
    assert (found["compile"].speedup_over_eager, found["compile"].speed_of_best) == (None, None)
    assert found["compile"].unchecked == "a step draws random numbers"
    assert row_cells(found["compile"])["x eager"] == "-"
    assert "compile: was not checked: a step draws random numbers" in ladder.notes
    # Nor can others be compared with an eager that was not checked.
    (without_eager,) = make_ladders([msgspec.structs.replace(records[0], parity=sampling), *records[1:]])
    assert [row.speedup_over_eager for row in without_eager.rows] == [None, None, None]
