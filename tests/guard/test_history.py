"""Histories: which records make a series, what a step is called, and how it is drawn."""

import itertools
import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round
from commandline import tare
from rich.console import Console

from tare.commands.records import find_series
from tare.guard.history import History, HistoryPoint, foreign_histories, make_history, record_histories
from tare.guard.metrics import get_metric
from tare.records.environment import Environment
from tare.records.record import Parity, Record
from tare.report.history import axis, chart_html, chart_svg, extent, figure, histories_view
from tare.report.numbers import change_text
from tare.report.plot import columns, plot, sparkline
from tare.store.database import Store
from tare.store.foreign import ForeignPoint
from tare.store.journal import begin
from tare.system.repository import Repository


def environment(torch: str, commit: str, cpu: str = "test-cpu") -> Environment:
    return msgspec.structs.replace(
        ENVIRONMENT,
        machine={**ENVIRONMENT.machine, "cpu": cpu},
        software={**ENVIRONMENT.software, "torch": torch},
        circumstances={"tare_commit": commit},
    )


def nightly(count: int, step_at: int, ratio: float, **overrides: Any) -> list[Record]:
    """A record a night; the night of the step brings a new torch."""
    chance = np.random.default_rng(4)
    return [
        make_record(
            id=f"r{i:011d}",
            run=f"n{i:011d}",
            created=f"2026-{1 + i // 28:02d}-{1 + i % 28:02d}T03:00:00+00:00",
            rounds=[make_round(0, 1e-3 * float(np.exp(chance.normal(0, 0.01))) * (ratio if i >= step_at else 1))],
            **{"environment": environment("2.11.0" if i >= step_at else "2.10.0", f"{i:02d}" * 20), **overrides},
        )
        for i in range(count)
    ]


def test_a_step_is_reported_with_its_commits_dates_and_what_changed() -> None:
    (history,) = record_histories(nightly(60, 40, 1.08), get_metric("gross"))
    (step,) = history.change_points
    assert step.earliest <= 40 <= step.latest
    assert step.low is not None
    assert step.high is not None
    assert step.low < 1.08 < step.high
    assert step.after_label == history.points[step.earliest - 1].label
    assert step.until_date == history.points[step.latest].created
    assert "software.torch: 2.10.0 against 2.11.0" in step.environment_changes


def test_a_step_names_the_commits_of_the_users_project() -> None:
    """Rather than tare's own; with the branch, a plus for changes, and the code of the model if that changed."""
    records = []
    for i, record in enumerate(nightly(60, 40, 1.08)):
        project = Repository(commit=f"{i:02d}" * 20, branch="main", dirty=i >= 40)
        case = make_case(workload="my.py::Model", source="bbbbbbbb" if i >= 40 else "aaaaaaaa")
        records.append(msgspec.structs.replace(record, project=project, case=case))
    (history,) = record_histories(records, get_metric("gross"))
    (step,) = history.change_points
    after, until = step.earliest - 1, step.latest
    assert step.after_label == f"{after:02d}" * 5 + " (main)"
    assert step.until_label == f"{until:02d}" * 5 + "+ (main)"
    assert "the model's code: aaaaaaaa against bbbbbbbb" in step.environment_changes
    assert history.points[3].project == Repository(commit="03" * 20, branch="main", dirty=False)
    assert msgspec.to_builtins(history)["points"][41]["project"]["dirty"] is True
    console = Console(width=100, file=open(os.devnull, "w"), record=True)  # noqa: PTH123, SIM115
    console.print(histories_view([history]))
    shown = " ".join(console.export_text().split())
    assert f"between {step.after_label} and {step.until_label}" in shown
    assert "the model's code: aaaaaaaa against bbbbbbbb" in shown


def test_without_a_project_a_point_is_named_as_before() -> None:
    (history,) = record_histories(nightly(3, 99, 1), get_metric("gross"))
    assert (history.points[2].label, history.points[2].project) == ("02" * 20, None)


def test_machines_do_not_share_a_series() -> None:
    here, there = nightly(20, 99, 1), nightly(20, 99, 1, environment=environment("2.10.0", "x", cpu="other"))
    assert [len(h.points) for h in record_histories([*here, *there], get_metric("gross"))] == [20, 20]


def test_what_failed_or_differs_is_skipped_and_counted() -> None:
    records = nightly(20, 99, 1)
    records[3] = msgspec.structs.replace(records[3], failure=make_failure())
    records[4] = msgspec.structs.replace(records[4], parity=Parity(status="different"))
    (history,) = record_histories(records, get_metric("gross"))
    assert (len(history.points), history.skipped) == (18, 2)
    assert record_histories(records, get_metric("energy")) == []


def counted(*per_night: float, rounds: int = 2) -> list[Record]:
    return [
        make_record(
            id=f"r{i:011d}",
            created=f"2026-01-{1 + i:02d}T03:00:00+00:00",
            rounds=[make_round(n, counts={"synchronisations": count}) for n in range(rounds)],
        )
        for i, count in enumerate(per_night)
    ]


