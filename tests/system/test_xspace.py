"""XSpaces: names, times and statistics as written, and bounds on what a file may make of them."""

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xspaces import PlaneWriter, Recorded, field, xspace

from tare.errors import BadInput
from tare.system import xspace as module
from tare.system.protobuf import DamagedMessage
from tare.system.xspace import XSpace, begins_like_xspace, is_operator

NAMES = st.text(max_size=20)
STATS = st.dictionaries(
    NAMES, st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), NAMES), max_size=3
)
EVENTS = st.lists(
    st.builds(Recorded, NAMES, st.integers(-(10**15), 10**15), st.integers(0, 10**15), STATS), max_size=6
)
LINES = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), NAMES, EVENTS, st.integers(0, 2**62)), max_size=3)
PLANES = st.lists(st.tuples(NAMES, STATS, LINES), max_size=3)
QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


@QUICK
@given(PLANES)
def test_what_is_written_is_read(
    tmp_path: Path, written: list[tuple[str, dict[str, object], list[tuple[int, str, list[Recorded], int]]]]
) -> None:
    planes = []
    for name, stats, lines in written:
        planes.append(PlaneWriter(name, stats))
        for number, title, events, start in lines:
            planes[-1].line(number, title, events, start)
    path = tmp_path / "p"
    path.write_bytes(xspace(planes))
    found = XSpace(path).planes
    assert [(plane.name, plane.stats) for plane in found] == [(name, stats) for name, stats, _ in written]
    for plane, (_, _, lines) in zip(found, written, strict=True):
        for line, (number, title, events, start) in zip(plane.lines, lines, strict=True):
            assert (line.id, line.name, line.start) == (number, title, start)
            for event, recorded in zip(line.events, events, strict=True):
                assert (event.name, event.stats) == (recorded.name, recorded.stats)
                assert abs((event.start - start) * 1000 - recorded.start) <= 500
                assert abs((event.end - start) * 1000 - recorded.start - recorded.duration) <= 500


@QUICK
@given(st.one_of(st.binary(max_size=300), st.binary(max_size=60).map(lambda data: field(1, data))))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "p"
    path.write_bytes(data)
    begins_like_xspace(data)
    with suppress(DamagedMessage, BadInput):
        for plane in XSpace(path).planes:
            assert isinstance(plane.stats, dict)
            assert all(event.end for line in plane.lines for event in line.events if event.end)


@QUICK
@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_a_damaged_profile_is_read_or_refused(tmp_path: Path, at: int, junk: bytes) -> None:
    plane = PlaneWriter("/device:GPU:0", {"gpu_device_name": "x"})
    plane.line(7, "Stream #7", [Recorded(f"kernel {i % 3}", i * 10, 5, {"correlation_id": i}) for i in range(9)])
    data = xspace([plane])
    path = tmp_path / "p"
    path.write_bytes(data[:at] + junk + data[at + len(junk) :])
    with suppress(DamagedMessage):
        for plane_read in XSpace(path).planes:
            list(plane_read.stats)
            for line in plane_read.lines:
                list(line.events)


def test_statistics_of_a_kind_of_event_are_those_of_its_events(tmp_path: Path) -> None:
    """A TPU's operations have their own statistics, and those of the operation in the program."""
    shared = field(5, field(1, 3) + field(5, "dot")) + field(5, field(1, 4) + field(3, 8))
    kind = field(4, field(1, 1) + field(2, field(1, 1) + field(2, "fusion.1") + shared))
    names = b"".join(
        field(5, field(1, id) + field(2, field(1, id) + field(2, name)))
        for id, name in ((3, "hlo_category"), (4, "flops"))
    )
    own = field(4, field(1, 4) + field(4, -9))
    events = field(4, field(1, 1) + field(3, 5000) + own) + field(4, field(1, 1))
    path = tmp_path / "p"
    path.write_bytes(field(1, field(2, "/device:TPU:3") + kind + names + field(3, field(2, "XLA Ops") + events)))
    (plane,) = XSpace(path).planes
    (line,) = plane.lines
    assert (plane.device, line.stream) == (3, 0)
    assert list(line.events) == [
        ("fusion.1", 0, 5, {"hlo_category": "dot", "flops": -9}),
        ("fusion.1", 0, 0, {"hlo_category": "dot", "flops": 8}),
    ]


@pytest.mark.parametrize(
    ("name", "device"),
    [("/device:GPU:0", 0), ("/device:TPU:12", 12), ("/device:TPU:0 SparseCore 1", None), ("/host:CPU", None),
     ("/device:CUSTOM:MOSAIC:1", None)],
)  # fmt: skip
def test_which_planes_are_devices(tmp_path: Path, name: str, device: int | None) -> None:
    path = tmp_path / "p"
    path.write_bytes(xspace([PlaneWriter(name)]))
    assert XSpace(path).planes[0].device == device


@pytest.mark.parametrize(
    ("name", "stats", "computes"),
    [
        ("anything", {"hlo_op": "fusion.2"}, True),
        ("gradient_tape/matmul/MatMul:_MklMatMul", {}, True),
        ("ThreadpoolListener::Record", {}, False),
        ("EagerLocalExecute: __inference_step_57", {}, False),
        ("$train.py:12 step", {}, False),
    ],
)
def test_which_events_compute(name: str, stats: dict[str, str], computes: bool) -> None:
    assert is_operator(name, {**stats}) == computes


@pytest.mark.parametrize(
    ("head", "begins"),
    [
        (xspace([PlaneWriter("/host:metadata")]), True),
        (field(1, field(2, "/host:CPU") + field(3, b"x" * 70_000))[:65_536], True),
        (b"", False),
        (b"\n", False),
        (b'\n{"traceEvents": []}', False),
        (b"\n\n\n", False),
        (field(4, "only a host"), False),
        (b"\x0a\x04\x08\x01\x10\x01", False),
    ],
)
def test_how_a_profile_begins(head: bytes, begins: bool) -> None:
    assert begins_like_xspace(head) == begins


def test_a_small_file_cannot_become_millions_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty events take two bytes each, and compress to nothing."""
    monkeypatch.setattr(module, "FEW_MESSAGES", 1000)
    line = field(2, "Stream #1") + b"\x22\x00" * 5000
    path = tmp_path / "p"
    path.write_bytes(gzip.compress(field(1, field(2, "/device:GPU:0") + field(3, line))))
    (plane,) = XSpace(path).planes
    with pytest.raises(BadInput, match="too many events for its size"):
        list(plane.lines[0].events)
    path.write_bytes(field(1, field(2, "/device:GPU:0") + field(3, line)))
    (plane,) = XSpace(path).planes
    assert len(list(plane.lines[0].events)) == 5000
