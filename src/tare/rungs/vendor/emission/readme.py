"""The README of an emitted project."""

import re
from collections.abc import Sequence

from tare.rungs.vendor.emission.buffers import REGIONS
from tare.rungs.vendor.emission.kernels import KernelFiles
from tare.rungs.vendor.emission.layers import LayerFunction
from tare.rungs.vendor.emission.staged import StagedPlan


def readme(
    plan: StagedPlan,
    layers: Sequence[LayerFunction],
    kernels: KernelFiles,
    title: str,
    command: str,
    reference: str,
) -> str:
    calls = sum(len(layer.ops) for layer in layers)
    generated = sum(op.kind == "fused" for op in plan.ops)
    flops = sum(layer.flops or 0 for layer in layers)
    lines = [
        f"# {_plain(title)}",
        "",
        f"One step as C++: {calls} calls in {len(layers)} functions, {len(kernels)} generated kernels "
        f"({generated} of the calls), {flops:,} FLOPs in products and convolutions.",
        "It needs a C++17 compiler, CMake and a BLAS (Debian: `apt-get install g++ cmake libopenblas-dev`), and",
        "nothing of tare, Python or a framework.",
        "",
        "```",
        "cmake -S . -B build && cmake --build build --parallel",
        "build/step            # checks the step against the reference, then times it",
        "build/step --check    # exit code 1, and which tensor differs by how much",
        "```",
        "",
        "Made by:",
        "",
        "```",
        _line(command),
        "```",
        "",
        f"The reference in `data/` is {_plain(reference)}.",
        "",
        "## Where to look",
        "",
        "| file | what it is |",
        "| --- | --- |",
        "| `step.cpp` | the step from top to bottom: one line for each layer |",
        "| `layers/` | what each layer calls, with its buffers |",
        "| `buffers.hpp` | where every tensor lies: region, offset, shape, type |",
        *(["| `kernels/` | the generated kernels, each with its operators |"] if kernels else []),
        "| `ops/` | the functions that the layers call: loops, and products by BLAS |",
        "| `main.cpp` | loads, checks, times |",
        "| `data/` | weights, batches, what the first steps must leave behind; `index.txt` says what is where |",
        "",
        "To change something, edit it, build, and run `build/step`: its check says if the result is the same.",
        "",
        "## Memory",
        "",
        "| region | bytes | what it holds |",
        "| --- | ---: | --- |",
        *(f"| {name} | {bytes_:,} | {REGIONS.get(name, name)} |" for name, bytes_ in plan.regions.items()),
        "",
        "## Layers",
        "",
        "In the order of the step. FLOPs are those of products and convolutions, two for each multiplication with",
        "its sum; bytes are what the calls read and write; memory is what the results take in the arena.",
        "",
        "| function | module | calls | FLOPs | bytes | memory |",
        "| --- | --- | --- | ---: | ---: | ---: |",
        *map(_row, layers),
        "",
    ]
    return "\n".join(lines)


def _row(layer: LayerFunction) -> str:
    kinds: dict[str, int] = {}
    for op in layer.ops:
        kind = "kernel" if op.kind == "fused" else op.kind
        kinds[kind] = kinds.get(kind, 0) + 1
    calls = ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items())
    flops = f"{layer.flops:,}" if layer.flops else ""
    name = f"`{layer.phase}::{layer.name}`"
    return f"| {name} | {_plain(layer.title)} | {calls} | {flops} | {layer.traffic:,} | {layer.memory:,} |"


def _line(text: str) -> str:
    """A text from outside for a line of a block of code."""
    return "".join(letter if letter.isprintable() and letter != "`" else "?" for letter in text)[:2000]


def _plain(text: str) -> str:
    """A text from outside that is no Markdown."""
    return re.sub(r"[^\x20-\x7e]|[`|<>\[\]]", "?", text)[:500]
