"""What the terminal shows: never over 100 columns, never a figure cut, no colour where there is none."""

from collections.abc import Callable
from typing import Any

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round
from msgspec.structs import replace
from rich.text import Text

from tare.cases.plan import Skip
from tare.records.record import DeviceMemory, HostMemory, Parity, Record
from tare.report.ladder import ladder_view, make_ladders, title
from tare.report.overview import skipped_view, table_view
from tare.report.terminal import WIDTH, make_console, plain_text
from tare.rungs.registry import every_name

GIB = 2**30
DIFFERENT = Parity(
    status="different", error=0.5, tolerance=1e-4, worst="gradient/layer4.2.conv3.weight", compared=9
)


@pytest.fixture(autouse=True)
def _no_forced_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def full_record(rung: str, *steps_s: float, **overrides: Any) -> Record:
    """Every cell as wide as it gets: four digits, three of memory, minutes of preparation, both caches."""
    rounds = [
        make_round(
            i,
            step_s,
            prepare_s=123.4,
            cache="warm" if i else "cold",
            host_memory=HostMemory(peak=1000 * 2**20, prepare_peak=0, start=0, method="x"),
            device_memory=DeviceMemory(reserved_peak=int(99.9 * GIB)),
        )
        for i, step_s in enumerate(steps_s)
    ]
    return make_record(make_case(rung=rung, device="cuda"), rounds=rounds, **overrides)


def render(*records: Record, capsys: pytest.CaptureFixture[str]) -> str:
    console = make_console()
    for ladder in make_ladders(records):
        console.print(ladder_view(ladder))
    return capsys.readouterr().out


def crowded(capsys: pytest.CaptureFixture[str], rungs: list[str]) -> str:
    records = [full_record("eager", 0.9876, 0.9877, 0.9878)]
    records += [full_record(rung, 1.2341e-3, 1.2342e-3, 1.2343e-3) for rung in rungs if rung != "eager"]
    records.append(full_record("wrong", 2.3451e-6, 2.3452e-6, parity=DIFFERENT))
    return render(*records, capsys=capsys)


def test_the_widest_ladder_fits_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    text = crowded(capsys, [*every_name(), "extension_rung:with-a-long-variant"])
    assert max(map(len, text.splitlines())) <= WIDTH == 100
    assert "…" not in text
    for cell in ("1.234 ±0.001 ms", "1.543 ms", "800x", "123 s", "0.98G", "99.9G", "DIFFERENT", "parity"):
        assert cell in text
    # A variant stands under its rung, whole.
    assert "reduce-overhead" in text
    assert "max-autotune" in text


def test_the_longest_legal_name_of_a_rung_is_folded_and_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    name = "J" * 60 + ":" + "Q" * 59
    text = crowded(capsys, [name])
    assert max(map(len, text.splitlines())) <= WIDTH
    table = text.partition("note:")[0]
    assert (table.count("J"), table.count("Q"), "…" in text) == (60, 59, False)


def test_a_ladder_with_room_keeps_names_on_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = render(make_record(make_case(rung="compile:reduce-overhead")), capsys=capsys)
    assert "\ncompile:reduce-overhead  1.00 ±0.02 ms" in text


def test_two_rounds_that_disagree_do_not_break_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = render(full_record("eager", 1e-3, 1e-1), full_record("compile", 1e-3, 1e-3), capsys=capsys)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "…" not in text


def test_long_notes_and_failures_are_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    failure = make_failure(message="word " * 90)
    broken = full_record("compile", failure=failure)
    noisy = make_record(rounds=[make_round(notes=["note " * 50]), make_round(1)])
    text = render(broken, noisy, capsys=capsys)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert (text.count("word"), text.count("note ") + text.count("note\n")) == (90, 50)


def test_no_colour_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in crowded(capsys, list(every_name()))


def test_columns_that_say_nothing_here_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = render(make_record(), capsys=capsys)
    assert "prepare" in text
    assert not {"device", "warm", "host"} & set(text.splitlines()[2].split())


def test_a_failed_rung_is_under_the_table_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    failure = make_failure(cause="timeout", message="stopped after 5 s", stage="sample")
    broken = make_record(
        make_case(rung="compile"), rounds=[make_round(series=[], failure=failure)], failure=failure
    )
    text = render(make_record(), broken, capsys=capsys)
    assert "  compile failed: timeout in sample: stopped after 5 s" in text.splitlines()


def test_a_ladder_of_failures_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    failure = make_failure()
    text = render(make_record(rounds=[make_round(series=[], failure=failure)], failure=failure), capsys=capsys)
    assert "parity" not in text
    assert "eager failed: exception in prepare: it broke" in text


def test_the_title_names_all_that_is_not_usual() -> None:
    plain = make_case(sizes={})
    assert title(plain) == "mlp · infer · cpu · fp32 · batch 32"
    odd = make_case(mode="train", layout="channels-last", feed="pinned", threads=4)
    assert title(odd) == (
        "mlp · train · cpu · fp32 · batch 32 · width=64 · sgd · channels-last · feed pinned · 4 threads"
    )


def test_skips_are_counted_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    keys = [make_case(rung=rung).key for rung in ("cudagraph", "compile", "torchscript")]
    skips = [Skip(key, "unsupported", "needs CUDA") for key in keys[:2]]
    make_console().print(skipped_view([*skips, Skip(keys[2], "not-installed", "no jax")]))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "3 skipped",
        "  compile, cudagraph: unsupported: needs CUDA",
        "  torchscript: not-installed: no jax",
    ]


def test_what_a_record_says_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "up\x1b[2Jdown\r\x9b\u202e"
    failed = make_record(rounds=[], failure=make_failure(message=evil), parity=Parity(status="unchecked"))
    wrong = full_record("compile", 1e-3, 1e-3, parity=replace(DIFFERENT, worst=evil))
    text = render(failed, wrong, capsys=capsys)
    assert text.count("up\ufffd[2Jdown") == 2
    assert text.replace("\n", "").isprintable()
    assert plain_text(Text(f"{evil}\nnext")).splitlines() == ["up\ufffd[2Jdown\ufffd\ufffd", "next"]


@pytest.mark.parametrize("view", [lambda r: ladder_view(make_ladders([r])[0]), lambda r: table_view([r])])
def test_what_a_record_says_makes_no_line_of_its_own(view: Callable[[Record], Any]) -> None:
    """It could pass for a row of the table."""
    forged = "x\nvendor  1 ns  9x"
    environment = replace(ENVIRONMENT, software={**ENVIRONMENT.software, "torch": forged})
    wrong = full_record("compile", 1e-3, 1e-3, parity=replace(DIFFERENT, worst=forged), environment=environment)
    failed = make_record(rounds=[], failure=make_failure(message=forged), environment=environment)
    for record in (wrong, failed):
        lines = plain_text(view(record)).splitlines()
        assert "x vendor 1 ns 9x" in " ".join(lines)
        assert not [line for line in lines if line.startswith("vendor")]


def test_rungs_that_are_skipped_for_one_reason_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print(skipped_view([], {"jax": "not torch", "slow": "minutes", "onnxruntime": "not torch"}))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["jax, onnxruntime skipped: not torch", "slow skipped: minutes"]
