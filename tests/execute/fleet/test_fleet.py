"""The nodes before they measure: what they are, whether they agree, who is left out, what none can measure."""

import pytest
from builders import make_case, make_failure, make_round
from mock_fleets import FleetJournal, MockCluster, MockMachine, open_fleet

from tare.cases.case import Case
from tare.cases.plan import Skip
from tare.errors import BadInput, TareError
from tare.execute.fleet.calibration import CALIBRATION
from tare.execute.fleet.fleet import Fleet, FleetCatalogue, own_versions
from tare.execute.fleet.ray_cluster import ATTEMPTS, SERVER_FAILED, _connect, _why_ended, check_address
from tare.records.record import Round


@pytest.fixture(autouse=True)
def nothing_to_examine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.execute.fleet.node.examine", lambda _: [])


def surveyed(machines: dict[str, MockMachine], **wanted: str) -> Fleet:
    fleet = Fleet(MockCluster(machines), FleetJournal())
    fleet.survey(wanted, {"rung": ["eager"]})
    return fleet


def test_every_node_says_what_it_is() -> None:
    fleet = surveyed({"a": MockMachine(), "b": MockMachine(machine={"cpu": "another"})})
    assert [node.name for node in fleet.usable] == ["a", "b"]
    assert fleet.nodes["a"].kind != fleet.nodes["b"].kind
    environment = fleet.nodes["a"].environment
    assert environment is not None
    assert environment.circumstances["node"] == "a"


@pytest.mark.parametrize("name", ["tare", "torch"])
def test_a_node_of_another_version_is_named_and_left_out(name: str) -> None:
    fleet = surveyed({"a": MockMachine(), "b": MockMachine(software={name: "0.0.7"})})
    assert [node.name for node in fleet.usable] == ["a"]
    own = own_versions()[name]
    assert fleet.nodes["b"].left_out == f"it has {name} 0.0.7, and here it is {own}"
    assert fleet.cluster.stopped == ["b"]  # type: ignore[attr-defined]


def test_builds_of_one_version_may_differ() -> None:
    torch = own_versions()["torch"].partition("+")[0]
    fleet = surveyed({"a": MockMachine(software={"torch": f"{torch}+cu999"})})
    assert fleet.usable


def test_other_software_may_differ_and_is_named() -> None:
    fleet = surveyed({"a": MockMachine(), "b": MockMachine(), "c": MockMachine(software={"driver": "570"})})
    assert len(fleet.usable) == 3
    assert fleet.nodes["c"].notes == ["driver 570, where most nodes have absent"]


def test_nodes_are_chosen_by_their_facts() -> None:
    machines = {"a": MockMachine(machine={"arch": "aarch64"}), "b": MockMachine(machine={"arch": "x86_64"})}
    fleet = surveyed(machines, arch="aarch64")
    assert [node.name for node in fleet.usable] == ["a"]
    assert fleet.nodes["b"].left_out == "its arch is 'x86_64', not 'aarch64' (--node)"


def test_a_node_that_is_not_wanted_by_its_name_is_not_even_started() -> None:
    fleet = surveyed({"a": MockMachine(), "b": MockMachine()}, name="b")
    assert fleet.cluster.started == ["b"]  # type: ignore[attr-defined]
    assert fleet.nodes["a"].left_out == "its name is 'a', not 'b' (--node)"


def test_a_fleet_without_a_usable_node_is_an_error_that_names_each() -> None:
    with pytest.raises(TareError, match=r"no node of the cluster can measure \(a: its arch is"):
        surveyed({"a": MockMachine()}, arch="aarch64")


def test_a_node_that_drifts_is_named_and_left_out_and_its_records_are_kept() -> None:
    machines = {"a": MockMachine(), "b": MockMachine(step_s=1.4e-3), "c": MockMachine()}
    journals = {name: FleetJournal() for name in machines}
    fleet = surveyed(machines)
    fleet.calibrate(journals.__getitem__)
    assert [node.name for node in fleet.usable] == ["a", "c"]
    assert "mlp on cpu takes 1.40 times as long (limit 1.10)" in fleet.nodes["b"].left_out
    (measured,) = fleet.nodes["b"].calibration
    assert (round(measured.ratio or 0, 6), measured.drifts) == (1.4, True)
    for journal in journals.values():
        (record,) = journal.saved_records.values()
        assert len(record.rounds) == CALIBRATION.rounds
        assert record.tags == {"fleet": "calibration"}


def test_machines_of_different_kinds_are_not_compared() -> None:
    machines = {"a": MockMachine(), "b": MockMachine(machine={"cpu": "slow"}, step_s=9e-3)}
    fleet = surveyed(machines)
    fleet.calibrate(lambda _: FleetJournal())
    assert len(fleet.usable) == 2


