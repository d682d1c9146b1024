"""The tables of tare frames: they fit, they say what was not seen, and show no figure that is only noise."""

from tare.cases.case import Case
from tare.records.call_depth import CallCost, CallDepth, Frame, Stack, compare_costs
from tare.records.record import Failure
from tare.report.frames import cost_view, depth_view, stack_view
from tare.report.terminal import make_console
from tare.stats.intervals import Interval

PYTHON = (Frame("Conv2d.forward", "conv.py:553", "python"),) * 9
NATIVE = (
    Frame("cudnnBackendExecute", "", "vendor"),
    Frame("void at::native::f<int (int)>(at::Tensor const&)", "libtorch_cuda.so", "framework"),
    Frame("_PyEval_EvalFrameDefault", "libpython3.11.so.1.0", "interpreter"),
)


def depth(rung: str, **fields: object) -> CallDepth:
    case = Case(workload="resnet50", rung=rung, batch=1, sizes={"resolution": 224})
    return CallDepth(case=case, **fields)  # type: ignore[arg-type]


def full(rung: str) -> CallDepth:
    stack = Stack(entry="cudnnBackendExecute", kind="convolution", anchored=True, python=PYTHON, native=NATIVE)
    return depth(rung, stack=stack, calls=53, least=12, most=57)


def text(view: object) -> str:
    console = make_console()
    with console.capture() as capture:
        console.print(view)
    return capture.get()


def test_the_ladder_of_depths_fits_and_names_what_is_missing() -> None:
    failed = depth("compile:reduce-overhead", failure=Failure(cause="timeout", message="stopped after 9 s"))
    shown = text(
        depth_view([full("eager"), full("libtorch:script"), depth("aot", unwatched={"sgemm_": "why"}), failed])
    )
    assert max(map(len, shown.splitlines())) <= 100
    row = next(line for line in shown.splitlines() if line.startswith("eager")).split()
    assert row == ["eager", "9", "1", "1", "1", "12", "12-57", "30+61", "cudnnBackendExecute"]
    assert "aot: no vendor library was seen" in shown
    assert "compile:reduce-overhead: timeout, stopped after 9 s" in shown
    assert "not watched: sgemm_: why" in shown


def test_a_stack_goes_from_the_users_call_down() -> None:
    lines = text(stack_view(full("eager"))).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["python"] * 9 + ["interpreter", "framework", "vendor"]
    assert "at::native::f<>" in lines[-2]


def test_what_is_noise_is_called_noise() -> None:
    prices = [
        CallCost(rung="eager", depth=full("eager"), call=Interval(11e-6, 12e-6, 13e-6), parity="same"),
        CallCost(rung="libtorch", depth=full("libtorch"), call=Interval(1.5e-6, 2e-6, 2.5e-6), parity="same"),
        CallCost(rung="aot", depth=full("aot"), call=Interval(-1e-6, 2e-6, 5e-6, False), parity="same"),
    ]
    shown = text(cost_view(compare_costs(prices, Interval(1e-9, 1e-9, 1e-9), Interval(5e-8, 5e-8, 5e-8))))
    rows = {line.split()[0]: line for line in shown.splitlines() if line}
    assert "12.0 ±1.0 µs" in rows["eager"]
    assert "10 ±1 µs" in rows["eager"]
    assert "453 ns" in rows["eager"]
    assert "5%" in rows["eager"]
    assert "noise" in rows["aot"]
    assert "more than on libtorch" in shown
    assert max(map(len, shown.splitlines())) <= 100
