"""Bisections over versions, each in a virtual environment, and over labels; no network."""

import sys
from pathlib import Path

import pytest
from builders import ENVIRONMENT
from candidates import wheel

from tare.bisect.candidates import list_versions, read_labels
from tare.bisect.command import CandidateFailed, command_arguments
from tare.bisect.loop import bisect
from tare.bisect.measure import plan_text, read_figures
from tare.bisect.spec import BisectSpec, make_spec
from tare.errors import BadInput

KEY = "mlp/eager/train/cpu/fp32/batch=8,width=64/feed=device,layout=contiguous,optimizer=sgd,threads=2"


def ask(**given: object) -> BisectSpec:
    return make_spec(**({"timeout": 60.0} | given))  # type: ignore[arg-type]


@pytest.mark.full
def test_versions_in_their_own_environments(tmp_path: Path) -> None:
    costs = {"1.1": 1.0, "1.2": 1.3}
    for version, cost in costs.items():
        wheel(tmp_path, version, cost)
    spec = ask(
        good="1.1",
        bad="1.2",
        versions=list(costs),
        install=[
            f"pip install --quiet --no-index --disable-pip-version-check --find-links {tmp_path} slowpoke=={{}}"
        ],
        command="python -c 'import slowpoke; print(slowpoke.COST)'",
    )
    result = bisect(spec, tmp_path / "work", ENVIRONMENT)
    (culprit,) = result.culprits
    assert (result.verdict, culprit.culprit, culprit.parent) == ("found", "1.2", "1.1")
    assert culprit.ratio == pytest.approx(1.3)
    assert {"package slowpoke==1.1 gone", "package slowpoke==1.2 new"} <= set(culprit.changes)


def labelled(tmp_path: Path, count: int = 12) -> Path:
    path = tmp_path / "labels"
    path.write_text("# oldest first\n" + "".join(f"v{i}\n" for i in range(count)) + "\n")
    return path


def test_labels_with_a_command_for_each(tmp_path: Path) -> None:
    """A deterministic figure: no noise, so little more than halving. Exit code 1 skips, and a nan does."""
    code = (
        "import sys; n = int(sys.argv[1][1:]); "
        "sys.exit(3) if n == 4 else print('nan' if n == 5 else 10 + (n >= 7))"
    )
    spec = ask(labels=labelled(tmp_path), command=f'{sys.executable} -S -c "{code}" {{}}')
    messages: list[str] = []
    result = bisect(spec, tmp_path / "work", ENVIRONMENT, notify=messages.append)
    (culprit,) = result.culprits
    assert (culprit.culprit, culprit.parent, culprit.before, culprit.after) == ("v7", "v6", 10, 11)
    assert not {"v4", "v5"} & set(result.measured)
    assert messages[-1].endswith("most suspect so far: v7 at 100%")


def test_a_command_runs_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`./measure {}` means the user's own file, and in another folder it is another file and another bisection."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    specs = []
    for folder, culprit in ((here, 2), (elsewhere, 3)):
        folder.mkdir()
        (folder / "measure").write_text(f"#!/bin/sh\n[ ${{1#v}} -ge {culprit} ] && echo 2 || echo 1\n")
        (folder / "measure").chmod(0o755)
        monkeypatch.chdir(folder)
        specs.append(ask(labels=labelled(tmp_path, 4), command="./measure {}"))
    monkeypatch.chdir(tmp_path)
    results = [bisect(spec, tmp_path / spec.fingerprint, ENVIRONMENT) for spec in specs]
    assert [each.culprit for result in results for each in result.culprits] == ["v2", "v3"]


@pytest.mark.full
def test_wall_time_can_be_measured(tmp_path: Path) -> None:
    code = "import sys, time; time.sleep(0.02 if int(sys.argv[1][1:]) < 2 else 0.5)"
    spec = ask(labels=labelled(tmp_path, 4), command=f'{sys.executable} -S -c "{code}" {{}}', reading="wall")
    (culprit,) = bisect(spec, tmp_path / "work", ENVIRONMENT).culprits
    assert culprit.culprit == "v2"


def test_an_end_that_fails_is_said(tmp_path: Path) -> None:
    spec = ask(labels=labelled(tmp_path, 4), command=f"{sys.executable} -c \"raise SystemExit('no such model')\"")
    result = bisect(spec, tmp_path / "work", ENVIRONMENT)
    assert (result.verdict, result.exit_code) == ("ends-failed", 1)
    assert "no such model" in result.skipped[0].reason


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    code = "import time; time.sleep(600)"
    spec = ask(labels=labelled(tmp_path, 2), command=f'{sys.executable} -S -c "{code}"', timeout=0.3)
    assert "longer than 0.3 s" in bisect(spec, tmp_path / "work", ENVIRONMENT).skipped[0].reason


