"""The cause that the record gives for each way in which a worker can end."""

import signal
from typing import Any

import msgspec
import pytest

from tare.errors import BadInput, brief, first_line
from tare.execute.oom import OomKills
from tare.execute.rounds import failure_of
from tare.execute.supervise import WorkerExit
from tare.protocol.messages import Done, Failed, Message
from tare.records.record import Failure
from tare.worker.process import classify


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def ended(status: int = 0, messages: list[Message] | None = None, **fields: Any) -> WorkerExit:
    return WorkerExit(status=status, messages=messages or [], **fields)


def cause(worker_exit: WorkerExit) -> str | None:
    failure = failure_of(worker_exit)
    return failure.cause if failure else None


def test_a_worker_that_sends_done_and_exits_has_no_failure() -> None:
    assert failure_of(ended(messages=[Done()])) is None


@pytest.mark.parametrize(
    ("worker_exit", "expected"),
    [
        (ended(killed="timeout", status=9), "timeout"),
        (ended(killed="memory", status=9), "host-oom"),
        (ended(killed="flood", status=9), "exception"),
        (ended(killed="flood", status=9, messages=[Done()]), "exception"),
        (ended(killed="stopped", status=9), "signal"),
        (ended(killed="stopped", status=9, messages=[Done()]), "signal"),
        (ended(reaper_lost=True, status=9, messages=[Done()]), "signal"),
        (ended(status=int(signal.SIGSEGV)), "signal"),
        (ended(status=int(signal.SIGKILL)), "signal"),
        (ended(status=int(signal.SIGKILL), oom_kills=OomKills(1, 1)), "host-oom"),
        (ended(status=int(signal.SIGKILL), oom_kills=OomKills(None, 1)), "host-oom"),
        # The kernel killed a process of another control group: something else killed this one.
        (ended(status=int(signal.SIGKILL), oom_kills=OomKills(0, 1)), "signal"),
        (ended(status=int(signal.SIGABRT), log="terminate called: std::bad_alloc"), "host-oom"),
        (ended(status=0), "no-result"),
        (ended(status=3 << 8), "exception"),
        (ended(status=1 << 8, messages=[Done()]), "exception"),
        (ended(messages=[Done()], invalid_line="hello"), "exception"),
        (ended(status=1 << 8, messages=[Failed(Failure(cause="nan", message="x"))]), "nan"),
    ],
)
def test_every_exit_has_its_cause(worker_exit: WorkerExit, expected: str) -> None:
    assert cause(worker_exit) == expected


@pytest.mark.parametrize("killed", ["timeout", "memory"])
def test_a_worker_killed_after_its_last_message_has_its_result(killed: str) -> None:
    assert failure_of(ended(killed=killed, status=9, messages=[Done()])) is None
    said = Failed(Failure(cause="nan", message="x"))
    assert cause(ended(killed=killed, status=9, messages=[said])) == "nan"


@pytest.mark.parametrize(
    ("worker_exit", "message"),
    [
        (
            ended(killed="memory", status=9, resident=300 * 2**20),
            "stopped because host memory ran out; it held 300 MiB of it",
        ),
        (
            ended(killed="memory", status=9, memory_limit=3000 * 2**20),
            "stopped because it held more host memory than its limit of 3000 MiB",
        ),
        (
            ended(status=9, oom_kills=OomKills(2, 2)),
            "the kernel killed the worker because host memory ran out",
        ),
        (ended(status=9, oom_kills=OomKills(None, 2)), "killed (SIGKILL) while this machine ran out of memory"),
    ],
)
def test_a_message_says_no_more_of_memory_than_is_known(worker_exit: WorkerExit, message: str) -> None:
    failure = failure_of(worker_exit)
    assert failure is not None
    assert failure.message == message


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), "host-oom"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "host-oom"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "device-oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "device-oom"),
        (ModuleNotFoundError("No module named 'timm'"), "not-installed"),
        (ValueError("boom"), "exception"),
        (SystemExit("no weights"), "exception"),
    ],
)
def test_an_exception_has_its_cause(error: BaseException, expected: str) -> None:
    failure = classify(error)
    assert failure.cause == expected
    assert "\n" not in failure.message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("\n  first\nsecond"), "RuntimeError: first"),
        (ValueError("boom\nmore"), "ValueError: boom"),
        (AssertionError(), "AssertionError"),
        (SystemExit("no weights"), "SystemExit: no weights"),
        (KeyboardInterrupt("pressed by a library"), "KeyboardInterrupt: pressed by a library"),
        (Unprintable(), "Unprintable"),
        (BadInput("no such data"), "no such data"),
        (ValueError("a lone \ud800 and a \x00"), "ValueError: a lone \\ud800 and a \x00"),
    ],
)
def test_the_first_line_that_is_not_empty_is_kept(error: BaseException, message: str) -> None:
    failure = classify(error)
    assert (failure.message, failure.exception) == (message, type(error).__name__)
    assert msgspec.json.encode(failure), "it can be sent"


def test_an_exception_that_cannot_be_printed_is_told_by_its_name() -> None:
    """Wherever a model may raise it: the import of a file, a count, a profile."""
    assert first_line(Unprintable()) == ""
    assert brief(Unprintable()) == "Unprintable"
