"""`tare explain --modules`: the tree in text, JSON and HTML."""

import json
from pathlib import Path

from traces import RECORDED
from typer.testing import CliRunner

from tare.cli.app import app
from tare.errors import BadInput

STACKS = str(RECORDED / "resnet50-infer-b1-eager-stack.json.gz")
PLAIN = str(RECORDED / "resnet50-infer-b1-eager.json.gz")


def run(*args: str) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.output
    return result.output


def test_the_tree_in_text_json_and_html(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    printed = run("explain", STACKS, "--modules", "3", "--html", str(page))
    (row,) = (line for line in printed.splitlines() if "Bottleneck_8…12 (5)" in line)
    assert row.split()[-7:-5] == ["26.1", "%"]
    assert max(map(len, printed.splitlines())) <= 100
    assert "Bottleneck_8…12 (5)" in page.read_text()
    (diagnosis,) = json.loads(run("explain", STACKS, "--json"))["diagnoses"]
    (network,) = diagnosis["modules"]["children"]
    assert network["name"] == "ResNet_0"
    assert network["total"]["launches"] == 280


def test_without_modules_it_says_how_to_record_them() -> None:
    assert "with_stack=True" in run("explain", PLAIN, "--modules", "2")
    assert "Bottleneck_8" not in run("explain", STACKS, "--tables", "3")


def test_modules_need_the_recording_with_stacks() -> None:
    error = CliRunner().invoke(app, ["explain", "mlp", "--no-stacks", "--modules", "2"]).exception
    assert isinstance(error, BadInput)
    assert "leave out --no-stacks" in str(error)
