"""Writes the project: source, headers, data and a README."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.measure.parity import Reference
from tare.rungs.vendor.emission.buffers import Buffers
from tare.rungs.vendor.emission.calls import described
from tare.rungs.vendor.emission.kernels import INCLUDED, KernelFiles
from tare.rungs.vendor.emission.layers import PHASES, LayerFunction, make_layers
from tare.rungs.vendor.emission.names import comment
from tare.rungs.vendor.emission.readme import readme
from tare.rungs.vendor.emission.reference_files import write_data
from tare.rungs.vendor.emission.staged import read_staged

TEMPLATE = Path(__file__).parent / "template"
VENDOR = Path(__file__).parents[1]
OPS, KERNELS = VENDOR / "ops", VENDOR / "cpu"
# Everything that a project may have at its top.
ENTRIES = (
    "CMakeLists.txt", "README.md", "buffers.hpp", "data", "kernels", "layers", "layers.hpp", "main.cpp",
    "memory.hpp", "ops", "step.cpp", "step.hpp",
)  # fmt: skip
# The first line of the README in a folder that was made here.
MARK = "<!-- made by tare emit -->"


@dataclass(frozen=True)
class ProjectFacts:
    """What a project is of: in words, the command that made it, the precision of its case, what its reference is,
    and the number of threads if the user has named one."""

    title: str
    command: str
    precision: str
    reference: str
    threads: int | None = None


def write_project(stage: Path, reference: Reference, about: ProjectFacts, folder: Path) -> list[LayerFunction]:
    """Writes the project of a staged plan into an empty folder, and returns its layers."""
    plan = read_staged(stage)
    buffers, kernels = Buffers(plan), KernelFiles(plan.kernels, plan.ops)
    layers = make_layers(plan.ops, buffers)
    headers = sorted(set().union(*(call.headers for layer in layers for call in layer.calls)))
    write_data(plan, reference, about.precision, folder / "data")
    copied = _copy_headers(headers, folder / "ops", kernels.headers)
    _write(folder / "buffers.hpp", _buffers_file(plan.regions, buffers, about))
    _write(folder / "layers.hpp", _declarations(layers, headers, bool(kernels)))
    for phase in PHASES:
        if own := [layer for layer in layers if layer.phase == phase]:
            _write(folder / "layers" / f"{phase}.cpp", _phase_file(phase, own))
    _write(folder / "step.hpp", STEP_HEADER)
    _write(folder / "step.cpp", _step_file(layers, about, "blas.hpp" in copied, bool(kernels)))
    if kernels:
        for name, text in kernels.files().items():
            _write(folder / "kernels" / name, text)
        shutil.copy(TEMPLATE / "run.hpp", folder / "kernels")
    for name in ("CMakeLists.txt", "main.cpp", "memory.hpp"):
        shutil.copy(TEMPLATE / name, folder)
    _write(
        folder / "README.md",
        f"{MARK}\n{readme(plan, layers, kernels, about.title, about.command, about.reference)}",
    )
    return layers


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copy_headers(names: Iterable[str], folder: Path, of_kernels: Iterable[str]) -> set[str]:
    """Copies headers of `ops/`, the headers that those include, and those of the generated kernels."""
    folder.mkdir()
    pending, copied = [f"{name}.hpp" for name in names] + ["scratch.hpp"], set[str]()
    while pending:
        name = pending.pop()
        if name not in copied:
            copied.add(name)
            shutil.copy(OPS / name, folder)
            pending += INCLUDED.findall((OPS / name).read_text())
    for name in of_kernels:
        shutil.copy(KERNELS / name, folder)
    return copied


def _buffers_file(regions: dict[str, int], buffers: Buffers, about: ProjectFacts) -> str:
    entries = [f'    {{"{name}", {bytes_}}},' for name, bytes_ in regions.items()]
    return "\n".join([
        "// Where every tensor of the step lies: a region of memory, and an offset in bytes. Calls take them as",
        "// pointers.",
        "#pragma once",
        "",
        '#include "memory.hpp"',
        "",
        f"enum class Region : int {{ {', '.join(regions)} }};",
        "",
        "struct RegionSize {",
        "  const char* name;",
        "  int64_t bytes;",
        "};",
        "",
        "constexpr RegionSize regions[] = {",
        *entries,
        "};",
        f"constexpr int region_count = {len(regions)};",
        "",
        "// The number of threads that the project was emitted with; 0 for that of the machine.",
        f"constexpr int static_threads = {about.threads or 0};",
        "",
        "namespace at {",
        buffers.table(),
        "",
        "}  // namespace at",
        "",
    ])  # fmt: skip


def _declarations(layers: Sequence[LayerFunction], headers: Sequence[str], with_kernels: bool) -> str:
    lines = [
        "// The layers of the network, each a function; and what some of them keep for their backward pass.",
        "#pragma once",
        "",
        '#include "buffers.hpp"',
        *(['#include "kernels/run.hpp"'] if with_kernels else []),
        *(f'#include "ops/{name}.hpp"' for name in headers),
        "",
        "namespace ops = tare::ops;",
    ]
    if shared := [line for layer in layers for call in layer.calls for line in call.globals]:
        lines += ["", "namespace saved {", "", *shared, "", "}  // namespace saved"]
    for phase in PHASES:
        if own := [layer for layer in layers if layer.phase == phase]:
            lines += ["", f"namespace {phase} {{", "", *(f"void {layer.name}();" for layer in own)]
            lines += ["", f"}}  // namespace {phase}"]
    return "\n".join([*lines, ""])


def _phase_file(phase: str, layers: Sequence[LayerFunction]) -> str:
    functions = "\n\n".join(layer.source() for layer in layers)
    return f'#include "../layers.hpp"\n\nnamespace {phase} {{\n\n{functions}\n\n}}  // namespace {phase}\n'


STEP_HEADER = """// One step of the network.
#pragma once

// Prepares what all steps use. Once, before the first step.
void start(int threads);
// Reads the batch and the weights where buffers.hpp has them, and leaves its results there.
void step();
"""


def _step_file(layers: Sequence[LayerFunction], about: ProjectFacts, with_blas: bool, with_kernels: bool) -> str:
    lines = [
        f"// {comment(about.title)}",
        '#include "step.hpp"',
        "",
        '#include "layers.hpp"',
        "",
        "void start([[maybe_unused]] int threads) {",
        *(["  ops::set_blas_threads(threads);"] if with_blas else []),
        *(["  team = std::make_unique<ops::Team>(threads);"] if with_kernels else []),
        "}",
        "",
        "void step() {",
    ]
    widest = max(len(layer.phase) + len(layer.name) for layer in layers) + 5
    for layer in layers:
        call = f"{layer.phase}::{layer.name}();".ljust(widest)
        lines.append(f"  {call}  // {comment('; '.join(described(op) for op in layer.ops))}")
    return "\n".join([*lines, "}", ""])
