"""The table of modules: the tree, folded where modules are alike, in rows that add up."""

import re
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from tare.report.numbers import percent, seconds, short_size
from tare.report.page import PageTree, TreeRow
from tare.report.view import Cell, FittingTable, View
from tare.trace.module_tree import ModuleFigures, ModuleNode

NO_MODULES = "modules: the trace has no modules in it (with_stack=True records them)"
# Modules of one class and structure are shown as one from this number on, if none takes this many times as long as
# their median, or as little.
FEWEST_ALIKE, UNLIKE = 3, 1.5
# Modules below this share of every clock are shown together.
LEAST_SHARE = 0.005
# Rows of a page are nested no deeper: a browser becomes slow.
DEEPEST_ROW = 12
_INSTANCE = re.compile(r"(?P<name>.*)_(?P<number>\d+)")


def modules_view(root: ModuleNode | None, depth: int) -> View:
    """`depth` levels of the tree. The rows under a module add up to it."""
    if root is None:
        return View().add("faint", NO_MODULES)
    on_device = root.total.device > 0
    rows = [_row(root, level, node, on_device) for level, node in _shown(root, on_device, depth)]
    note = "shares of the host are those of the run recorded with stacks"
    view = View().add("faint", f"modules, a step; what is in none is (itself) of all; {note}")
    table = FittingTable(rows, folds={"module": 16}, spare=("stays", "calls", "launches"), cuts={"module": 56})
    return view.put(table)


def module_tree_part(root: ModuleNode, title: str) -> PageTree:
    """The tree for a page, whose rows are opened one by one; modules that are alike are one row."""
    on_device = root.total.device > 0

    def clock(node: ModuleNode) -> int:
        return node.total.device if on_device else node.total.host

    def row(node: ModuleNode, level: int) -> TreeRow:
        cells = _row(root, 1, node, on_device)
        children = sorted(fold_alike(node.children, on_device), key=clock, reverse=True)
        rows = [row(child, level + 1) for child in children if level < DEEPEST_ROW and clock(child)]
        shown = [str(cells[head]) for head in heads if head in cells]
        return TreeRow(node.name or "all", shown, clock(node) / (clock(root) or 1), rows)

    heads = [head for head in _row(root, 1, root, on_device) if head != "module"]
    return PageTree(title, heads, [row(root, 0)])


def _row(root: ModuleNode, level: int, node: ModuleNode, on_device: bool) -> dict[str, Cell]:
    total, whole, steps = node.total, root.total, max(root.calls, 1)
    row: dict[str, Cell] = {
        "module": "  " * level + (node.name or "all"),
        "calls": f"{node.calls / steps:.3g}" if node.calls and level else "-",
    }
    if on_device:
        row |= {
            "device": seconds(total.device / 1e9 / steps) if total.device else "-",
            "of device": percent(total.device / whole.device),
            "launches": f"{total.launches / steps:.4g}" if total.launches else "-",
        }
    row["of host"] = percent(total.host / whole.host) if whole.host else "-"
    if whole.peak_bytes:
        row |= {
            "at peak": short_size(total.peak_bytes) if total.peak_bytes else "-",
            "stays": short_size(total.kept_bytes) if total.kept_bytes else "-",
        }
    return row


def _shown(root: ModuleNode, on_device: bool, depth: int) -> Iterator[tuple[int, ModuleNode]]:
    """The rows with their levels, the longest first; what is left of each module as rows of its own."""

    def clock(node: ModuleNode) -> int:
        return node.total.device if on_device else node.total.host

    def is_large(node: ModuleNode) -> bool:
        pairs = ((getattr(node.total, name), getattr(root.total, name)) for name in _FIELDS)
        return any(part >= LEAST_SHARE * whole for part, whole in pairs if whole)

    def rows(node: ModuleNode, level: int) -> Iterator[tuple[int, ModuleNode]]:
        yield level, node
        if level >= depth or not node.children:
            return
        children = sorted(fold_alike(node.children, on_device), key=clock, reverse=True)
        for child in filter(is_large, children):
            yield from rows(child, level + 1)
        rest = [child for child in children if not is_large(child)]
        if rest:
            total = _sum([child.total for child in rest])
            name = rest[0].name if len(rest) == 1 else f"({len(rest)} smaller ones)"
            yield level + 1, _leaf(name, sum(child.calls for child in rest), total)
        if any(getattr(node.own, name) for name in _FIELDS):
            yield level + 1, _leaf("(itself)", 0, node.own)

    yield from rows(root, 0)


def fold_alike(nodes: Sequence[ModuleNode], on_device: bool = True) -> list[ModuleNode]:
    """The nodes, with those that are alike joined into one: of the same class and structure, and about as long.
    The joined one stands for their sum, and its children for the sums of theirs."""
    groups: dict[object, list[ModuleNode]] = {}
    for node in nodes:
        groups.setdefault(_structure(node), []).append(node)
    folded: list[ModuleNode] = []
    for group in groups.values():
        times = [node.total.device if on_device else node.total.host for node in group]
        usual = median(times)
        alike = [usual / UNLIKE <= time <= usual * UNLIKE for time in times]
        if sum(alike) < FEWEST_ALIKE:
            folded += group
            continue
        folded += [node for node, joins in zip(group, alike, strict=True) if not joins]
        folded.append(_join([node for node, joins in zip(group, alike, strict=True) if joins]))
    return folded


def _structure(node: ModuleNode) -> tuple[object, ...]:
    return _class_of(node), node.calls, tuple(map(_structure, node.children))


def _class_of(node: ModuleNode) -> str:
    match = _INSTANCE.fullmatch(node.name)
    return match["name"] if match else node.name


def _join(nodes: Sequence[ModuleNode]) -> ModuleNode:
    first, last = _INSTANCE.fullmatch(nodes[0].name), _INSTANCE.fullmatch(nodes[-1].name)
    name = f"{nodes[0].name}…{last['number']}" if first and last else nodes[0].name
    return ModuleNode(
        name=f"{name} ({len(nodes)})",
        calls=sum(node.calls for node in nodes),
        own=_sum([node.own for node in nodes]),
        total=_sum([node.total for node in nodes]),
        children=[_join(children) for children in zip(*(node.children for node in nodes), strict=True)],
    )


_FIELDS = ModuleFigures.__struct_fields__


def _sum(figures: Sequence[ModuleFigures]) -> ModuleFigures:
    return ModuleFigures(**{name: sum(getattr(each, name) for each in figures) for name in _FIELDS})


def _leaf(name: str, calls: int, figures: ModuleFigures) -> ModuleNode:
    nothing = msgspec.structs.replace(figures, **dict.fromkeys(_FIELDS, 0))
    return ModuleNode(name=name, calls=calls, own=nothing, total=figures, children=[])