def test_a_count_is_taken_as_it_is_and_every_change_is_a_step() -> None:
    """Statistics would take four of 24 points for outliers, and tell of +1.0 % one night too early."""
    (history,) = record_histories(counted(*[40] * 20, *[41] * 4), get_metric("synchronisations"))
    (step,) = history.change_points
    assert (step.position, step.before, step.now, step.ratio) == (20, 40, 41, 1.025)
    assert history.skipped == 0
    assert history.segments == [(0, 20, 40, 40), (20, 24, 41, 41)]


def test_a_count_of_zero_is_a_figure_like_any_other() -> None:
    (history,) = record_histories(counted(0, 0, 0, 2, 2, 0), get_metric("synchronisations"))
    assert (len(history.points), history.skipped) == (6, 0)
    up, down = history.change_points
    assert (up.position, up.ratio, up.before, up.now) == (3, None, 0, 2)
    assert (down.position, down.ratio) == (5, 0)
    console = Console(width=100, file=open(os.devnull, "w"), record=True)  # noqa: PTH123, SIM115
    console.print(histories_view([history]))
    assert "from nothing" in console.export_text()
    ElementTree.fromstring(chart_svg(history))
    (flat,) = record_histories(counted(0, 0), get_metric("synchronisations"))
    assert (flat.change_points, flat.long_enough) == ([], True)
    ElementTree.fromstring(chart_svg(flat))


def test_a_count_that_differs_between_rounds_is_noise_like_a_time() -> None:
    chance = np.random.default_rng(3)
    records = [
        make_record(
            id=f"r{i:011d}",
            created=f"2026-01-{1 + i:02d}T03:00:00+00:00",
            rounds=[make_round(n, counts={"allocations": int(chance.integers(95, 105))}) for n in range(3)],
        )
        for i in range(28)
    ]
    (history,) = record_histories(records, get_metric("allocations"))
    assert history.change_points == []


def made(count: int, ratio: float = 1.1) -> History:
    chance = np.random.default_rng(1)
    points = [
        HistoryPoint(
            created=f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}",
            value=float(np.exp(chance.normal(0, 0.01))) * (ratio if i >= count // 2 else 1),
            label="<a&b>",
            id=str(i),
        )
        for i in range(count)
    ]
    return make_history(points, name="a/<name>&co", source="pyperf", metric="time", unit="s", place="here")


@pytest.mark.parametrize("count", [1, 2, 5, 30, 700])
def test_every_length_fits_100_columns_and_is_valid_svg(count: int) -> None:
    history = made(count)
    console = Console(width=100, file=open(os.devnull, "w"), record=True)  # noqa: PTH123, SIM115
    console.print(histories_view([history]))
    console.print(histories_view([history, history]))
    assert max(map(len, console.export_text().splitlines())) <= 100
    root = ElementTree.fromstring(chart_svg(history))
    dots = [node for node in root.iter() if node.tag.endswith("circle")]
    assert len(dots) == count
    assert "<name>" not in chart_html([history])


def test_a_short_series_says_that_it_is() -> None:
    console = Console(width=100, file=open(os.devnull, "w"), record=True)  # noqa: PTH123, SIM115
    console.print(histories_view([made(4)]))
    assert "too short to judge" in console.export_text()


def test_one_point_has_no_noise() -> None:
    assert extent(made(1)) == ["1 point"]
    count, noise = extent(made(2))
    assert count == "2 points"
    assert noise.startswith("noise ")


def test_sparkline_and_columns() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5, 5]) == "▄▄▄"
    assert sparkline([]) == ""
    assert columns([1, 2, 3, 4], 2) == [1.5, 3.5]


def test_a_plot_has_its_points_where_they_belong() -> None:
    lines = plot([1.0, 1.0, 3.0, 3.0], [1.0, 1.0, 3.0, 3.0], [2], ["3", "2", "1"], 40)
    assert lines == ["3 ┤  ••", "2 ┤    ", "1 ┤••  ", "  └──▲─"]


def test_points_that_differ_by_rounding_alone_lie_on_one_line() -> None:
    """The fitted line is the exponential of a logarithm, and not quite the value of the only point."""
    assert plot([1000.0], [999.9999999999998], [], ["", "x", ""], 40) == ["  ┤ ", "x ┤•", "  ┤ ", "  └─"]
    assert sparkline([1.0, 1.0 + 1e-15]) == "▄▄"


def test_every_label_of_an_axis_is_another() -> None:
    assert axis(2e-3, 4e-3, 3, "s") == ["4.000 ms", "3.000 ms", "2.000 ms"]
    assert axis(188.34 * 2**20, 188.38 * 2**20, 3, "B") == ["188.38 MiB", "188.36 MiB", "188.34 MiB"]
    assert axis(5.0, 5.0, 3, "") == ["", "5", ""]
    for unit in ("s", "B", ""):
        assert len(set(axis(1e299, 1.00001e299, 11, unit))) == 11


