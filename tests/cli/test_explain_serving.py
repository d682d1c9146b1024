"""`tare explain` of a server's trace: text, JSON and HTML."""

import json
from pathlib import Path

from serving import served, vllm
from traces import RECORDED
from typer.testing import CliRunner

from tare.cli.app import app


def run(*args: str) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_servers_iterations_in_text_json_and_html(tmp_path: Path) -> None:
    path, page = str(served(vllm).write(tmp_path / "server.json")), tmp_path / "page.html"
    assert "serving: 9 iterations by the ranges of vLLM" in run("explain", path, "--html", str(page))
    assert "ranges of vLLM" in page.read_text()
    (diagnosis,) = json.loads(run("explain", path, "--json"))["diagnoses"]
    server = diagnosis["serving"]
    assert server["token_times"]["p99"] == 261_000
    assert server["iterations"][2] == {
        "at": 300_000, "ns": 140_000, "busy": 120_000, "kind": "mixed", "sequences": 3, "tokens": 20,
    }  # fmt: skip


def test_other_traces_have_none() -> None:
    path = str(RECORDED / "resnet50-infer-b1-eager.json.gz")
    assert "serving" not in run("explain", path)
    assert json.loads(run("explain", path, "--json"))["diagnoses"][0]["serving"] is None
