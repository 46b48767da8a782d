"""Sites: operations of a reference, named by the path of source positions to them.

A position is where a function of the reference stands at the moment of an operation. Python 3.11
knows it to the column, so two operations of one line are two sites, while a loop does not move a
site: a mutant at a site hits every occurrence. Frames of the engine itself are left out, and a
comprehension belongs to its function, as it does from Python 3.12 on.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import TypeAlias

_ENGINE = __name__.partition(".")[0]

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Functions of their own up to Python 3.11."""

_Assignment: TypeAlias = ast.Assign | ast.AnnAssign | ast.AugAssign
_Span: TypeAlias = tuple[int, int, int, int]
"""First line and column, last line and column."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a reference: function, source position and the variable being assigned.

    The end tells `a + b` from `(a + b) + c`, which begin at the same column.
    """

    function: str
    line: int
    column: int
    end_line: int
    end_column: int
    target: str | None


@dataclass(frozen=True, slots=True)
class Site:
    """An operation and the path of positions to it, outermost first."""

    operation: str
    path: tuple[Position, ...]

    @property
    def label(self) -> str:
        """`function:operation(variables)`: `affine:add(mean)` is the addition in the `affine`
        whose result becomes `mean`.
        """  # noqa: D205 - the formula is the summary
        if not self.path:
            return self.operation
        *outer, leaf = self.path
        targets = [position.target or "return" for position in outer]
        via = f"({' > '.join(targets)})" if targets else ""
        name = f"{leaf.target}=" if leaf.target else ""
        return f"{leaf.function}:{name}{self.operation}{via}"


def current(operation: str) -> Site:
    """The site of the operation that is being performed now."""
    return Site(operation, tuple(_positions())[::-1])


def assigned_name() -> str | None:
    """The variable that gets what the innermost reference frame is calling now, or None.

    A call within a larger expression is not assigned: of `mean = affine(fast_sum(x), c)` only
    `affine` has a name.
    """
    for frame in _program_frames():
        span = _span(frame.f_code, frame.f_lasti)
        for node in _assignments(frame.f_code.co_filename):
            if node.value is not None and _span_of(node.value) == span:
                return _target_name(node)
        return None
    return None


def _positions() -> Iterator[Position]:
    """The path of positions, innermost first."""
    inner: Position | None = None
    for frame in _program_frames():
        position = _position(frame.f_code, frame.f_lasti)
        if inner is not None:
            position = replace(inner, function=position.function)
        if frame.f_code.co_name in _COMPREHENSIONS:
            inner = position
        else:
            inner = None
            yield position


def _program_frames() -> Iterator[FrameType]:
    """Frames of the reference, innermost first, up to the engine that runs it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_engine(frame):
        frame = frame.f_back
    while frame is not None and (not _is_engine(frame) or _is_launch(frame)):
        if not _is_engine(frame):
            yield frame
        frame = frame.f_back


def _is_engine(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _ENGINE


def _is_launch(frame: FrameType) -> bool:
    """The wrapper of `@launch` stands between two frames of the reference."""
    return frame.f_code.co_name == "launched"


@functools.lru_cache(maxsize=4096)
def _position(code: CodeType, last_instruction: int) -> Position:
    span = _span(code, last_instruction)
    return Position(code.co_name, *span, _target(code, span))


def _span(code: CodeType, last_instruction: int) -> _Span:
    line, end_line, column, end_column = list(code.co_positions())[last_instruction // 2]
    return (line or 0, column or 0, end_line or 0, end_column or 0)


def _span_of(node: _Assignment | ast.expr) -> _Span:
    return (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


def _target(code: CodeType, span: _Span) -> str | None:
    """The single variable of the assignment that holds the span."""
    for node in _assignments(code.co_filename):
        outer = _span_of(node)
        if outer[:2] <= span[:2] and span[2:] <= outer[2:]:
            return _target_name(node)
    return None


def _target_name(node: _Assignment) -> str | None:
    """The variable, or variables, of an assignment; None for a chain `a = b = …`."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return ast.unparse(targets[0]).strip("()") if len(targets) == 1 else None


@functools.lru_cache(maxsize=64)
def _assignments(filename: str) -> tuple[_Assignment, ...]:
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, _Assignment))


def source_file(function: object) -> str:
    """The file a reference stands in."""
    return inspect.getsourcefile(inspect.unwrap(function)) or "?"  # type: ignore[arg-type]
