"""A check on a cluster without machines: where its rounds are measured, and what is left when nodes are lost."""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mock_fleets import MockCluster, MockMachine

from tare.cases.plan import make_plan
from tare.commands.check import CheckSession, Version
from tare.commands.fleet import FleetTarget
from tare.errors import BadInput, TareError
from tare.guard.changes import Report
from tare.guard.compare import Rules
from tare.guard.metrics import get_metrics
from tare.guard.thresholds import Thresholds
from tare.records.record import Record
from tare.store import schema
from tare.store.baselines import set_baseline
from tare.store.database import Store

TARGET = FleetTarget(address="ray", calibrate=False)
OLD = Version(variables={"PLANTED_SPEED": "OLD"})
PLAN = {"options": {"parity": False}, "grid": [{"workload": "mlp", "rung": ["eager"], "batch": [1, 2, 3]}]}


@pytest.fixture(autouse=True)
def nothing_to_examine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at this machine's load takes a moment, and is tested where it is."""
    monkeypatch.setattr("tare.execute.fleet.node.examine", lambda _: [])


def check(
    cluster: MockCluster,
    store: Path,
    version: Version | None = OLD,
    baseline: str | None = None,
    resume: bool = False,
) -> Report:
    @contextlib.contextmanager
    def open_ray(_: str) -> Iterator[MockCluster]:
        yield cluster

    rules = Rules(Thresholds(), get_metrics(["gross"]), None)
    with mock.patch("tare.commands.fleet.open_ray", open_ray):
        session = CheckSession(make_plan(PLAN, "a test"), {}, rules, str(store), show_progress=False)
        return session.run(baseline, version, resume, force=False, diff=True, target=TARGET)


def machines(*names: str, step_s: float = 1e-3, old_step_s: float = 1e-3) -> dict[str, MockMachine]:
    return {name: MockMachine(step_s=step_s, old_step_s=old_step_s) for name in names}


def read_store(path: Path) -> tuple[list[Record], set[str]]:
    """The records, and the runs that are a confirmation."""
    with Store(str(path), reading=True) as store:
        confirmations = {row.id for row in store.rows(schema.runs.select()) if row.confirmation}
        return store.find(schema.records.c.id.is_not(None)), confirmations


def assert_sound(path: Path, sides: int = 2) -> None:
    """Each case once on each side of each stage, whole, all sides from one node."""
    records, confirmations = read_store(path)
    assert Counter((r.run, r.case) for r in records).most_common(1)[0][1] == 1
    nodes: dict[tuple[str, bool], list[set[str]]] = {}
    for record in records:
        assert [done.index for done in record.rounds] == list(range(len(record.rounds)))
        of_record = {done.node for done in record.rounds}
        assert of_record == {record.environment.circumstances["node"]}
        nodes.setdefault((record.case.key, record.run in confirmations), []).append(of_record)
    assert len({key for key, _ in nodes}) == 3
    for each in nodes.values():
        assert len(each) == sides
        assert len(set().union(*each)) == 1


def test_both_sides_alternate_on_one_node(tmp_path: Path) -> None:
    cluster, store = MockCluster(machines("a", "b")), tmp_path / "records.db"
    report = check(cluster, store)
    assert (report.exit_code, report.nodes) == (0, ["a"])
    assert "measured on a" in report.notes
    assert_sound(store)
    measured = cluster.machines["a"].measured
    assert cluster.machines["b"].measured == []
    # The rounds of both versions, one index after the other.
    assert [index for _, index in measured] == [index for index in range(6) for _ in range(6)]
    assert "b" in cluster.stopped
    assert cluster.machines["a"].renewed


def test_a_slower_version_is_confirmed_there_and_is_not_profiled(tmp_path: Path) -> None:
    cluster = MockCluster(machines("a", "b", step_s=2e-3))
    report = check(cluster, tmp_path / "records.db")
    assert (report.exit_code, len(report.bad), report.nodes) == (1, 3, ["a"])
    assert "regressed cases were not profiled: that is done on the machine that measures" in report.notes
    assert_sound(tmp_path / "records.db")


def test_a_stored_baseline_is_compared_on_the_node_that_it_comes_from(tmp_path: Path) -> None:
    """Or one that is like it, even where others could measure as well."""
    store = tmp_path / "records.db"
    both = machines("a", "b")
    both["b"].machine = {"cpu": "another"}
    check(MockCluster({"b": both["b"]}), store)
    with Store(str(store)) as opened:
        first, _ = read_store(store)
        set_baseline(opened, "main", [record for record in first if record.run == first[0].run])
    report = check(MockCluster(both), store, version=None, baseline="main")
    assert (report.exit_code, report.nodes) == (0, ["b"])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_whatever_is_lost_both_sides_of_a_case_come_from_one_node(data: st.DataObject) -> None:
    """And the check finds what it would have found on one machine."""

    def lose(names: Sequence[str]) -> tuple[str, bool] | None:
        losable = [name for name in names if name != "z"]
        if not losable or data.draw(st.integers(0, 30)) != 0:
            return None
        return data.draw(st.sampled_from(losable)), data.draw(st.booleans())

    step_s = data.draw(st.sampled_from([1e-3, 2e-3]))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "records.db"
        cluster = MockCluster(machines("a", "b", "z", step_s=step_s), lose=lose)
        report = check(cluster, store)
        assert len(report.bad) == (3 if step_s == 2e-3 else 0)
        assert_sound(store)


def lose_after(
    rounds: int, cluster: Callable[[], MockCluster]
) -> Callable[[Sequence[str]], tuple[str, bool] | None]:
    """The node that measures is gone as soon as it has measured so many rounds."""

    def lose(names: Sequence[str]) -> tuple[str, bool] | None:
        return next(((name, True) for name in names if len(cluster().machines[name].measured) >= rounds), None)

    return lose


def test_without_another_node_it_ends_and_continues_where_it_was(tmp_path: Path) -> None:
    store = tmp_path / "records.db"
    one = machines("a")
    cluster = MockCluster(one, lose=lose_after(7, lambda: cluster))
    with pytest.raises(TareError, match="node a was lost: a planted loss; no node is left: with --resume"):
        check(cluster, store)
    assert len(one["a"].measured) == 7
    report = check(MockCluster(machines("0", "b") | one), store, resume=True)
    # The last round was lost with its node; the others stay, although there are other nodes now.
    assert (report.nodes, len(one["a"].measured)) == (["a"], 37)
    assert_sound(store)


def test_what_another_node_has_begun_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = MockCluster(machines("a", "b"), lose=lose_after(7, lambda: cluster))
    cluster.machines["b"].measured = []
    with pytest.raises(TareError, match="no node is left"):
        check(cluster, tmp_path / "records.db")
    assert "begins anew on b: 6 rounds of a are dropped" in capsys.readouterr().err


def test_a_version_that_cannot_be_run_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot measure the baseline's version on node a: --baseline-python"):
        check(MockCluster(machines("a", "b")), tmp_path / "records.db", Version(python="/no/python"))
