"""Four processes that train data-parallel on one GPU over gloo: the one that was made slow is named, with what it
did and for how long."""

import json
import os
import subprocess
import sys
from pathlib import Path

import data_parallel
import pytest
from commandline import tare

pytestmark = pytest.mark.alone
RANKS, SLOW, SLOW_MS = 4, 2, 60


def test_the_slow_rank_is_the_straggler(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    arguments = (str(traces), "cuda", str(RANKS), str(SLOW), str(SLOW_MS))
    # Each process gets its share of the cores: a rank that waits for a core is late, too.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, data_parallel.__file__, *arguments], check=True, env=environment, timeout=300)
    (traces / "store").unlink(missing_ok=True)
    done = tare(tmp_path, "explain", str(traces), "--json")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)["job"]
    steps, straggler = data_parallel.STEPS, job["straggler"]
    assert (len(job["ranks"]), straggler["rank"]) == (RANKS, SLOW)
    # The first step of a recording may wait for other reasons.
    asleep = (steps - 1) * SLOW_MS * 1e6
    assert straggler["late"] == pytest.approx(asleep, rel=0.35)
    assert any("augment" in deed["what"] or "sleep" in deed["what"] for deed in straggler["did"])
    waiting = {rank["rank"]: rank["waiting"] for rank in job["ranks"]}
    assert all(waiting[rank] > 2 * waiting[SLOW] for rank in waiting if rank != SLOW)
    print(json.dumps({"straggler": straggler, "waiting": waiting, "imbalance": job["imbalance"]}))
