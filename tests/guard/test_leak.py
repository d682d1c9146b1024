"""Leaks from planted traces: found with their size, and only where memory goes on growing in every round."""

import random
from typing import Any

import pytest
from builders import make_record, make_round, make_series

from tare.guard.leak import leaks, memory_growth, memory_over_steps
from tare.guard.thresholds import make_thresholds
from tare.records.record import MemoryTrace, Record, Round

LIMITS = make_thresholds({}, "here")
BLOCK_NS = 100_000_000
BLOCKS = 40
STEPS = 10


def leaking(index: int, bytes_a_step: float, place: str = "host", jump: int = 0) -> Round:
    """Forty blocks of ten steps, read ten times a second while memory grows (and jumps once in the middle)."""
    drawn = random.Random(index)
    series = make_series("pipelined", BLOCK_NS / STEPS / 1e9, blocks=BLOCKS, steps=STEPS)
    at = [i * BLOCK_NS + BLOCK_NS // 2 for i in range(BLOCKS)]
    held = [
        round(2**30 + bytes_a_step * (i + 0.5) * STEPS + (jump if i >= BLOCKS // 2 else 0) + drawn.gauss(0, 2000))
        for i in range(BLOCKS)
    ]
    flat = [2**30] * BLOCKS
    trace = MemoryTrace(
        at_ns=at, host=held if place == "host" else flat, device=held if place == "device" else None
    )
    return make_round(index, series=[series], memory_trace=trace)


def record(bytes_a_step: float, rounds: int = 6, **options: Any) -> Record:
    return make_record(rounds=[leaking(i, bytes_a_step, **options) for i in range(rounds)])


@pytest.mark.parametrize("place", ["host", "device"])
def test_a_leak_is_found_with_its_size_and_its_place(place: str) -> None:
    (line,) = leaks(record(0.0), record(4096, place=place), LIMITS)
    assert line.startswith(f"{place} memory grows by 4.0 KiB a step")
    assert "6 rounds" in line


def test_no_growth_is_no_leak() -> None:
    assert leaks(None, record(0.0), LIMITS) == []
    assert leaks(None, record(-4096), LIMITS) == []
    assert leaks(None, make_record(), LIMITS) == []


def test_what_grows_once_is_no_leak() -> None:
    assert leaks(None, record(0.0, jump=50_000_000), LIMITS) == []


def test_one_round_is_not_enough() -> None:
    assert leaks(None, record(4096, rounds=1), LIMITS) == []


def test_a_leak_in_one_round_of_six_is_none() -> None:
    mixed = make_record(rounds=[leaking(i, 4096 if i == 0 else 0.0) for i in range(6)])
    assert leaks(None, mixed, LIMITS) == []


def test_an_old_leak_is_no_news_and_a_larger_one_is() -> None:
    assert leaks(record(4096), record(4096), LIMITS) == []
    assert len(leaks(record(4096), record(16384), LIMITS)) == 1


def test_the_limit_is_the_users() -> None:
    patient = make_thresholds({"leak": {"host": 10_000}}, "here")
    assert leaks(None, record(4096), patient) == []


def test_readings_become_steps() -> None:
    done = leaking(0, 100.0)
    steps, held = memory_over_steps(done, "host")
    assert steps == pytest.approx([5 + 10 * i for i in range(BLOCKS)])
    assert len(held) == BLOCKS
    assert memory_over_steps(done, "device") == ([], [])
    growth = memory_growth(record(100.0), "host")
    assert growth is not None
    # The smaller of the halves: a leak is at least that large.
    assert growth.mid == pytest.approx(93, abs=8)


def test_readings_before_and_after_the_sampled_blocks_are_at_their_ends() -> None:
    done = make_round(
        series=[
            make_series("warmup", 0.1, blocks=3),
            make_series("pipelined", 0.1, blocks=1, steps=1, at_ns=[5 * 10**9]),
        ],
        memory_trace=MemoryTrace(at_ns=[0, 10**9, 5_050_000_000, 9 * 10**9], host=[1, 2, 3, 4]),
    )
    assert memory_over_steps(done, "host") == ([0.0, 0.0, 0.5, 1.0], [1.0, 2.0, 3.0, 4.0])
