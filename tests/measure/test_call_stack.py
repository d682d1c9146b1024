"""The owner of a frame, the frames that do not count, and the call that is counted."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.measure.call_stack import choose_stack, frame_part, read_stacks
from tare.records.call_depth import FramePart, Stack
from tare.report.frames import short

TORCH = "/site-packages/torch/lib/libtorch_cpu.so"
OWNERS: list[tuple[str, str, FramePart]] = [
    (TORCH, "at::_ops::conv2d::call(at::Tensor const&)", "framework"),
    (TORCH, "dnnl::primitive::execute(dnnl::stream const&) const", "vendor"),
    (TORCH, "void ideep::convolution_forward::compute_dispatch<false, true>(ideep::tensor const&)", "vendor"),
    # A template argument or a parameter with a vendor's name does not make the function the vendor's.
    (TORCH, "std::_Function_handler<void (), dnnl::impl::f>::_M_invoke(std::_Any_data const&)", "framework"),
    (TORCH, "at::native::_mkldnn_convolution(dnnl::memory const&)", "framework"),
    (TORCH, "cudnn_frontend::ExecutionPlan_v8::describe() const", "vendor"),
    (TORCH, "sgemm_", "vendor"),
    (TORCH, "at::native::cpublas::gemm(at::native::TransposeType)", "framework"),
    (TORCH, "", "framework"),
    ("/x/libcudnn.so.9", "", "vendor"),
    ("/x/libarm_compute.so", "arm_compute::NEScheduler::get()", "vendor"),
    ("/x/libopenblas-24fd393f.so.0", "exec_blas", "vendor"),
    ("/usr/lib/libpython3.11.so.1.0", "_PyEval_EvalFrameDefault", "interpreter"),
    ("/usr/bin/python3.11", "", "interpreter"),
    ("/usr/bin/python", "", "interpreter"),
    ("/x/torch/lib/libtorch_python.so", "torch::autograd::THPVariable_conv2d(_object*)", "framework"),
    ("/lib/libc.so.6", "__libc_start_main", "system"),
    ("/x/libgomp.so.1", "GOMP_parallel", "system"),
    ("/cache/torchinductor/abc.so", "", "framework"),
    ("/home/me/tare-libtorch", "tare::TorchProgram::step()", "framework"),
]


@pytest.mark.parametrize(("module", "symbol", "part"), OWNERS)
def test_the_owner_of_a_frame(module: str, symbol: str, part: FramePart) -> None:
    assert frame_part(module, symbol) == part


def write(folder: Path, symbols: list[tuple[str, str]], python: list[str] | None) -> list[Stack]:
    places = [{"module": module, "symbol": symbol} for module, symbol in symbols]
    hit = {"entry": "sgemm_", "kind": "product", "anchored": True, "stack": list(range(len(symbols)))}
    report = {"program": "/x/tare-vendor", "places": places, "hits": [hit], "unwatched": {"dnnl": "stripped"}}
    (folder / "frames.json").write_text(json.dumps(report))
    if python is not None:
        frames = [{"name": name, "file": "/a/b/model.py", "line": 7} for name in python]
        (folder / "python.json").write_text(json.dumps({"0": frames}))
    stacks, unwatched = read_stacks(folder / "frames.json", folder / "python.json")
    assert unwatched == {"dnnl": "stripped"}
    return stacks


def test_python_frames_are_a_separate_stack_and_frames_of_the_worker_do_not_count(tmp_path: Path) -> None:
    interpreter = ("/usr/bin/python3.11", "_PyEval_EvalFrameDefault")
    glue = [("/usr/bin/python3.11", "_PyEval_Vector"), ("/usr/bin/python3.11", "PyObject_CallNoArgs")]
    (stack,) = write(tmp_path, [(TORCH, "at::f()"), interpreter, *glue], ["inner", "step"])
    assert [frame.name for frame in stack.native] == ["sgemm_", "at::f()", "_PyEval_EvalFrameDefault"]
    assert [frame.name for frame in stack.python] == ["inner", "step"]
    assert stack.python[0].where == "model.py:7"
    counts = {part: stack.count(part) for part in ("python", "interpreter", "framework", "vendor")}
    assert counts == {"python": 2, "interpreter": 1, "framework": 1, "vendor": 1}
    assert stack.total == 5


def test_a_native_program_loses_only_the_call_of_its_worker(tmp_path: Path) -> None:
    own = [
        ("tare-vendor", "Plan::step()"),
        ("tare-vendor", "tare::count_frames(tare::Program&)::{lambda(void*)#1}"),
    ]
    (stack,) = write(tmp_path, own, None)
    assert [frame.name for frame in stack.native] == ["sgemm_", "Plan::step()"]
    assert stack.native[1].where == "tare-vendor"
    assert not stack.python


def stack_of(kind: str, anchored: bool = True, entry: str = "f") -> Stack:
    return Stack(entry=entry, kind=kind, anchored=anchored, python=(), native=())  # type: ignore[arg-type]


def test_the_first_convolution_is_counted_or_else_the_first_product_or_else_a_graph() -> None:
    product, graph = stack_of("product", entry="p"), stack_of("graph", entry="g")
    first, second = stack_of("convolution", entry="1"), stack_of("convolution", entry="2")
    assert choose_stack([stack_of("other"), product, first, second]) is first
    assert choose_stack([stack_of("convolution", anchored=False), graph, product]) is product
    assert choose_stack([stack_of("other"), graph]) is graph
    assert choose_stack([stack_of("other")]) is None


@given(st.text(max_size=200), st.integers(16, 60))
def test_any_name_is_shortened_to_the_width(name: str, most: int) -> None:
    assert len(short(name, most)) <= most
    assert frame_part("/x/y.so", name) in ("framework", "vendor")


def test_a_shortened_name() -> None:
    long = (
        "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::Wrap<int (int)>, int (at::T)>::call(int, int)"
    )
    assert short(long, 60) == "c10::impl::wrap_kernel_functor_unboxed_<>::call"
