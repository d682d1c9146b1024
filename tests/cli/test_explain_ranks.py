"""`tare explain` of several ranks, of folders, and of files that are no traces."""

import json
from pathlib import Path

import pytest
from commandline import tare
from ranks import job, write_job
from traces import RECORDED
from typer.testing import CliRunner

from tare.cli.app import app
from tare.errors import BadInput


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["explain", *args])
    return result.exit_code, result.output


def test_a_folder_of_ranks_is_one_job(tmp_path: Path) -> None:
    paths = write_job(tmp_path, job(slow=2, slow_for=300, slow_in="python"))
    for targets in ([str(tmp_path)], [str(path) for path in reversed(paths)]):
        code, printed = run(*targets)
        assert code == 0
        assert "one job of 4 ranks" in printed
        assert "rank 2 is the straggler: it began 5 collectives last" in printed
        assert "python: train.py(7): augment" in printed
        assert max(map(len, printed.splitlines())) <= 100
    code, printed = run(str(tmp_path), "--json")
    document = json.loads(printed)
    assert code == 0
    assert document["job"]["straggler"]["rank"] == 2
    assert [each["title"] for each in document["explanations"]] == ["rank 2"]


@pytest.mark.full
def test_traces_that_are_no_ranks_are_explained_each(tmp_path: Path) -> None:
    first, second = job(ranks=2)
    second.metadata = first.metadata
    code, printed = run(*map(str, write_job(tmp_path, [first, second])))
    assert code == 0
    assert "one job" not in printed
    code, printed = run(str(RECORDED / "inefficient-leak.json.gz"), "--json")
    assert "job" not in json.loads(printed)


def test_what_is_no_trace_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "list.json").write_text('{"a": 1}')
    (tmp_path / "blank.json").write_text("")
    cases = {"empty": "holds no trace", "notes.txt": "is no trace", "list.json": "is not a trace"}
    cases["blank.json"] = "is empty"
    for name, message in cases.items():
        error = CliRunner().invoke(app, ["explain", str(tmp_path / name)]).exception
        assert isinstance(error, BadInput)
        assert message in str(error)
        assert len(str(error).splitlines()) == 1


@pytest.mark.full
def test_a_bad_trace_does_not_hide_a_good_one(tmp_path: Path) -> None:
    good, bad = str(RECORDED / "inefficient-leak.json.gz"), tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [')
    done = tare(tmp_path, "explain", str(bad), good)
    assert done.returncode == 1
    assert "where a step goes" in done.stdout
    assert "bad.json has no explanation" in " ".join(done.stdout.split())


def test_a_rank_that_cannot_be_read_is_named_beside_the_job(tmp_path: Path) -> None:
    paths = write_job(tmp_path, job(slow=1, slow_for=200))
    paths[3].write_text("{")
    _, printed = run(str(tmp_path))
    assert "one job of 3 ranks" in printed
    assert "rank3.json has no explanation" in " ".join(printed.split())
