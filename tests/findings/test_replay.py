"""The replay: unchanged it takes the recorded time, changed it takes what arithmetic says."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import RECORDED, TraceBuilder

from tare.findings.context import Context
from tare.findings.replay import Activity, Replay, RuntimeCall, WhatIf
from tare.findings.trace_replay import TraceReplay
from tare.trace.intervals import make, total
from tare.trace.read import read

US = 1000
spans = st.lists(st.tuples(st.integers(0, 400_000), st.integers(0, 400_000)), max_size=6)


def host_bound(count: int = 4) -> Replay:
    """A launch every 100 µs, 10 µs long, of a kernel that starts 15 µs after it and lasts 20."""
    calls = [RuntimeCall(i * 100 * US, (i * 100 + 10) * US) for i in range(count)]
    activities = [Activity((i * 100 + 15) * US, (i * 100 + 35) * US, 7, i) for i in range(count)]
    return Replay(0, count * 100 * US, calls, activities)


def device_bound() -> Replay:
    """Four launches in 40 µs, kernels of 100 µs back to back, and a wait for the last."""
    calls = [RuntimeCall(i * 10 * US, (i * 10 + 5) * US) for i in range(4)]
    activities = [Activity((5 + i * 100) * US, (105 + i * 100) * US, 7, i) for i in range(4)]
    calls.append(RuntimeCall(40 * US, 410 * US, waits=True))
    return Replay(0, 420 * US, calls, activities)


@pytest.mark.parametrize(("replay", "length"), [(host_bound(), 400), (device_bound(), 420)])
def test_unchanged_it_takes_the_recorded_time(replay: Replay, length: int) -> None:
    assert replay.run() == length * US


def test_removed_host_time_saves_what_the_device_waited_for_it() -> None:
    """50 µs less Python before each of three launches; the first begins at once."""
    gone = [((i * 100 + 20) * US, (i * 100 + 70) * US) for i in range(3)]
    assert host_bound().saving(WhatIf(removed=gone)) == 150 * US
    assert device_bound().saving(WhatIf(removed=[(5 * US, 10 * US), (15 * US, 20 * US)])) == 0


def test_in_a_graph_a_kernel_begins_when_the_one_before_it_has_ended() -> None:
    """Without host time in between the four of 20 µs follow the first launch, a microsecond apart in a queue."""
    launched = WhatIf(removed=[(0, 400 * US)])
    assert host_bound().run(launched) == (15 + 4 * 20 + 3) * US
    assert host_bound().run(WhatIf(removed=launched.removed, handover=100)) == (15 + 4 * 20) * US + 300


def test_a_wait_costs_nothing_while_the_device_is_busy() -> None:
    """Without the wait the host is done at 50 µs, and the device as late as before: only the return is saved."""
    replay = device_bound()
    assert replay.saving(WhatIf(unwaited=frozenset({4}))) == 15 * US


def test_a_wait_in_the_middle_costs_the_way_to_the_next_kernel() -> None:
    """Two kernels of 100 µs; the host waits for the first, then needs 60 µs to launch the second."""
    calls = [RuntimeCall(0, 5 * US), RuntimeCall(10 * US, 110 * US, waits=True), RuntimeCall(170 * US, 175 * US)]
    activities = [Activity(5 * US, 105 * US, 7, 0), Activity(175 * US, 275 * US, 7, 2)]
    replay = Replay(0, 180 * US, calls, activities)
    assert replay.run() == 275 * US
    # Launched at 70, the second follows the first with the usual microsecond between them.
    assert replay.saving(WhatIf(unwaited=frozenset({1}))) == pytest.approx(69 * US, abs=2 * US)


def test_a_shorter_activity_saves_time_only_where_the_device_is_the_limit() -> None:
    assert device_bound().saving(WhatIf(factors={1: 0.5, 2: 0.0})) == pytest.approx(150 * US, abs=2 * US)
    assert host_bound().saving(WhatIf(factors={1: 0.5})) == 0


def test_a_copy_beside_the_kernels_hides_behind_them() -> None:
    """Copy of 80 µs, kernel of 100, twice, one stream: 360 µs; the copies apart leave the first and the
    kernels."""
    calls = [RuntimeCall(i * 5 * US, (i * 5 + 4) * US) for i in range(4)]
    starts, lengths = (4, 84, 184, 264), (80, 100, 80, 100)
    activities = [
        Activity(start * US, (start + length) * US, 7, i)
        for i, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]
    replay = Replay(0, 20 * US, calls, activities)
    assert replay.run() == 364 * US
    assert replay.run(WhatIf(detached=frozenset({0, 2}))) == pytest.approx(209 * US, abs=5 * US)


def test_a_kernel_that_waited_for_another_stream_still_does() -> None:
    calls = [RuntimeCall(0, 2 * US), RuntimeCall(3 * US, 5 * US)]
    activities = [Activity(5 * US, 205 * US, 8, 0), Activity(207 * US, 300 * US, 7, 1)]
    replay = Replay(0, 10 * US, calls, activities)
    assert replay.run() == 300 * US
    assert replay.run(WhatIf(factors={0: 0.5})) == 200 * US


def test_a_kernel_waited_for_the_one_that_ended_not_for_one_that_still_ran() -> None:
    """Three streams: 8 runs throughout, and 7 begins when 9 has ended."""
    calls = [RuntimeCall(0, US), RuntimeCall(US, 2 * US), RuntimeCall(3 * US, 4 * US)]
    activities = [
        Activity(5 * US, 305 * US, 8, 0),
        Activity(6 * US, 106 * US, 9, 1),
        Activity(107 * US, 207 * US, 7, 2),
    ]
    replay = Replay(0, 10 * US, calls, activities)
    assert replay.run() == 305 * US
    assert replay.run(WhatIf(factors={0: 0.0})) == 207 * US


def test_a_kernel_that_waited_for_room_begins_with_the_last_blocks_of_the_one_before() -> None:
    """cuDNN's transforms of a picture and of a filter, on two streams: the second begins while the first ends."""
    calls = [RuntimeCall(0, US), RuntimeCall(US, 2 * US)]
    activities = [Activity(5 * US, 405 * US, 7, 0), Activity(395 * US, 495 * US, 13, 1)]
    replay = Replay(0, 10 * US, calls, activities)
    assert replay.run() == 495 * US
    # Of a kernel of 200 µs instead of 400, the last blocks take 5 instead of 10.
    assert replay.run(WhatIf(factors={0: 0.5})) == 300 * US
    assert replay.run(WhatIf(factors={0: 0.0})) == pytest.approx(106 * US)