def test_a_label_is_never_more_than_one_argument() -> None:
    label = "a b; touch x $(touch y) {dir} `z`"
    values = {"label": label, "dir": "/d", "python": "/p"}
    assert command_arguments("run --at={} {dir} '{label}' {other}", values, "x") == [
        "run",
        f"--at={label}",
        "/d",
        label,
        "{other}",
    ]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "--case KEY, or --command"),
        ({"command": "x", "case": "y"}, "one of them"),
        ({"command": " ", "labels": Path("/none")}, "--command is empty"),
        ({"command": "", "labels": Path("/none")}, "--command is empty"),
        ({"case": "resnet50"}, "not a case key"),
        ({"command": "x", "good": "1", "bad": "2"}, "--install"),
        ({"command": "x", "good": "1", "bad": "2", "install": ["pip install y"]}, "--versions"),
        (
            {"command": "x", "good": "1", "bad": "3", "install": ["a"], "versions": ["1", "2"]},
            "unknown version '3'",
        ),
        ({"command": "x", "good": "2", "bad": "1", "install": ["a"], "versions": ["1", "2"]}, "before the bad"),
        ({"command": "x", "good": "1", "bad": "2", "install": ["a"], "versions": ["1", "1", "2"]}, "twice"),
        ({"command": "x", "labels": Path("/none")}, "cannot read /none"),
        ({"command": "x", "labels": Path("/none"), "repo": Path("/")}, "give one"),
        ({"command": "x", "labels": Path("/none"), "build": ["y"]}, "--build is for --repo"),
        ({"command": "x", "timeout": 0}, "--timeout"),
        ({"command": "x", "python": "no-such-python"}, "no-such-python"),
        ({"case": KEY, "metric": "colour"}, "gross"),
        ({"command": "x", "metric": "operators"}, "--metric is for --case"),
        ({"command": "x", "budget": 1.0}, "--budget is for --case"),
        ({"case": KEY, "budget": 0.0}, "--budget takes seconds above 0"),
        ({"case": KEY, "reading": "wall"}, "--measure"),
        ({"command": " "}, "empty"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        ask(**given)


def test_versions_lie_between_the_ends() -> None:
    found = list_versions("1.1", "1.3", ["1.0", "1.1", "1.2", "1.3", "1.4"], [], sys.executable)
    assert [each.label for each in found] == ["1.1", "1.2", "1.3"]


def test_labels_may_be_cut_at_both_ends(tmp_path: Path) -> None:
    assert [c.label for c in read_labels(labelled(tmp_path), "v3", "v5")] == ["v3", "v4", "v5"]


def test_a_file_of_labels_may_come_from_windows_and_holds_two(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes("\ufeffv1\r\nv2\r\n".encode())
    assert [c.label for c in read_labels(path, None, None)] == ["v1", "v2"]
    for text, there in (("v1\n", "v1"), ("# none\n", "none")):
        path.write_text(text)
        with pytest.raises(BadInput, match=f"needs two labels, and .* names {there}$"):
            read_labels(path, None, None)


def test_figures_are_read_from_the_last_line() -> None:
    assert read_figures("noise\n1.5\n\n") == (1.5, {})
    assert read_figures('{"seconds": 2, "kernels": 7, "name": "x", "ok": true}') == (2.0, {"kernels": 7.0})
    for text in ("", "done", "[1]", '{"kernels": 3}', "true", "1.5 s"):
        with pytest.raises(CandidateFailed):
            read_figures(text)


def test_a_case_becomes_a_plan_of_its_own() -> None:
    import tomllib

    from tare.cases.case import Case
    from tare.cases.plan import make_plan

    plan = make_plan(tomllib.loads(plan_text(Case.parse(KEY), 3.0)), "x")
    assert plan.options == {"rounds": 1, "budget": 3.0, "parity": False}
    (grid,) = plan.grids
    assert (grid.workload, grid.rung, grid.batch, grid.optimizer, grid.threads) == (
        ("mlp",), ("eager",), (8,), ("sgd",), (2,),
    )  # fmt: skip
    assert grid.size == {"width": (64,)}


def test_of_many_labels_those_at_both_ends_are_listed_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "labels"
    file.write_text("\n".join(f"night{i}" for i in range(1, 65)))
    with pytest.raises(BadInput) as error:
        read_labels(file, "nihgt60", None)
    told = str(error.value)
    assert "did you mean 'night60'?" in told
    assert "(valid: night1, night2, night3, " in told
    assert "night10, ... 44 more ..., night55, " in told
    assert told.endswith("night64)")


@pytest.mark.full
def test_a_machine_that_alternates_accuses_none_of_identical_labels(tmp_path: Path) -> None:
    """Every second process takes 5 % longer. Ends that were measured strictly in turn differed with certainty."""
    runs = tmp_path / "runs"
    code = (
        f"import pathlib; p = pathlib.Path({str(runs)!r}); n = len(p.read_text()) if p.exists() else 0; "
        "p.write_text('x' * (n + 1)); print((1.05 if n % 2 else 1.0) * (1 + n * 7 % 11 / 10000))"
    )
    script = tmp_path / "machine.py"
    script.write_text(code)
    spec = ask(labels=labelled(tmp_path), command=f"{sys.executable} -S {script} {{}}")
    result = bisect(spec, tmp_path / "work", ENVIRONMENT)
    assert (result.verdict, result.culprits) == ("no-difference", [])
    assert result.seed is not None
