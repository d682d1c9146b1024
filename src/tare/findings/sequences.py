"""The operators that a program calls, as a text in which patterns find what is written by hand.

A word is the name of an operator without its namespace and without the underscore of its in-place form. Views and
conversions between types are no words: they may stand anywhere. A bar stands wherever the sequence is interrupted.
"""

import re

import numpy as np

from tare.trace.tables import Integers, Trace

SKIPPED = {
    "alias", "as_strided", "bfloat16", "broadcast_to", "chunk", "clone", "contiguous", "detach", "double", "empty",
    "empty_like", "expand", "expand_as", "flatten", "float", "half", "lift_fresh", "movedim", "narrow", "numpy_T",
    "permute", "reshape", "result_type", "select", "size", "slice", "split", "squeeze", "swapaxes", "t", "to",
    "to_copy", "transpose", "type_as", "unbind", "unflatten", "unsafe_split", "unsafe_view", "unsqueeze", "view",
    "view_as",
}  # fmt: skip
CONVERSIONS = {"to", "to_copy", "float", "half", "bfloat16", "type_as"}
BAR = "|"


class Sequences:
    """`rows` are the operators in the order of their starts, `after` the next operator with the same parent."""

    def __init__(self, trace: Trace, rows: Integers, after: Integers) -> None:
        self._words = [_word(name) for name in trace.names]
        table = trace.operators
        rows = rows[np.lexsort((rows, table.parent[rows], table.thread[rows]))]
        self._rows, self._codes = rows, table.name[rows]
        skipped = np.array([word in SKIPPED for word in self._words] or [False])[self._codes]
        begins = np.append(True, after[rows[:-1]] != rows[1:])[: len(rows)]
        # Of the positions in `rows`, those of words; a bar has that of the word behind it.
        self._segment = np.cumsum(begins)
        kept = np.flatnonzero(~skipped)
        parts: list[str] = []
        positions: list[int] = []
        last = -1
        for at, segment in zip(kept.tolist(), self._segment[kept].tolist(), strict=True):
            if segment != last:
                parts.append(BAR)
                positions.append(at)
                last = segment
            parts.append(self._words[self._codes[at]])
            positions.append(at)
        self._text = " ".join(parts)
        lengths = np.array([len(part) + 1 for part in parts], dtype=np.int64)
        self._starts, self._positions = np.cumsum(lengths) - lengths, np.array(positions, dtype=np.int64)

    def find(self, pattern: re.Pattern[str]) -> list[list[int]]:
        """The operators of each match, in order, with the views and conversions among them and a conversion
        directly before them."""
        found = []
        for match in pattern.finditer(self._text):
            first, last = np.searchsorted(self._starts, [match.start(), match.end() - 1], side="right") - 1
            begin, end = int(self._positions[first]), int(self._positions[last])
            while begin and self._segment[begin - 1] == self._segment[begin] and self._converts(begin - 1):
                begin -= 1
            found.append(self._rows[begin : end + 1].tolist())
        return found

    def _converts(self, at: int) -> bool:
        return self._words[self._codes[at]] in CONVERSIONS


def words(pattern: str) -> re.Pattern[str]:
    """A pattern of whole words: `a (?:b |c )d` with single blanks between them."""
    return re.compile(rf"(?<![^ ])(?:{pattern})(?![^ ])")


def _word(name: str) -> str:
    return "_".join(name.removeprefix("aten::").split()).strip("_") or BAR
