"""The lines of the program that its marks in a trace tell (tare.measure.line_marks): within each call of a
function, what ran from one mark to the next becomes a frame of its own, named by its line.

torch.profiler names a frame by the line that defines its function. Everything that asks for the frame around a
moment then finds the line that ran.
"""

import re
from collections.abc import Callable

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.spans import NestedSpans, nested, order, pick
from tare.trace.tables import Trace

# As tare.measure.line_marks writes it.
_MARK = re.compile(r"tare::line (\d{1,8}) (.{1,500})")
_FRAME = re.compile(r"(?P<file>.+)\((?P<defined>\d+)\): (?P<function>.+)")
Columns = dict[str, Integers]


def take_marks(tables: dict[str, Columns], names: list[str]) -> Columns | None:
    """Takes the marks out of the operators and annotations: their moment, thread and name; None for a trace
    without marks."""
    codes = [code for code, name in enumerate(names) if _MARK.fullmatch(name)]
    if not codes:
        return None
    taken: list[Columns] = []
    for table in ("operators", "annotations"):
        marks = np.isin(tables[table]["name"], codes)
        taken.append({name: tables[table][name][marks] for name in ("start", "thread", "name")})
        tables[table] = {name: column[~marks] for name, column in tables[table].items()}
    return {name: np.concatenate([each[name] for each in taken]) for name in taken[0]}


def with_lines(frames: Columns, marks: Columns, names: list[str], is_users: Callable[[str], bool]) -> Columns:
    """The frames with those of the marked lines; new names are appended to `names`. A mark that is not of the
    innermost function of the user's at its moment is left out."""
    spans = NestedSpans(**nested(frames))
    users = np.array([is_users(name) for name in names], dtype=bool)[frames["name"]]
    function = pick(
        spans.inherit(np.where(users, np.arange(len(spans)), -1)), spans.innermost(marks["thread"], marks["start"])
    )
    ended = np.isin(marks["name"], [code for code, name in enumerate(names) if _ends(name)])
    # From the end of the marks on no line is known, in no call that is still open.
    until = int(marks["start"][ended].min(initial=np.iinfo(np.int64).max))
    ranked = np.lexsort((marks["start"], function))
    code_of = {name: code for code, name in enumerate(names)}
    named: dict[tuple[int, int], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    open_row, open_start, open_name = -1, 0, -1

    def close(end: int) -> None:
        if open_row >= 0 and min(end, until) > open_start:
            rows.append((open_start, min(end, until), int(spans.thread[open_row]), open_name))

    columns = (function[ranked].tolist(), marks["start"][ranked].tolist(), marks["name"][ranked].tolist())
    for row, moment, mark in zip(*columns, strict=True):
        if row < 0:
            continue
        key = (int(frames["name"][row]), mark)
        if key not in named:
            text = _line_name(names[key[0]], names[mark])
            if text is not None and text not in code_of:
                code_of[text] = len(names)
                names.append(text)
            named[key] = -1 if text is None else code_of[text]
        if named[key] < 0 or (row == open_row and named[key] == open_name):
            continue
        close(moment if row == open_row else int(spans.clipped_end[open_row]))
        open_row, open_start, open_name = row, moment, named[key]
    if open_row >= 0:
        close(int(spans.clipped_end[open_row]))
    if not rows:
        return frames
    start, end, thread, name = np.array(rows, dtype=np.int64).T
    made = {"start": start, "end": end, "thread": thread, "name": name}
    joined = {column: np.concatenate([values, made[column]]) for column, values in frames.items()}
    placed = order(joined["start"], joined["end"])
    return {column: values.take(placed) for column, values in joined.items()}


def has_marks(trace: Trace) -> bool:
    """Whether the lines of a trace are those that ran. Those of other traces are the lines that define the
    functions."""
    return any(_MARK.fullmatch(name) for name in trace.names)


def function_row(trace: Trace, frame: int) -> int:
    """The frame of the function whose marked line a frame is; any other frame, and -1, itself."""
    above = int(trace.frames.parent[frame]) if frame >= 0 else -1
    if above < 0:
        return frame
    line, function = (_FRAME.fullmatch(trace.name(trace.frames, row)) for row in (frame, above))
    same = line and function and all(line[part] == function[part] for part in ("file", "function"))
    return above if same else frame


def _ends(name: str) -> bool:
    mark = _MARK.fullmatch(name)
    return mark is not None and int(mark[1]) == 0


def _line_name(frame: str, mark: str) -> str | None:
    """The frame's name with the marked line; None where the mark is of another function."""
    of_frame, of_mark = _FRAME.fullmatch(frame), _MARK.fullmatch(mark)
    if not of_frame or not of_mark or of_frame["function"] != of_mark[2]:
        return None
    return f"{of_frame['file']}({int(of_mark[1])}): {of_frame['function']}"
