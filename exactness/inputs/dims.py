"""Dimensions of a tensor: a number, the name of a size, or sums and products of both."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

Dim: TypeAlias = int | str
"""64, "n", "2*n", "heads*(rope+rest)", "2**log_dim": non-negative integers, names of sizes, `+`,
`*` and powers of an integer."""


def names(dim: Dim) -> frozenset[str]:
    """The sizes that a dimension depends on.

    Raises:
        ValueError: not a dimension.
    """
    nodes = ast.walk(_parsed(dim)) if isinstance(dim, str) else ()
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


def value(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The extent of a dimension for given sizes.

    Raises:
        KeyError: a size is not given.
    """
    return dim if isinstance(dim, int) else _value(_parsed(dim), sizes)


_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}


@functools.lru_cache(maxsize=256)
def _parsed(dim: str) -> ast.expr:
    refused = ValueError(
        f"dimension {dim!r}: integers from 0 up, names of sizes, + and *, powers of an integer "
        "are accepted"
    )
    try:
        tree = ast.parse(dim, mode="eval").body
    except (SyntaxError, ValueError):
        raise refused from None
    if not _is_accepted(tree):
        raise refused
    return tree


def _is_accepted(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        power = isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Constant)
        accepted = power or isinstance(node.op, ast.Add | ast.Mult)
        return accepted and _is_accepted(node.left) and _is_accepted(node.right)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and _is_count(node.value))


def _is_count(constant: object) -> bool:
    return isinstance(constant, int) and not isinstance(constant, bool) and constant >= 0


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, sizes), _value(node.right, sizes)
        return _OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Name):
        return sizes[node.id]
    return int(ast.literal_eval(node))