def test_a_figure_of_any_size_is_short() -> None:
    """Another tool's file may hold any number."""
    assert (figure(1e299, "s"), figure(1e299, "B"), figure(5e-321, "s")) == ("1e+299 s", "1e+299 B", "5e-321 s")
    assert (figure(3e-10, "s"), figure(86_400.0, "s"), figure(0.0, "B")) == ("0.3000 ns", "86400 s", "0 B")
    assert change_text(1e299, 1e298, None) == "1e+299x"
    assert change_text(40.0, 39.0, 41.0) == "40x (39x to 41x)"


def test_a_series_has_one_point_for_each_check(tmp_path: Path) -> None:
    """The baseline's side is another version, and a confirmation the same night once more."""
    store = Store(str(tmp_path / "records.db"))
    asked = []
    for night in range(10):
        for i, (side, confirmation) in enumerate(itertools.product((False, True), repeat=2)):
            journal = begin(store, "check", f"{night} {i}", [], baseline_side=side, confirmation=confirmation)
            created = f"2026-01-{night + 1:02d}T0{i}:00:00+00:00"
            journal.add_record(make_record(id=f"{night:06}{i:06}", run=journal.run, created=created))
            asked += [f"{night:06}{i:06}"] if i == 0 else []
    store.close()
    found = find_series([], str(tmp_path / "records.db"))
    assert [record.id for record in found] == asked


@pytest.mark.full
def test_history_and_import_from_the_command_line(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "records.db"))
    for record in nightly(40, 25, 1.1):
        journal = begin(store, "nightly", "x", [])
        journal.add_record(msgspec.structs.replace(record, run=journal.run))
    store.close()
    shown = tare(tmp_path, "history", make_case().key, "--chart", str(tmp_path / "h.svg"))
    assert shown.returncode == 0, shown.stderr
    assert "▲" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100
    assert ElementTree.parse(tmp_path / "h.svg")
    (document,) = json.loads(tare(tmp_path, "history", "rung=eager", "--json").stdout)
    assert [change["position"] for change in document["change_points"]] == [25]

    files = []
    for i in range(24):
        files.append(tmp_path / f"g{i}.json")
        entry = {"name": "BM_x", "real_time": 100 + i % 3 + (20 if i >= 12 else 0), "time_unit": "ns"}
        context = {"date": f"2026-03-{i + 1:02d}T00:00:00Z"}
        files[-1].write_text(json.dumps({"context": context, "benchmarks": [entry]}))
    done = tare(tmp_path, "import", *map(str, files), "--json")
    assert sum(each["new"] for each in json.loads(done.stdout)) == 24
    (document,) = json.loads(tare(tmp_path, "history", "BM_x", "--json").stdout)
    assert (document["source"], [change["position"] for change in document["change_points"]]) == (
        "google-benchmark",
        [12],
    )

    parametrised = {"name": "test_x[n=4]", "stats": {"median": 1e-3}}
    saved = {"machine_info": {}, "datetime": "2026-03-01T00:00:00Z", "benchmarks": [parametrised]}
    (tmp_path / "saved.json").write_text(json.dumps(saved))
    assert tare(tmp_path, "import", str(tmp_path / "saved.json")).returncode == 0
    for name in ("test_x[n=4]", "x[n=4", "*[n=4]"):
        (document,) = json.loads(tare(tmp_path, "history", name, "--json").stdout)
        assert document["name"] == "test_x[n=4]"

    for args, named in (
        (("history", "nothing_like_it"), "nothing_like_it"),
        (("history", "nothing_like_it", "--json"), "nothing_like_it"),
        (("history", "colour=4"), "unknown field 'colour'"),
        (("history", "mlp", "--metric", "colour"), "gross"),
        (("history", "BM_x", "--metric", "latency"), "leave --metric out"),
        (("history", "mlp", "--chart", "x.pdf"), ".svg"),
        (("history", "--chart", str(tmp_path / "x.svg")), "one series"),
        (("import", str(tmp_path / "h.svg")), "h.svg"),
        (("import", str(tmp_path / "none.json")), "none.json"),
    ):
        bad = tare(tmp_path, *args)
        assert (bad.returncode, len(bad.stderr.strip().splitlines())) == (2, 1), args
        assert named in bad.stderr


def test_what_was_imported_is_shown_as_what_it_is() -> None:
    def point(name: str, unit: str) -> ForeignPoint:
        return ForeignPoint(source="pyperf", name=name, created="2026-03-01T00:00:00Z", unit=unit, values=[1.0])

    found = [point("seconds", "s"), point("bytes", "B"), point("calls", "")]
    shown = {
        name: [history.name for history in foreign_histories(found, get_metric(name))]
        for name in ("gross", "host_peak", "latency", "device_peak", "operators")
    }
    empty: list[str] = []
    assert shown == {
        "gross": ["seconds", "bytes", "calls"],
        "host_peak": ["bytes"],
        **dict.fromkeys(("latency", "device_peak", "operators"), empty),
    }
