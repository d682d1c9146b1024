"""Outputs of every nesting: dicts, dataclasses, NamedTuples, HuggingFace's outputs and None, on every rung."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import planted_outputs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planted_outputs import KINDS, TENSORS, Detections, Frozen, Named
from proof import check

from tare.cases.case import Case, Mode, Optimizer
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.rungs import get_rung
from tare.rungs.base import Program
from tare.rungs.torch.outputs import Structure, TensorOutputs, is_plain, tensors_of
from tare.workloads import get_workload

needs_transformers = pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
# transformers takes seconds to import.
ALL_KINDS = [
    pytest.param(kind, marks=(needs_transformers, pytest.mark.full)) if kind == "huggingface" else kind
    for kind in KINDS
]
PARAMETERS = 4


def make(kind: str, rung: str, mode: Mode = "infer") -> Case:
    optimizer: Optimizer | None = "sgd" if mode == "train" else None
    return Case(workload=f"planted_output_{kind}", rung=rung, mode=mode, batch=4, optimizer=optimizer)


def compared(mode: Mode) -> int:
    """Every tensor of three batches; in training their losses, a third loss, and gradients and updates."""
    return 3 * TENSORS if mode == "infer" else 3 + 1 + 2 * PARAMETERS


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("rung", ["eager", "torchscript"])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_same_as_the_reference(kind: str, rung: str, mode: Mode, tmp_path: Path) -> None:
    parity = check(make(kind, rung, mode), tmp_path)
    assert parity.status == "same", parity
    assert (parity.compared, parity.undecided) == (compared(mode), 0)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_compiled_is_the_same(kind: str, mode: Mode, tmp_path: Path) -> None:
    torch.compiler.reset()
    parity = check(make(kind, "compile", mode), tmp_path)
    assert parity.status == "same", parity
    assert (parity.compared, parity.undecided) == (compared(mode), 0)


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_PLUGINS", planted_outputs.__name__)
        patch.setenv("PYTHONPATH", str(Path(planted_outputs.__file__).parent))
        executor = LocalExecutor(make_launcher("fork", ()), tmp_path_factory.mktemp("scratch"))
        yield executor
        executor.close()


NATIVE = [
    *((kind, "vendor", mode) for kind in KINDS for mode in ("infer", "train")),
    *((kind, "libtorch:script", mode) for kind in KINDS for mode in ("infer", "train")),
    *((kind, "aot", "infer") for kind in ("nested", "huggingface")),
    *((kind, "aot:python", "infer") for kind in ("nested", "huggingface")),
]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "rung", "mode"), NATIVE)
def test_executables_are_the_same(executor: LocalExecutor, kind: str, rung: str, mode: Mode) -> None:
    if kind == "huggingface":
        pytest.importorskip("transformers")
    options = Options(rounds=1, budget=0.05, timeout=600)
    round_ = executor.run_round(make(kind, rung, mode), 0, options, check=True)
    assert round_.failure is None, round_.failure
    assert round_.parity is not None
    assert round_.parity.status == "same", round_.parity
    assert (round_.parity.compared, round_.parity.undecided) == (compared(mode), 0)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_lists_the_tensors_in_the_order_of_the_output(kind: str) -> None:
    scores, positive, hidden = torch.zeros(2), torch.ones(3), torch.tensor(4)
    tensors = tensors_of(KINDS[kind][0](scores, positive, hidden))
    assert [id(tensor) for tensor in tensors] == [id(scores), id(positive), id(hidden)]


def test_what_is_no_tensor_is_left_out() -> None:
    assert tensors_of(None) == []
    assert tensors_of([None, 3, "text", Detections, {"a": object()}]) == []


class Returning(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output

    def forward(self, _: Any) -> Any:
        return self.output


def test_plain_outputs_stay_as_they_are() -> None:
    """A rebuilt output costs time in every step, so what a trace can return by itself is not taken apart."""
    x = torch.ones(1)
    for output in (x, (x,), (x, (x, x))):
        assert is_plain(output)
        assert TensorOutputs(Returning(output))(x) is output
    for output in ([x], (x, None), {"a": x}, Named(x, x, x), (x, [x])):
        assert not is_plain(output)
        assert type(TensorOutputs(Returning(output))(x)) is tuple


def test_the_wrapper_is_in_the_mode_of_its_model_and_changes_no_submodule() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout())
    model[0].eval()
    assert TensorOutputs(model).training
    assert [layer.training for layer in model] == [False, True]
    assert not TensorOutputs(model.eval()).training


def outputs() -> st.SearchStrategy[Any]:
    leaves = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.builds(lambda: torch.zeros(1)))

    def nest(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        named = st.builds(Named, children, children, children)
        detections = st.builds(Detections, children, st.dictionaries(st.text(max_size=2), children, max_size=3))
        containers = st.lists(children, max_size=3)
        ordered = st.dictionaries(st.integers(), children, max_size=3).map(OrderedDict)
        return st.one_of(named, detections, st.builds(Frozen, detections), containers, ordered)

    return st.recursive(leaves, nest, max_leaves=12)


@given(outputs())
def test_a_structure_is_filled_with_other_tensors(output: Any) -> None:
    before = tensors_of(output)
    new = tuple(torch.full((2,), float(i)) for i in range(len(before)))
    structure = Structure(output)
    filled = structure.fill(new)
    assert list(map(id, tensors_of(filled))) == list(map(id, new))
    assert without_tensors(filled) == without_tensors(output)
    assert list(map(id, tensors_of(output))) == list(map(id, before)), "the original has changed"
    # It can be filled again, and holds no memory meanwhile.
    assert list(map(id, tensors_of(structure.fill(new)))) == list(map(id, new))


def without_tensors(output: Any) -> str:
    """The repr of an output whose tensors are all the same."""
    return repr(Structure(output).fill((torch.zeros(()),) * len(tensors_of(output))))


@dataclass
class Pair:
    first: Any
    second: Any


def test_other_frameworks_return_dataclasses_as_well() -> None:
    program = Program()
    arrays = program.arrays({"b": Pair([1.0], None), "a": Pair(2.0, Pair(3.0, [4.0]))})
    assert [array.tolist() for array in arrays] == [1.0, 2.0, 3.0, 4.0]
    assert program.checksum(Pair(1.0, Pair(2.0, None))) == 3.0


def test_the_trace_keeps_no_output_alive() -> None:
    """A Structure marks the places of tensors by tensors without memory."""
    case = make("nested", "torchscript", "train")
    program = get_rung("torchscript").prepare(get_workload(case.workload), case)
    filled = program.forward.__closure__  # type: ignore[attr-defined]
    structure = next(cell.cell_contents for cell in filled if isinstance(cell.cell_contents, Structure))
    assert all(tensor.device.type == "meta" for tensor in tensors_of(structure._skeleton))
    program.close()
