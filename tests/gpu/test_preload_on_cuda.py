"""What a worker on a GPU imports while it builds: where the server has it, that takes no seconds."""

import json
import subprocess
import sys

from tare.execute.preload import preload
from tare.worker.forkserver import ALWAYS

# Imports what a server would, builds and steps as a worker would, says what that imported and how long it took.
WORKER = """
import importlib, json, sys
for name in sys.argv[1].split(","):
    importlib.import_module(name)
from tare.cases.case import Case
from tare.rungs import get_rung
from tare.workloads import get_workload
found = get_workload("mlp")
case = Case(workload="mlp", rung="eager", mode="infer", device="cuda", precision="fp32", batch=8,
            sizes=dict(found.defaults), feed="device", layout="contiguous")
before = set(sys.modules)
program = get_rung("eager").prepare(found, case)
program.step()
new = [name for name in sys.modules if name not in before]
print(json.dumps({"new": new, "build_s": program.build_s}))
"""


def test_a_worker_finds_imported_what_waking_the_gpu_needs() -> None:
    modules = [*ALWAYS, *preload(["mlp"], ["infer"], ["eager"], ["cuda"])]
    done = subprocess.run([sys.executable, "-c", WORKER, ",".join(modules)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    # To be read in the log: what is left of it, and how long building took.
    print(said["build_s"], said["new"])
    torch_parts = [name for name in said["new"] if name.startswith(("torch.", "triton"))]
    assert len(torch_parts) < 50, torch_parts