def test_a_kernel_that_waited_for_a_detached_copy_waits_for_what_came_before_it() -> None:
    """A kernel and a copy on one stream, and a kernel on another that began 10 µs before the copy's end."""
    calls = [RuntimeCall(i * US, i * US + US // 2) for i in range(3)]
    activities = [
        Activity(5 * US, 105 * US, 8, 0),
        Activity(106 * US, 406 * US, 8, 1),
        Activity(396 * US, 896 * US, 7, 2),
    ]
    replay = Replay(0, 10 * US, calls, activities)
    assert replay.run() == 896 * US
    assert replay.run(WhatIf(detached=frozenset({1}))) == 605 * US


def test_a_kernel_may_have_waited_for_one_that_was_launched_later() -> None:
    """Three streams and no room for two kernels at once: of those that wait, the device takes the last first."""
    calls = [RuntimeCall(i * US, i * US + US // 2) for i in range(3)]
    activities = [
        Activity(5 * US, 105 * US, 7, 0),
        Activity(106 * US, 206 * US, 9, 2),
        Activity(207 * US, 307 * US, 8, 1),
    ]
    replay = Replay(0, 10 * US, calls, activities)
    assert replay.run() == 307 * US
    assert replay.run(WhatIf(factors={1: 0.5})) == 257 * US
    assert replay.run(WhatIf(factors={0: 0.5, 1: 0.5})) == 207 * US


def test_streams_keep_their_order_without_the_host() -> None:
    """Two layers of a recurrent network on two streams, 15 µs from one kernel to the next, because of events.
    Nothing in the recording says so."""
    calls = [RuntimeCall(i * 2 * US, (i * 2 + 1) * US) for i in range(8)]
    activities = [Activity((10 + i * 35) * US, (30 + i * 35) * US, 7 + i % 2, i) for i in range(8)]
    replay = Replay(0, 20 * US, calls, activities)
    assert replay.run() == 275 * US
    replay.calibrate(100 * US)
    assert replay.run() == 160 * US
    # What the device no longer does, or does beside the rest, is no longer among what it has to do.
    assert replay.run(WhatIf(factors=dict.fromkeys(range(2, 8), 0.0))) < 50 * US
    assert replay.run(WhatIf(detached=frozenset({1, 3, 5, 7}))) < 100 * US


streams = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60), st.integers(7, 9)), min_size=1, max_size=15)


def on_streams(kernels: list[tuple[int, int, int]]) -> tuple[Replay, int]:
    """Kernels as (gap to the start of the previous one, length, stream) in µs; and how long any of them ran."""
    calls, activities, at = [], [], 0
    for index, (gap, length, stream) in enumerate(kernels):
        calls.append(RuntimeCall(index * US, index * US + US // 2))
        at = max(at + gap * US, (index + 5) * US)
        activities.append(Activity(at, at + length * US, stream, index))
    busy = total(make([activity.start for activity in activities], [activity.end for activity in activities]))
    return Replay(0, len(calls) * US, calls, activities), busy


@settings(max_examples=100)
@given(streams, st.floats(0, 1))
def test_overlapping_kernels_save_their_common_time_once(
    kernels: list[tuple[int, int, int]], factor: float
) -> None:
    """All kernels faster by a factor, on a host that is never late: the device is no faster than that."""
    replay, busy = on_streams(kernels)
    replay.calibrate(US)
    assert replay.run(WhatIf(factors=dict.fromkeys(range(len(kernels)), factor))) >= factor * busy * (1 - 1e-9)


@settings(max_examples=100)
@given(streams, spans)
def test_removed_host_time_saves_no_more_than_the_device_was_idle(
    kernels: list[tuple[int, int, int]], pairs: list[tuple[int, int]]
) -> None:
    """Whatever the kernels of three streams waited for."""
    replay, busy = on_streams(kernels)
    removed = sorted((min(pair), max(pair)) for pair in pairs)
    assert replay.run(WhatIf(removed=removed)) >= busy
    replay.calibrate(US)
    assert replay.run(WhatIf(removed=removed)) >= busy


def test_time_outside_the_steps_takes_none() -> None:
    replay = Replay(
        0, 300 * US, [RuntimeCall(0, 10 * US), RuntimeCall(200 * US, 210 * US)], [], [(50 * US, 150 * US)]
    )
    assert replay.run() == 200 * US


def test_calibration_finds_the_unprofiled_host() -> None:
    replay = host_bound()
    replay.calibrate(200 * US)
    assert replay.run() == pytest.approx(200 * US, rel=1e-3)
    assert replay.host_factor == pytest.approx(0.5, rel=0.01)
    # What the host saves is then half of what was recorded.
    assert replay.saving(WhatIf(removed=[(20 * US, 70 * US)])) == pytest.approx(25 * US, rel=0.02)


def test_calibration_below_the_device_stops_at_the_device() -> None:
    replay = device_bound()
    replay.calibrate(100 * US)
    assert replay.run() == pytest.approx(400 * US, rel=0.02)


def filled() -> Replay:
    """The device computes 400 µs without a pause, and the host needs 80 of them for its four launches."""
    calls = [RuntimeCall(i * 20 * US, (i * 20 + 5) * US) for i in range(4)]
    activities = [Activity((5 + i * 100) * US, (105 + i * 100) * US, 7, i) for i in range(4)]
    return Replay(0, 80 * US, calls, activities)


@pytest.mark.parametrize(("host", "factor"), [(None, 0.5), (24 * US, 0.3), (200 * US, 1.0)])
def test_a_step_that_the_device_fills_does_not_calibrate_the_host(host: float | None, factor: float) -> None:
    """The measured step is 2 % longer than recorded, or 20 % because of a slower clock: neither makes the host
    slow."""
    for measured in (413, 486):
        replay = filled()
        replay.calibrate(measured * US, host)
        assert replay.host_factor == pytest.approx(factor)
        # Kernels that take next to nothing leave the host.
        assert replay.run(WhatIf(factors=dict.fromkeys(range(4), 1e-9))) == pytest.approx(
            max(80 * factor, 60 * factor + 5) * US, rel=0.02
        )


def test_the_measured_step_outweighs_the_measured_host_time() -> None:
    """A step that waits for its host, which was twice as fast when it was measured alone."""
    replay = host_bound()
    replay.calibrate(300 * US, host=150 * US)
    assert replay.run() == pytest.approx(300 * US, rel=1e-3)


def test_recording_python_frames_takes_no_time_of_the_step() -> None:
    """Two frames of 30 µs around an operator each, and one that returns at once: 0.27 µs for each call and
    return, up to where the next thing begins."""
    trace = TraceBuilder()
    trace.step(0, 100)
    for at in (10, 50):
        trace.frame("train.py(1): step", at, at + 30)
        trace.op("aten::mul", at + 5, at + 20)
        trace.launch(at + 8, at + 12, at + 14, at + 18)
    trace.frame("<built-in function id>", 90, 90.2)
    context = Context(trace.build())
    recording = 4 * 0.27 + 0.2 + 0.27
    assert sum(end - start for start, end in context.replay.excluded) == pytest.approx(recording * US)
    assert context.step_s == pytest.approx((100 - recording) / 1e6)


@settings(max_examples=60)
@given(spans, st.sampled_from([host_bound(), device_bound()]))
def test_removing_host_time_never_costs_and_never_gives_more_than_it_took(
    pairs: list[tuple[int, int]], replay: Replay
) -> None:
    removed = sorted((min(pair), max(pair)) for pair in pairs)
    taken = sum(end - start for start, end in removed)
    after = replay.run(WhatIf(removed=removed))
    assert replay.run() - taken - 1e-6 <= after <= replay.run() + 1e-6


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=20), st.lists(st.integers(1, 200), min_size=2, max_size=20)
)
def test_any_queue_of_one_stream_is_replayed_as_recorded(gaps: list[int], lengths: list[int]) -> None:
    """Launches at any pace, kernels of any length: each starts 5 µs after its launch or when the one before
    ends."""
    count = min(len(gaps), len(lengths))
    calls, activities, at, free = [], [], 0, 0
    for i in range(count):
        at += gaps[i] * US
        calls.append(RuntimeCall(at, at + US // 2))
        start = max(at + 5 * US, free)
        free = start + lengths[i] * US
        activities.append(Activity(start, free, 7, i))
    replay = Replay(0, at + US, calls, activities)
    assert replay.run() == max(at + US, free)
    assert all(a.end <= b.start for a, b in pairwise(activities))


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_a_recorded_trace_is_replayed_as_recorded(path: Path) -> None:
    """With the profiler's own waits at the ends of the steps, the replay takes the recorded window within 1 %."""
    replay = TraceReplay(read(path), keep_profiler_syncs=True)
    ends = max((activity.end for activity in replay.activities), default=replay.end)
    between = sum(end - start for start, end in replay.excluded)
    assert replay.run() == pytest.approx(max(replay.end, ends) - replay.start - between, rel=0.01)


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_a_recorded_trace_is_calibrated_to_its_gross(path: Path) -> None:
    """The device's own time may exceed what was measured without a profiler by a little: no factor removes
    that."""
    trace = read(path)
    gross = trace.metadata["tare_recorded"]["gross_ns"] / 1e9
    context = Context(trace, gross)
    assert context.step_s == pytest.approx(gross, rel=0.05)
    assert 0 <= context.replay.host_factor < 1.3
