"""A study on a GPU: copies of equal and of unequal batches, memory of the process, and the CPU beside the GPU."""

import json
from pathlib import Path

from commandline import tare

# 16 and 32 float32 images of 28 x 28.
STUDY = """
name = "copies"
title = "Copies of a batch"
paper = "Nobody's paper"

[plan.cuda]
options = { rounds = 3, budget = 1.5 }
grid = { workload = "mnist_cnn", rung = "eager", batch = [16, 32], feed = "pageable" }

[plan.cpu]
options = { rounds = 3, budget = 1.5 }
grid = { workload = "mnist_cnn", rung = "eager", batch = [16, 32] }

[[claim]]
id = "bytes"
says = "A batch of 32 takes twice the bytes of one of 16."
part = [
  { rule = "ratio", metric = "bytes_copied", of = ["batch=32"], to = ["batch=16"], differ = ["batch"], published = 2.0, tolerance = 0.001 },
]

[[claim]]
id = "context"
says = "A process takes more than 100 MB of a GPU, whatever it computes."
part = [{ rule = "value", metric = "device_process", of = ["rung=eager"], at_least = 1e8 }]

[[claim]]
id = "devices"
device = "any"
says = "A step takes at most a thousand times as long on the GPU as on the CPU."
part = [
  { rule = "ratio", of = ["device=cuda"], to = ["device=cpu"], differ = ["device", "feed"], at_most = 1000.0 },
]
"""  # noqa: E501 - a table of TOML is one line


def test_a_study_is_judged_by_records_of_both_devices(tmp_path: Path) -> None:
    path = tmp_path / "copies.toml"
    path.write_text(STUDY)
    for device in ("cpu", "cuda"):
        done = tare(tmp_path / "home", "study", "run", str(path), "--device", device)
        assert done.returncode == 0, done.stderr
    shown = tare(tmp_path / "home", "study", "show", str(path), "--json")
    claims = {claim["id"]: claim for claim in json.loads(shown.stdout)["claims"]}
    assert {name: claim["verdict"] for name, claim in claims.items()} == dict.fromkeys(claims, "confirmed")
    assert claims["bytes"]["parts"][0]["figure"]["value"] == 2.0
