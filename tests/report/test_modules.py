"""The table of modules: what is folded, and rows that add up."""

import re
from collections.abc import Sequence

import msgspec
from rich.console import Console

from tare.report.modules import NO_MODULES, fold_alike, modules_view
from tare.trace.module_tree import ModuleFigures, ModuleNode

NOTHING = ModuleFigures(host=0, device=0, launches=0, peak_bytes=0, kept_bytes=0)


def node(name: str, device: int = 0, children: Sequence[ModuleNode] = (), calls: int = 1) -> ModuleNode:
    own = msgspec.structs.replace(NOTHING, device=device, host=device)
    total = device + sum(child.total.device for child in children)
    return ModuleNode(
        name=name,
        calls=calls,
        own=own,
        total=msgspec.structs.replace(NOTHING, device=total, host=total),
        children=list(children),
    )


def block(number: int, attention: int = 300_000, linear: int = 700_000) -> ModuleNode:
    return node(
        f"Block_{number}", 0, [node(f"Attention_{number}", attention), node(f"Linear_{2 * number + 1}", linear)]
    )


def shown(root: ModuleNode, depth: int) -> list[str]:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(modules_view(root, depth))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_blocks_that_are_alike_are_one_row() -> None:
    blocks = [block(number) for number in range(12)]
    (folded,) = fold_alike(blocks)
    assert folded.name == "Block_0…11 (12)"
    assert folded.total.device == 12_000_000
    assert [(child.name, child.total.device) for child in folded.children] == [
        ("Attention_0…11 (12)", 3_600_000),
        ("Linear_1…23 (12)", 8_400_000),
    ]


def test_a_block_that_takes_longer_stays_apart() -> None:
    folded = fold_alike([block(0), block(1), block(2, attention=1_000_000), block(3), block(4)])
    assert [each.name for each in folded] == ["Block_2", "Block_0…4 (4)"]


def test_blocks_of_another_structure_or_few_stay_apart() -> None:
    odd = node("Block_2", 0, [node("Linear_9", 1_000_000)])
    assert [each.name for each in fold_alike([block(0), block(1), odd])] == ["Block_0", "Block_1", "Block_2"]


def test_the_rows_of_a_module_add_up_to_it() -> None:
    small = [node(f"Tiny{number}_0", 1000) for number in range(3)]
    root = node("", 2_000_000, [node("Model_0", 990_000, [*map(block, range(7)), *small])], calls=1)
    lines = shown(root, 2)
    rows = [re.fullmatch(r"( *\S.*?)  +[-\d]+ +([\d.]+ .?s)  +.*", line) for line in lines[2:]]
    assert [row.groups() for row in rows if row] == [
        ("all", "10.0 ms"),
        ("  Model_0", "8.0 ms"),
        ("    Block_0…6 (7)", "7.0 ms"),
        ("    (3 smaller ones)", "3.0 µs"),
        ("    (itself)", "990 µs"),
        ("  (itself)", "2.0 ms"),
    ]
    assert max(map(len, lines)) <= 100


def test_a_trace_without_modules_says_how_to_record_them() -> None:
    assert shown(None, 2) == [NO_MODULES]  # type: ignore[arg-type]
