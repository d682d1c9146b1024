"""Settings for every test."""

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# A shell that starts `make test &` sets SIGINT to be ignored, and every child inherits that. The tests that
# interrupt a command need the default disposition back.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each pytest worker, and every process it starts, gets its share of the cores: threads that spin for others
# without a core make a step up to fifty times slower. torch and SciPy read these variables at import.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = max((os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), 1)
    for library in ("OMP", "OPENBLAS"):
        os.environ.setdefault(f"{library}_NUM_THREADS", str(share))

import psutil  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# Tests run in parallel, each with a home folder of its own, so they do not wait for the lock of the machine.
# What is built once for all of them is in a folder of its own: no test may see or change a user's store.
os.environ["TARE_LOCK"] = ""
HOME = Path.home() / ".cache" / "tare-tests"
if "TARE_HOME" not in os.environ:
    os.environ["TARE_HOME"] = str(HOME)
    # Of an earlier session, perhaps of another layout.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        (HOME / "records.db").unlink(missing_ok=True)

# On x86-64 every process that compiles asks the C++ compiler about each set of vector instructions, and starts a
# Python with torch to load the answer. That is three quarters of the work of a small compilation.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# These machines are shared: no test fails because it took long. CI asks whether this change is right, always with
# the same examples; new ones are for whoever works on it.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("patient")


# When a run whose time is limited stops to begin tests, in seconds since the epoch.
UNTIL = float(os.environ.get("TARE_TESTS_UNTIL", "inf"))


def pytest_runtest_setup() -> None:
    if time.time() > UNTIL:
        pytest.skip("no time was left for it (TARE_TESTS_UNTIL)")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: gzip writes the time, and pytest workers must agree on names."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def gradients_stay_enabled() -> Iterator[None]:
    """A program for inference that a test forgets to close breaks later tests of the same process."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "is_grad_enabled"):
        assert torch.is_grad_enabled(), "the test left gradients disabled: it must close its program"


# What a pytest worker may hold before it gives back what it no longer needs.
ENOUGH_BYTES = 2 << 30
_process, _held = psutil.Process(), [0]


def pytest_runtest_teardown() -> None:
    """glibc keeps the freed memory of each thread that a test has had. Over some thousand tests with large tensors
    that is ten gigabytes."""
    resident = _process.memory_info().rss
    if resident < max(ENOUGH_BYTES, _held[0] + ENOUGH_BYTES // 2):
        return
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    _held[0] = _process.memory_info().rss
