"""Metrics: absent where no round has them, exact where they are counted."""

import pytest
from builders import make_case, make_record, make_round

from tare.errors import BadInput
from tare.guard.metrics import METRICS, NAMES, get_metric, get_metrics, require_possible, values
from tare.records.record import DeviceMemory, HostMemory, Telemetry


def test_a_plain_record_has_times_and_nothing_else() -> None:
    record = make_record(steps_s=(1e-3, 2e-3))
    present = {metric.name for metric in METRICS if values(record, metric)}
    assert present == {"gross", "latency", "preparation"}
    assert values(record, get_metric("gross")) == pytest.approx({0: 1e-3, 1: 2e-3})
    assert values(record, get_metric("latency")) == pytest.approx({0: 1.25e-3, 1: 2.5e-3})


def test_memory_energy_and_counts_are_read_where_they_are() -> None:
    done = make_round(
        host_memory=HostMemory(peak=10, prepare_peak=20, start=5, method="test"),
        device_memory=DeviceMemory(allocated_peak=7, reserved_peak=8),
        telemetry=Telemetry(energy_j_per_step=0.5),
        counts={"kernels": 12, "graph_breaks": 0},
        cache="warm",
    )
    record = make_record(rounds=[done])
    expected = {"host_peak": 10, "device_peak": 8, "energy": 0.5, "kernels": 12, "graph_breaks": 0}
    for name, value in expected.items():
        assert values(record, get_metric(name)) == {0: value}
    assert values(record, get_metric("preparation")) == {}
    assert values(record, get_metric("preparation_warm")) == {0: 0.2}
    assert values(record, get_metric("operators")) == {}


def test_failed_rounds_say_nothing() -> None:
    from builders import make_failure

    record = make_record(rounds=[make_round(0), make_round(1, failure=make_failure())])
    assert list(values(record, get_metric("gross"))) == [0]


def test_what_is_counted_is_exact_and_any_increase_counts() -> None:
    exact = {metric.name for metric in METRICS if metric.exact}
    assert exact == {"kernels", "operators", "bytes_copied", "synchronisations", "graph_breaks", "allocations"}
    assert all(get_metric(name).threshold == 0 for name in exact)
    assert all(metric.threshold == 0.07 for metric in METRICS if not metric.exact)


def test_names_are_chosen_and_refused() -> None:
    assert [metric.name for metric in get_metrics(["energy", "gross"])] == ["energy", "gross"]
    assert get_metrics(None) == METRICS
    with pytest.raises(BadInput, match=r"unknown metric 'gros'.*did you mean 'gross'"):
        get_metrics(["gros"])
    assert len(set(NAMES)) == len(NAMES)


def test_what_no_cpu_has_is_refused_where_all_is_on_one() -> None:
    here, there = make_case(device="cpu"), make_case(device="cuda")
    for refused in (["energy"], ["device_peak", "allocations"]):
        with pytest.raises(
            BadInput, match=rf"no case on a CPU has {', '.join(refused)}; there are gross, .*host_peak"
        ):
            require_possible([here], get_metrics(refused))
        require_possible([here, there], get_metrics(refused))
    require_possible([here], get_metrics(["energy", "gross"]))
    require_possible([here], METRICS)
