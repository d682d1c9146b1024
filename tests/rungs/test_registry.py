"""Rungs and workloads are found by name, refused by name, and added by a plug-in."""

import subprocess
import sys
from pathlib import Path

import pytest
from plugin import install, run_beside

from tare.errors import BadInput
from tare.rungs import all_rungs, get_rung, ladder
from tare.rungs.registry import every_name, excluded_by_default

PLUGIN = """
from tare.workloads import Batch, workload
from tare.rungs import Rung, rung
from tare.rungs.torch.eager import Eager

@workload("tiny_linear", domain="other", task="test", source="a plug-in", batch=2, sizes={"width": 8})
class TinyLinear:
    def build(self, width):
        import torch
        return torch.nn.Linear(width, width)

    def inputs(self, batch, width):
        import torch
        return Batch((torch.randn(batch, width),))

@rung
class Again(Eager):
    name = "again"
    summary = "eager under another name"
"""


def test_the_ladder_holds_every_quick_rung_in_order() -> None:
    assert ladder()[:5] == ["eager", "torchscript", "compile", "compile:reduce-overhead", "cudagraph"]


def test_the_order_is_the_same_whichever_module_was_imported_first() -> None:
    """In a process of its own: here they are all imported."""
    program = (
        "import tare.rungs.vendor.rung, tare.rungs.torch.cudagraph; "
        "from tare.rungs import all_rungs; print(*all_rungs())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    torchs = ["eager", "torchscript", "compile", "cudagraph", "aot", "libtorch", "vendor"]
    assert done.stdout.split() == [*torchs, "jax", "tensorflow", "onnxruntime", "openvino"]


def test_a_slow_rung_is_not_in_the_ladder_and_says_so() -> None:
    assert "compile:max-autotune" in every_name()
    assert "compile:max-autotune" not in ladder()
    assert "minutes" in str(excluded_by_default("compile:max-autotune"))


@pytest.mark.parametrize(
    ("name", "valid"), [("eagr", "'eager'"), ("compile:fast", "reduce-overhead"), ("eager:x", "none")]
)
def test_an_unknown_rung_names_the_valid_ones(name: str, valid: str) -> None:
    with pytest.raises(BadInput, match="unknown") as caught:
        get_rung(name)
    assert valid in str(caught.value)


def test_every_rung_says_what_it_is() -> None:
    for rung in all_rungs().values():
        assert rung.summary


def test_a_plugin_adds_a_workload_and_a_rung_through_its_entry_points(tmp_path: Path) -> None:
    """As an installed package would: a module and its metadata on the path."""
    install(tmp_path, "tare_tiny", PLUGIN, "tare.workloads", "tare.rungs")
    code = (
        "from tare.workloads import all_workloads; from tare.rungs import all_rungs, get_rung\n"
        "from tare.cases import Case\n"
        "workload = all_workloads()['tiny_linear']\n"
        "case = Case(workload='tiny_linear', rung='again', batch=2, sizes={'width': 8})\n"
        "program = get_rung('again').prepare(workload, case)\n"
        "print(tuple(program.step().shape))\n"
    )
    assert run_beside(tmp_path, code) == "(2, 8)\n"


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tare.system.plugins import load_plugins

    monkeypatch.setenv("TARE_PLUGINS", "no_such_module")
    load_plugins.cache_clear()
    with pytest.raises(BadInput, match=r"no_such_module.*TARE_PLUGINS"):
        load_plugins("tare.rungs", ())
    load_plugins.cache_clear()
