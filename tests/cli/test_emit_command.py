"""`tare emit` as a user runs it: what it refuses, in one line; and what it says of a project that it wrote."""

import json
from pathlib import Path

import pytest
from commandline import tare


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mnist_cnn", "--device", "cuda"), "for cpu only so far, not for 'cuda' (valid: cpu)"),
        (("plan.toml",), "takes one workload and its options, not a plan (plan.toml)"),
        (("no_such_model",), "unknown workload 'no_such_model'"),
        (("mnist_cnn", "--batch", "1,2"), "a project is of one step, and these are 2: mnist_cnn/vendor/"),
        (("mnist_cnn", "--precision", "bf16"), "for fp32 only so far, not for 'bf16' (valid: fp32)"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = tare(tmp_path / "home", "emit", *arguments, "-o", str(tmp_path / "project"))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "project").exists()


def test_a_foreign_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "thesis.tex").write_text("years of work")
    done = tare(tmp_path / "home", "emit", "mnist_cnn", "-o", str(tmp_path / "project"))
    assert done.returncode == 2
    assert "is not empty and was not made by tare emit" in done.stderr
    assert [path.name for path in (tmp_path / "project").iterdir()] == ["thesis.tex"]


@pytest.mark.full
def test_a_project_is_written_whole_and_described_as_json(tmp_path: Path) -> None:
    model = tmp_path / "mine.py"
    model.write_text(
        "import torch\n\n\nclass Mine(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.first = torch.nn.Linear(6, 5)\n"
        "        self.norm = torch.nn.LayerNorm(5)\n\n"
        "    def forward(self, x):\n        return self.norm(self.first(x))\n"
    )
    arguments = (f"{model}::Mine", "--input", "4x6", "--mode", "infer", "-o", str(tmp_path / "project"))
    done = tare(tmp_path / "home", "emit", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["parity"]["status"] == "same"
    written = {path.relative_to(tmp_path / "project").as_posix() for path in (tmp_path / "project").rglob("*.*")}
    assert written == set(document["files"])
    assert "kernels/kernels.hpp" in written
    assert [layer["module"] for layer in document["layers"]] == ["first", "norm"]
    assert f"tare emit {model}::Mine --input 4x6" in (tmp_path / "project" / "README.md").read_text()
    assert [path.name for path in tmp_path.glob(".project*")] == []


@pytest.mark.full
def test_what_the_rung_cannot_run_is_refused_with_its_reason(tmp_path: Path) -> None:
    done = tare(tmp_path / "home", "emit", "basic_gnn_gcn", "--smoke", "-o", str(tmp_path / "project"))
    assert done.returncode == 1
    assert "the vendor rung cannot run basic_gnn_gcn: " in done.stderr
    assert not (tmp_path / "project").exists()
