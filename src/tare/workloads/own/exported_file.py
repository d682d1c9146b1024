"""Reads a file of torch.export without executing what somebody may have put into it.

torch.export.load falls back to pickle for example inputs, weights and constants, and evaluates the formulas of
dynamic sizes as Python. Both run any code that a file contains.
"""

import ast
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

# torch's own switch: no call of torch.load unpickles more than tensors and plain containers.
WEIGHTS_ONLY = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}
# What a formula of sizes consists of, besides names, numbers and calls of sympy's functions.
FORMULA = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Tuple, ast.Load,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.keyword,
)  # fmt: skip


def load_exported(path: str) -> Any:
    """The program of torch.export in a file. Whatever torch raises for a damaged one, and ValueError for one with
    code in a formula."""
    import torch

    with patch.dict(os.environ, WEIGHTS_ONLY), _checked_formulas():
        return torch.export.load(path)


@contextmanager
def _checked_formulas() -> Iterator[None]:
    import sympy

    sympify = sympy.sympify

    def checked(formula: Any, **options: Any) -> Any:
        if isinstance(formula, str) and not is_formula(formula, options.get("locals") or {}):
            raise ValueError(f"the size {formula[:40]!r} is no formula")
        return sympify(formula, **options)

    with patch.object(sympy, "sympify", checked):
        yield


def is_formula(text: str, functions: Any = ()) -> bool:
    """Whether a text is arithmetic over names, numbers, these functions and those of sympy."""
    import sympy

    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    for node in nodes:
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            known = name in functions or _is_sympy_function(getattr(sympy, name, None))
            if not known or not all(isinstance(option.value, ast.Constant) for option in node.keywords):
                return False
        elif isinstance(node, ast.Name):
            if node.id.startswith("__"):
                return False
        elif isinstance(node, ast.Constant):
            # The name of a symbol: Symbol('s77', positive=True).
            is_name = isinstance(node.value, str) and node.value.isidentifier()
            if not is_name and not isinstance(node.value, (int, float)):
                return False
        elif not isinstance(node, FORMULA):
            return False
    return True


def _is_sympy_function(value: Any) -> bool:
    import sympy

    return isinstance(value, type) and issubclass(value, sympy.Basic)
