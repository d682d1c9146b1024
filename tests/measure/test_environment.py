"""The fingerprint of this machine, and the checks of its health."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import tare
from tare.measure import environment, health
from tare.measure.environment import collect, collect_without_torch
from tare.measure.nvml import Gpu
from tare.records.codec import encode
from tare.records.environment import Environment, difference_lines
from tare.system.variables import INDIFFERENT

ROOT = Path(tare.__file__).parents[2]


@pytest.fixture(scope="module")
def found() -> Environment:
    # Before the variables: torch makes the folders that some of them name.
    import torch  # noqa: F401

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "2")
        patch.setenv("MKL_NUM_THREADS", "3")
        patch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        patch.setenv("TORCHINDUCTOR_FREEZING", "1")
        patch.setenv("UNRELATED_SECRET", "hunter2")
        # Terraform's, and two that only begin like variables of torch and CUDA.
        patch.setenv("TF_VAR_db", "hunter2")
        patch.setenv("TORCH_MODEL_HUB_TOKEN", "hunter2")
        patch.setenv("CUDA_MIRROR", "https://me:hunter2@host/cuda")
        for name in INDIFFERENT:
            patch.setenv(name, "/somewhere/of/mine")
        return collect()


def test_the_machine_is_described(found: Environment) -> None:
    assert {"arch", "cpu", "cores", "logical_cores", "memory_gib"} <= found.machine.keys()
    assert all(int(found.machine[name]) >= 1 for name in ("cores", "logical_cores", "memory_gib"))


def test_the_software_is_described(found: Environment) -> None:
    assert found.software["torch"].split("+")[0] == version("torch").split("+")[0]
    assert found.software["numpy"] == version("numpy")
    assert found.software["tare"] == tare.__version__
    assert {"os", "kernel", "python"} <= found.software.keys()


def test_variables_that_change_a_step_are_kept(found: Environment) -> None:
    assert found.flags["env.OMP_NUM_THREADS"] == "2"
    assert found.flags["env.MKL_NUM_THREADS"] == "3"
    assert found.flags["env.PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert found.flags["env.TORCHINDUCTOR_FREEZING"] == "1"


def test_variables_that_only_name_places_are_left_out(found: Environment) -> None:
    assert not [name for name, value in found.flags.items() if value == "/somewhere/of/mine"]


def test_a_variable_that_is_no_text_is_kept_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_ODD", os.fsdecode(b"a\xff"))
    environment = collect_without_torch()
    assert environment.flags["env.OMP_ODD"] == "a\ufffd"
    assert b"OMP_ODD" in encode(environment)


def test_nothing_else_of_the_users_environment_is_recorded(found: Environment) -> None:
    assert "hunter2" not in repr(found)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="tare does not run from a checkout here")
def test_the_commit_of_tare_is_named(found: Environment) -> None:
    commit, _, changed = found.circumstances["tare_commit"].partition("+")
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    assert changed in ("", "changes")
    kind = subprocess.run(
        ["git", "-C", ROOT, "cat-file", "-t", commit], capture_output=True, text=True, check=True
    )
    assert kind.stdout.strip() == "commit"


def test_the_packages_that_were_imported_are_named_by_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that imports little else. A package that is a link to its sources lists no modules."""
    linked = tmp_path / "my_linked-1.5.dist-info"
    linked.mkdir()
    (linked / "METADATA").write_text("Metadata-Version: 2.1\nName: my-linked\nVersion: 1.5\n")
    (tmp_path / "my_linked.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = "import json, my_linked, pynvml; from tare.measure.environment import imported_packages as packages"
    command = [sys.executable, "-c", f"{program}; print(json.dumps(packages()))"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    packages = json.loads(printed)
    assert packages["nvidia-ml-py"] == version("nvidia-ml-py")
    assert packages["msgspec"] == version("msgspec")
    assert packages["my_linked"] == "1.5"
    assert not packages.keys() & {"torch", "scipy", "tare-bench"}


def test_the_load_is_noted_but_never_compared(found: Environment) -> None:
    assert float(found.circumstances["load_1min"]) >= 0
    other = Environment(
        machine=found.machine, software=found.software, flags=found.flags, circumstances={"load_1min": "99"}
    )
    assert difference_lines(found, other) == []
    assert other.id == found.id


def make_governors(root: Path, *names: str) -> Path:
    for i, name in enumerate(names):
        folder = root / f"cpu{i}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(name + "\n")
    return root


@pytest.mark.parametrize(
    ("governors", "state", "seen"),
    [
        ((), "unknown", "not shown"),
        (("performance", "performance"), "good", "performance"),
        (("performance", "powersave"), "warn", "performance, powersave"),
        (("ondemand",), "warn", "ondemand"),
    ],
)
def test_the_governor(tmp_path: Path, governors: tuple[str, ...], state: str, seen: str) -> None:
    check = health._governor(make_governors(tmp_path, *governors))
    assert check.state == state
    assert check.seen.startswith(seen)
    assert bool(check.remedy) == (state == "warn")


def test_every_check_has_a_state_and_a_warning_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gpu, "open", lambda _: None)
    checks = health.examine({"cuda:0": "00000000:01:00.0"})
    assert [check.name for check in checks] == [
        "CPU governor", "CPU boost", "CPU load", "host memory", "swap", "CPU affinity", "cuda:0 NVML",
    ]  # fmt: skip
    assert {check.state for check in checks} <= {"good", "warn", "unknown"}
    assert all(check.remedy for check in checks if check.state == "warn")
    assert (checks[-1].state, checks[-1].seen) == ("unknown", "NVML does not answer")


def test_what_needs_no_torch_is_a_part_of_what_a_worker_says() -> None:
    """The same facts under the same names, so that both are compared alike."""
    whole, part = collect(), collect_without_torch()
    # Of these NVML may see more than torch, which is shown a part of the machine.
    others = {"gpu", "gpus", "driver"}
    assert part.flags == whole.flags
    for mine, theirs in ((part.machine, whole.machine), (part.software, whole.software)):
        assert {name: value for name, value in mine.items() if name not in others}.items() <= theirs.items()
    assert {"arch", "cpu", "cores", "logical_cores", "memory_gib"} <= part.machine.keys()
    assert {"os", "kernel"} <= part.software.keys()


def test_a_cpu_is_named_as_lscpu_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On x86-64 the kernel has the name; on ARM it has numbers, which stay where there is no lscpu."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("vendor_id\t: GenuineIntel\nmodel name\t: Xeon\n\nvendor_id\t: GenuineIntel\n")
    assert environment._cpu_model(cpuinfo) == "Xeon"
    cpuinfo.write_text("CPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n")
    monkeypatch.setattr(environment, "_output", lambda *_: "Architecture:  aarch64\n  Model name:   Neoverse-N1\n")
    assert environment._cpu_model(cpuinfo) == "Neoverse-N1"
    monkeypatch.setattr(environment, "_output", lambda *_: "")
    assert environment._cpu_model(cpuinfo) == "arm 0x41/0xd0c/0x3"