def test_a_wider_limit_lets_a_node_in() -> None:
    fleet = surveyed({"a": MockMachine(), "b": MockMachine(step_s=1.4e-3)})
    fleet.calibrate(lambda _: FleetJournal(), limit=0.5)
    assert len(fleet.usable) == 2


def test_a_node_that_cannot_calibrate_is_left_out() -> None:
    def fail(_: Case, index: int) -> Round:
        return make_round(index, series=[], failure=make_failure(message="it burns"))

    fleet = surveyed({"a": MockMachine(), "b": MockMachine(make=fail)})
    fleet.calibrate(lambda _: FleetJournal())
    assert fleet.nodes["b"].left_out == "its calibration failed: it burns"


def test_a_case_goes_to_nodes_with_its_device_and_to_no_other() -> None:
    fleet = surveyed({"a": MockMachine(), "b": MockMachine(devices=["cuda", "cpu"])})
    assert fleet.devices == ["cuda", "cpu"]
    assert FleetCatalogue(fleet.devices).devices("auto") == ["cuda"]
    on_cpu, on_gpu = make_case(sizes={}), make_case(sizes={}, device="cuda")
    measurable, skips = fleet.consider([on_cpu, on_gpu])
    assert measurable == {"a": {on_cpu}, "b": {on_cpu, on_gpu}}
    assert skips == []


def test_a_case_that_no_node_can_run_is_skipped_with_its_reason() -> None:
    fleet = surveyed({"a": MockMachine(), "b": MockMachine()})
    on_gpu, unknown = make_case(device="cuda", sizes={}), make_case(workload="not_there", sizes={})
    measurable, (first, second) = fleet.consider([on_gpu, unknown])
    assert measurable == {"a": set(), "b": set()}
    assert first == Skip(on_gpu.key, "not-installed", "on no node: torch sees no cuda device here")
    assert second.reason == "on no node: there is no workload not_there: install its plug-in there"


def test_a_node_with_too_little_memory_refuses() -> None:
    fleet = surveyed({"a": MockMachine()})
    _, (skip,) = fleet.consider([make_case(sizes={})], memory=2**59)
    assert skip.cause == "unsupported"
    assert "of host memory" in skip.reason


def test_a_model_with_other_code_on_the_node_is_refused() -> None:
    fleet = surveyed({"a": MockMachine()})
    case = make_case(sizes={}, source="0123abcd")
    _, (skip,) = fleet.consider([case])
    assert "mlp has other code there" in skip.reason


def test_a_program_that_cannot_start_there_is_explained() -> None:
    missing = "it ended with code 1: /usr/bin/python3: No module named tare.execute.fleet"
    assert "it has no tare, or an older one" in _why_ended(missing)
    assert _why_ended("its program ended with code 3: ") == "its program ended with code 3"


@pytest.mark.parametrize("text", ["ray://head:10001", "ray://10.0.0.3:10001", "ray://[::1]:10001"])
def test_addresses_of_rays_client(text: str) -> None:
    assert check_address(text) == text


@pytest.mark.parametrize(
    "text", ["", "head:10001", "ray://", "ray://head", "ray://head:port", "http://head:1", "rays"]
)
def test_other_addresses_are_refused_with_the_valid_ones(text: str) -> None:
    with pytest.raises(BadInput, match="want ray://HOST:PORT"):
        check_address(text)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadInput) as refusal:
        check_address("ray://user:geheim@head:10001")
    assert "geheim" not in str(refusal.value)


def test_the_cluster_that_a_machine_is_in() -> None:
    assert check_address("ray") == check_address("ray:auto") == "auto"


def test_a_lost_fleet_is_open_again_for_the_next_run() -> None:
    """Nothing of a fleet is kept between runs: what was left out is looked at again."""
    cluster = MockCluster({"a": MockMachine(), "b": MockMachine()})
    for _ in range(2):
        assert len(open_fleet(cluster, FleetJournal()).usable) == 2


class BusyHead:
    """Ray, whose head cannot start the server of a client the first times."""

    def __init__(self, failures: int, message: str = SERVER_FAILED) -> None:
        self.failures, self.message, self.asked = failures, message, 0

    def init(self, **_: object) -> None:
        self.asked += 1
        if self.asked <= self.failures:
            raise ConnectionError(f"{self.message}: see a log")

    def shutdown(self) -> None:
        pass


@pytest.mark.parametrize(("failures", "asked"), [(0, 1), (2, 3)])
def test_a_busy_head_is_asked_again(failures: int, asked: int) -> None:
    head = BusyHead(failures)
    _connect(head, "ray://head:10001")
    assert head.asked == asked


@pytest.mark.parametrize(("message", "asked"), [(SERVER_FAILED, ATTEMPTS), ("wrong version", 1)])
def test_a_head_that_stays_busy_or_says_something_else_is_an_error(message: str, asked: int) -> None:
    head = BusyHead(9, message)
    with pytest.raises(ConnectionError, match=message):
        _connect(head, "ray://head:10001")
    assert head.asked == asked
