"""An emitted training step: built from its folder alone, its check passes, and a wrong number fails it."""

import json
import re
import shutil
from pathlib import Path

import pytest
from emitted import Emitted, build, emit, run

HOSTILE = '*/ } int main() { return 7; } // "\\\nclass'


def with_hostile_module(stage: Path) -> None:
    """The paths of modules are texts of the user's: one of them ends comments, lines and literals."""
    document = json.loads((stage / "plan.json").read_text())
    for op in document["ops"]:
        if op["module"] == "3":
            op["module"] = HOSTILE
    (stage / "plan.json").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return emit("mnist_cnn", "train", tmp_path_factory.mktemp("emitted"), batch=4, change=with_hostile_module)


@pytest.fixture(scope="module")
def program(project: Emitted) -> Path:
    return build(project.folder)


def test_the_step_computes_the_reference_and_is_timed(program: Path, project: Emitted) -> None:
    done = run(program, "--steps", "5", "--threads", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"check: {len(project.reference.arrays)} tensors are the same" in done.stdout
    times = re.search(
        r"step: median (\S+) ms, p5 (\S+) ms, p95 (\S+) ms \(5 blocks of \d+, 1 threads\)", done.stdout
    )
    assert times
    median, low, high = map(float, times.groups())
    assert 0 < low <= median <= high


def test_a_changed_weight_fails_the_check(program: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(program.parents[1] / "data", data)
    weights = data / "weights.bin"
    content = bytearray(weights.read_bytes())
    # The sign of one weight of the first convolution.
    content[3] ^= 0x80
    weights.write_bytes(content)
    done = run(program, "--check", "--data", str(data))
    assert done.returncode == 1
    assert re.search(r"^loss/1@0 differs: off by \S+, allowed 0.0001$", done.stdout, re.MULTILINE), done.stdout
    assert "FAILED" in done.stdout


def test_a_wrong_update_fails_the_check(program: Path, tmp_path: Path) -> None:
    """The reference of an update is changed: exactly that tensor differs."""
    data = tmp_path / "data"
    shutil.copytree(program.parents[1] / "data", data)
    line = next(line for line in (data / "index.txt").read_text().splitlines() if line.endswith("update/9.bias"))
    at = int(line.split()[10])
    content = bytearray((data / "reference.bin").read_bytes())
    content[at + 7] ^= 0x80
    (data / "reference.bin").write_bytes(content)
    done = run(program, "--check", "--data", str(data))
    assert done.returncode == 1
    assert re.findall(r"^(\S+) differs", done.stdout, re.MULTILINE) == ["update/9.bias"]


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--data", "nowhere"), "cannot read nowhere/index.txt", 1),
        (("--steps", "0"), "--steps takes a positive whole number, not '0'", 2),
        (("--threads",), "--threads takes a positive whole number", 2),
        (("--fast",), "unknown option '--fast'", 2),
    ],
)
def test_a_wrong_option_is_one_line(program: Path, options: tuple[str, ...], message: str, code: int) -> None:
    done = run(program, *options)
    assert done.returncode == code
    assert message in done.stderr.splitlines()[0]


def test_a_file_that_was_cut_is_refused(program: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(program.parents[1] / "data", data)
    for name in ("weights.bin", "batches.bin", "reference.bin"):
        content = (data / name).read_bytes()
        (data / name).write_bytes(content[:-8])
        done = run(program, "--check", "--data", str(data))
        assert (done.returncode, f"{name} is too short" in done.stderr) == (1, True), done.stderr
        (data / name).write_bytes(content)
    # A whole batch is missing.
    content = (data / "batches.bin").read_bytes()
    (data / "batches.bin").write_bytes(content[: len(content) // 3])
    done = run(program, "--check", "--data", str(data))
    assert (done.returncode, "batches.bin is too short" in done.stderr) == (1, True), done.stderr


def test_the_source_names_the_layers_and_counts_what_torch_counts(project: Emitted) -> None:
    step = (project.folder / "step.cpp").read_text()
    assert "forward::module_0();" in step
    assert step.index("forward::loss();") < step.index("backward::module_9();") < step.index("update::weights();")
    assert sum(layer.flops or 0 for layer in project.layers) == project.reference.flops > 0
    # What begins in a name ends in its line.
    for path in project.folder.rglob("*.[ch]pp"):
        for line in path.read_text().splitlines():
            assert "int main() { return 7" not in line or line.lstrip().startswith("// "), line


def test_only_the_headers_that_are_used_are_copied(project: Emitted) -> None:
    copied = {path.name for path in (project.folder / "ops").iterdir()}
    assert {"convolution.hpp", "blas.hpp", "curves.hpp", "pooling.hpp", "losses.hpp"} <= copied
    assert not copied & {"lstm.hpp", "team.hpp", "expressions.hpp", "normalization.hpp"}
    assert not (project.folder / "kernels").exists()
