"""The audit of a step that was just timed: had its work finished when the clock stopped, and was it work?"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

from tare.measure.clock import Block, Clock
from tare.records.record import Failure, Series
from tare.rungs.base import EVIDENCE_STEPS, Program
from tare.workloads.variants import BATCHES

TRIES = 3
# Work after the clock has stopped is an error if it exceeds this share of the block, and these nanoseconds.
SHARE = 0.10
JITTER_NS = 50_000
# Steps of training from the initial weights, which are compared, take as long as later ones, which are only timed.
# A program whose later steps are shorter by this factor leaves work out in them.
LATER_SHORTER = 1.5
# How often a block is timed and read. Once is enough for a long block: a short delay hides little of it.
FEWEST_READS, MOST_READS = 5, 15
LONG_NS = 50_000_000
LONGEST_S = 2.0
# A device queues at least so many steps.
FEW_STEPS = 8
# The shortest of so many reads of a result counts.
READS = 5
# Threads may spin for some time after their work, waiting for more. How long they do does not depend on the block,
# whose length is therefore varied. A longer block makes work that is left in a thread more visible.
LONG_BLOCK_S = 0.1
MOST_STEPS = 1000
# Work in threads is an error if it lasts for this share of the block, and so many seconds: on a busy machine
# threads that only spin end late.
THREAD_SHARE, THREAD_JITTER_S = 0.5, 0.05
# A process is quiet if its other threads have not worked for so many seconds.
QUIET_S = 0.008
QUIET_SHARE = 0.3
TASKS = Path("/proc/self/task")
LONGEST_WAIT_S = 2.0
# On a busy machine, work that the samples have left in threads may take longer. It would pass for spinning.
LONGEST_BACKLOG_S = 10.0
# Beyond this many times its usual duration, a step that gets a new batch has only then done its work.
SLOWER = 3.0
SLOWER_NS = 20_000
# It is tried where a single step takes this many times as long as a step among others.
SUSPECT = 2.0
MOST_CHANGES = 64


def audit(
    program: Program, clock: Clock, pipelined: Series, latency: Series, verified_ns: Sequence[float] = ()
) -> Failure | None:
    """What is wrong with the steps that gave these series, or None. `verified_ns` has the time of a step in each
    block of training that was compared."""
    steps, step_s = max(pipelined.steps), median(pipelined.step_seconds())
    if running := (
        left_on_device(program, clock, steps)
        or left_for_the_reader(program, clock)
        or left_in_threads(program, clock, step_s)
    ):
        return Failure(cause="unsynchronised", message=running)
    # Every block of the latency has a new batch. Where the host waits for a device, latency is larger anyway.
    slower = median(latency.step_seconds()) > SUSPECT * step_s + SLOWER_NS / 1e9
    if steps > 1 and slower and (kept := memoised(program, clock, steps)):
        return Failure(cause="memoised", message=kept)
    if known := looked_up(program, clock):
        return Failure(cause="memoised", message=known)
    # Where the host waits for a device after a few steps, they take longer anyway.
    longer = min(verified_ns, default=0.0) > LATER_SHORTER * step_s * 1e9 + SLOWER_NS
    if longer and (less := does_less_later(program, clock)):
        return Failure(cause="memoised", message=less)
    return None


def left_on_device(program: Program, clock: Clock, steps: int) -> str | None:
    """Describes the work that a block left on the device, or None.

    A device works off what was launched while the host launches more, so that of a long block little may be left.
    Short blocks are therefore looked at as well."""
    blocks = sorted({1, FEW_STEPS, steps}) if clock.overlaps else [steps]
    return next((left for count in blocks if (left := _left_after(program, clock, count))), None)


def _left_after(program: Program, clock: Clock, steps: int) -> str | None:
    """A result cannot be read before it exists. If the first read after the block takes much longer than a second
    one, the block's synchronisation did not wait for the work, and its time is too short.

    Other processes delay this one. A delay before the end of the block gives the work time to end unseen, and one
    within the first read looks like work. So half of the blocks must leave nothing; and a short block of several
    must not be much shorter than the shortest of them with its first read. The shortest block alone may be a lucky
    one, whose read was delayed. Where other processes have their turns on the device, every first read is delayed
    and has nothing to wait for: what the device itself says decides."""
    # A CPU has finished when a step returns; its first read may still miss the caches.
    share = SHARE if clock.overlaps else THREAD_SHARE
    began = time.perf_counter()
    blocks: list[int] = []
    ends: list[int] = []
    reads: list[int] = []
    clean = 0
    while True:
        block = clock.time(program.step, steps)
        if block.device_ns is not None and block.device_ns > 1.05 * block.wall_ns + JITTER_NS:
            return (
                f"the device was busy for {block.device_ns / 1e6:.3g} ms of a block timed as "
                f"{block.wall_ns / 1e6:.3g} ms: the step is not synchronised"
            )
        first = _read_ns(program, block.result)
        blocks.append(block.wall_ns)
        ends.append(block.wall_ns + first)
        reads.append(_read_ns(program, block.result))
        clean += first - reads[-1] <= max(share * block.wall_ns, JITTER_NS)
        short = sorted(blocks)[len(blocks) // 4]
        extra = min(ends) - short - median(reads)
        if 2 * clean >= len(blocks) and extra <= max(share * short, JITTER_NS):
            if len(blocks) >= FEWEST_READS or short >= LONG_NS:
                return None
        elif len(blocks) >= (MOST_READS if time.perf_counter() - began < LONGEST_S else TRIES):
            timed = median(blocks)
            left = median(ends) - timed - median(reads)
            if _is_drained(program, clock, steps, max(share * timed, JITTER_NS)):
                return None
            return (
                f"{left / 1e6:.3g} ms of work went on after a block timed as {timed / 1e6:.3g} ms had been "
                "synchronised: the step is not synchronised"
            )


def _is_drained(program: Program, clock: Clock, steps: int, allowed_ns: float) -> bool:
    """Whether the device has nothing left to do after a block. Results must be no more than their values."""
    waits = []
    for _ in range(FEWEST_READS):
        result = clock.time(program.step, steps).result
        start = time.perf_counter_ns()
        if not program.drain() or program.finished(result) is not result:
            return False
        waits.append(time.perf_counter_ns() - start)
    return median(waits) <= allowed_ns


def left_for_the_reader(program: Program, clock: Clock) -> str | None:
    """Describes a result that is computed whenever it is read, or None: each of its reads takes longer than those
    of a copy."""
    block = clock.time(program.step, 1)
    copy = program.finished(block.result)
    if copy is block.result:
        return None
    longer = min(_read_ns(program, block.result) for _ in range(READS)) - min(
        _read_ns(program, copy) for _ in range(READS)
    )
    if longer <= max(THREAD_SHARE * block.wall_ns, SLOWER_NS):
        return None
    return (
        f"to read the result of a step takes {longer / 1e6:.3g} ms longer than to read a copy of it, and the step "
        f"{block.wall_ns / 1e6:.3g} ms: it computes when it is read"
    )


def left_in_threads(program: Program, clock: Clock, step_s: float) -> str | None:
    """Describes the work that a block left in threads, or None. Threads that run after a block spin or still work,
    and only work grows with the block."""
    steps = int(min(max(LONG_BLOCK_S / step_s, 1), MOST_STEPS))
    working, timed, spinning = 0.0, 0.0, LONGEST_WAIT_S
    for _ in range(TRIES):
        _seconds_until_quiet(LONGEST_BACKLOG_S)
        clock.time(program.step, 1)
        # On a busy machine the work of the block before may still go on, which is no spinning.
        spinning = min(spinning, _seconds_until_quiet(LONGEST_WAIT_S))
        timed = clock.time(program.step, steps).wall_ns / 1e9
        working = _seconds_until_quiet(LONGEST_WAIT_S) - spinning
        if working <= max(THREAD_SHARE * timed, THREAD_JITTER_S):
            return None
    return (
        f"threads worked for {working * 1e3:.3g} ms after a block timed as {timed * 1e3:.3g} ms: the step does "
        "not wait for its work"
    )


def memoised(program: Program, clock: Clock, steps: int) -> str | None:
    """Describes a step that works only when its batch is new, or None: its time would be that of a lookup."""
    steps = min(steps, MOST_CHANGES)
    usual = changed = 0.0
    for _ in range(TRIES):
        batches = cycle(range(BATCHES))

        def select(batches: Iterator[int] = batches) -> None:
            program.select(next(batches))

        def select_and_step(select: Callable[[], None] = select) -> Any:
            select()
            return program.step()

        select_ns = clock.time(select, steps).wall_ns
        usual = max(_time_on(program, clock, batch, steps).wall_ns for batch in range(BATCHES)) / steps
        changed = (clock.time(select_and_step, steps).wall_ns - select_ns) / steps
        if changed <= SLOWER * usual + SLOWER_NS:
            return None
    return (
        f"a step takes {changed / 1e6:.3g} ms with a new batch and {usual / 1e6:.3g} ms with the same one: it "
        "keeps results instead of computing them"
    )


def looked_up(program: Program, clock: Clock) -> str | None:
    """Describes a step that has kept a result for each of the batches, or None: only values that it has never seen
    make it work."""
    usual = new = 0
    try:
        for attempt in range(TRIES):
            usual = max(usual, _time_on(program, clock, attempt % BATCHES, 1).wall_ns)
            if not program.disturb(attempt):
                return None
            try:
                new = clock.time(program.step, 1).wall_ns
            except Exception:  # noqa: BLE001 - a model may refuse values that are not its workload's
                return None
            if new <= SLOWER * usual + SLOWER_NS:
                return None
    finally:
        program.select(0)
    return (
        f"a step takes {new / 1e6:.3g} ms with values that it has not seen and {usual / 1e6:.3g} ms with batches "
        "that it knows: it keeps results instead of computing them"
    )


def does_less_later(program: Program, clock: Clock) -> str | None:
    """Describes training that does less work once a few steps from the initial weights have been made, or None. On
    a busy machine the shortest of the first steps is compared with the longest of the others."""
    first, later, steps = float("inf"), 0.0, EVIDENCE_STEPS - 1
    try:
        for attempt in range(TRIES):
            program.rewind()
            # The very first step finds weights that have just been copied.
            clock.time(program.step, 1)
            first = min(first, clock.time(program.step, steps).wall_ns / steps)
            clock.time(program.step, attempt + 1)
            later = max(later, clock.time(program.step, steps).wall_ns / steps)
            if first <= LATER_SHORTER * later + SLOWER_NS:
                return None
    finally:
        program.rewind()
    return (
        f"one of the first steps from the initial weights takes {first / 1e6:.3g} ms and a later one "
        f"{later / 1e6:.3g} ms: it does less work in steps that are timed than in those that are compared"
    )


def _time_on(program: Program, clock: Clock, batch: int, steps: int) -> Block:
    program.select(batch)
    # The first step on a new batch is not part of the comparison.
    clock.time(program.step, 1)
    return clock.time(program.step, steps)


def _seconds_until_quiet(longest_s: float) -> float:
    """Seconds until no other thread of this process works, at most `longest_s` and no more than the CPU time
    that they took. On a busy machine a thread that often looks for work often waits for a core, but takes little
    time."""
    began, cpu = time.perf_counter(), _cpu_time_of_others()
    last_busy = 0.0
    while (passed := time.perf_counter() - began) < longest_s:
        if _others_work():
            last_busy = passed
        elif passed - last_busy > QUIET_S:
            break
        time.sleep(QUIET_S / 4)
    return min(last_busy, _cpu_time_of_others() - cpu)


def _cpu_time_of_others() -> float:
    return time.process_time() - time.thread_time()


def _others_work() -> bool:
    """Whether another thread of this process runs, or would run if a core were free. Where the kernel does not
    tell: whether the process uses CPU time while this thread sleeps."""
    if not TASKS.exists():
        cpu = time.process_time()
        time.sleep(QUIET_S / 4)
        return time.process_time() - cpu > QUIET_SHARE * QUIET_S / 4
    own = threading.get_native_id()
    for task in TASKS.iterdir():
        with contextlib.suppress(OSError):
            # The state follows the name of the thread, which is in parentheses and may contain some.
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            if state == "R" and int(task.name) != own:
                return True
    return False


def _read_ns(program: Program, result: Any) -> int:
    start = time.perf_counter_ns()
    program.has_nan(result)
    return time.perf_counter_ns() - start
