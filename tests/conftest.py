"""What holds for all tests."""

import os

# Side by side, each process of the tests has its share of the cores, and so has all that it starts: threads that
# spin for others that have no core make a step of the zoo fifty times slower. Before torch or SciPy is imported:
# they look only then.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = max((os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), 1)
    for library in ("OMP", "OPENBLAS"):
        os.environ.setdefault(f"{library}_NUM_THREADS", str(share))

from hypothesis import HealthCheck, settings

# Tests run side by side, each with a data folder of its own: they do not take turns at one lock for the machine.
os.environ["TARE_LOCK"] = ""

# On x86-64 every process that compiles asks the C++ compiler about each kind of vector instructions that there is,
# and starts a Python with torch to load the answer: three quarters of what it does here.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# A test never fails for having taken long: these machines are shared.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
