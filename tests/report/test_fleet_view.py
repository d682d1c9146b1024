"""The table of a fleet's nodes, and progress over all of them."""

import msgspec
from builders import ENVIRONMENT, make_case, make_round
from mock_runs import MemoryJournal
from rich.console import Console

from tare.execute.fleet.calibration import Calibration
from tare.execute.fleet.fleet import FleetNode
from tare.measure.health import Check
from tare.report.fleet import FleetProgress, fleet_view
from tare.report.terminal import WIDTH, plain_text


def make_node(name: str, **fields: object) -> FleetNode:
    machine = {"arch": "x86_64", "cpu": "Intel(R) Xeon(R) Platinum 8480C Processor", "gpu": "NVIDIA H200"}
    environment = msgspec.structs.replace(ENVIRONMENT, machine=machine)
    node = FleetNode(name=name, host="h", cores=16, gpus=1, environment=environment)
    return msgspec.structs.replace(node, **fields)


def calibrated(ratio: float) -> list[Calibration]:
    return [
        Calibration(
            device=device, rounds_s=[1e-3 * ratio] * 5, median_s=1e-3 * ratio, ratio=ratio, drifts=ratio > 1.1
        )
        for device in ("cpu", "cuda")
    ]


def test_who_measures_and_who_is_left_out_and_why() -> None:
    checks = [Check("CPU load", "warn", "load 9", "stop them"), Check("swap", "good", "not in use")]
    nodes = [
        make_node("node-1", calibration=calibrated(1.0)),
        make_node("node-2", calibration=calibrated(1.42), left_out="it is not like its peers", checks=checks),
        make_node("node-3", notes=["driver 570, where most nodes have 580"]),
    ]
    text = plain_text(fleet_view(nodes))
    lines = text.splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    assert [line.split()[:2] for line in lines if line.startswith("node-")] == [
        ["node-1", "good"], ["node-2", "left"], ["node-3", "good"]
    ]  # fmt: skip
    assert "1.42" in text
    assert "  node-2 is left out: it is not like its peers" in lines
    assert "  node-2: CPU load: load 9" in lines
    assert "  note: node-3: driver 570, where most nodes have 580" in lines
    assert "swap" not in text


def test_without_a_calibration_there_are_no_columns_of_it() -> None:
    assert "peers" not in plain_text(fleet_view([make_node("node-1")]))


def test_progress_shows_what_each_node_measures_and_all_rounds() -> None:
    first, second = make_case(), make_case(batch=64)
    journal = MemoryJournal()
    progress = FleetProgress(shown=False)
    progress.planned({first: 2, second: 2}, [journal])
    progress.node_changed("node-2", "mlp eager infer b64 1/2")
    progress.node_changed("node-1", "mlp eager infer b32 1/2")
    # A stage of a worker is no news.
    progress.node_changed("node-1", "sample")
    progress.round_finished(first, make_round())
    progress.round_finished(second, make_round())
    progress.rounds_dropped(first, 1)
    console = Console(width=WIDTH)
    with console.capture() as captured:
        console.print(progress.view())
    lines = captured.get().splitlines()
    assert [line.split() for line in lines if line.startswith("node-")] == [
        ["node-1", "mlp", "eager", "infer", "b32", "1/2"],
        ["node-2", "mlp", "eager", "infer", "b64", "1/2"],
    ]
    assert "1/4" in lines[-1]
    progress.node_changed("node-1", "")
    with console.capture() as captured:
        console.print(progress.view())
    assert ["node-1", "-"] in [line.split() for line in captured.get().splitlines()]
