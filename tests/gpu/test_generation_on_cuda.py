"""Modules and iterations of a loop that generates text, recorded on the GPU."""

from pathlib import Path

import pytest
from generation import LAYERS, record_generation

from tare.trace.intervals import total
from tare.trace.kernel_table import kernel_table
from tare.trace.memory import memory_use
from tare.trace.module_tree import module_tree
from tare.trace.read import read
from tare.trace.serving import serving


@pytest.mark.parametrize("stacks", [False, True])
def test_the_iterations_of_a_loop(tmp_path: Path, stacks: bool) -> None:
    trace = read(record_generation(tmp_path / "trace.json", "cuda", batch=4, prompt=32, tokens=12, stacks=stacks))
    server = serving(trace)
    assert server is not None
    assert [(one.kind, one.sequences, one.tokens) for one in server.iterations] == [
        ("prefill", 4, 128), *[("decode", 4, 4)] * 11,
    ]  # fmt: skip
    busy = sum(one.busy or 0 for one in server.iterations) + server.between.device
    whole = total(trace.device.intervals())
    assert 0.8 * whole <= busy <= whole
    assert sum(kind.total for kind in server.kinds) + server.between.total == server.window


def test_the_modules_of_a_loop(tmp_path: Path) -> None:
    trace = read(record_generation(tmp_path / "trace.json", "cuda", batch=4, prompt=32, tokens=12, stacks=True))
    tree, use = module_tree(trace), memory_use(trace)
    assert tree is not None
    assert use is not None
    (decoder,) = tree.children
    # Of the steps that were found; the prefill may be in none.
    assert 6 <= decoder.calls <= 12
    assert [child.calls for child in decoder.children] == [decoder.calls] * (LAYERS + 2)
    assert tree.total.device == sum(kernel.total for kernel in kernel_table(trace, counted=True))
    assert decoder.total.device > 0.5 * tree.total.device
    assert tree.total.peak_bytes == use.peak_bytes
