"""Sites: operations of a reference, named by the path of source positions to them.

A position is where a function of the reference stands at the moment of an operation. Python 3.11
knows it to the column, so two operations of one line are two sites, while a loop does not move a
site: a mutant at a site hits every occurrence. Frames of the engine itself are left out.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType

_ENGINE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a reference: function, source position and the variable being assigned."""

    function: str
    line: int
    column: int
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
    path = tuple(_position(frame.f_code, frame.f_lasti) for frame in _program_frames())
    return Site(operation, path[::-1])


def assigned_name() -> str | None:
    """The variable that the innermost reference frame is assigning now, or None."""
    for frame in _program_frames():
        return _position(frame.f_code, frame.f_lasti).target
    return None


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
    positions = list(code.co_positions())
    line, end_line, column, end_column = positions[last_instruction // 2]
    span = (line or 0, column or 0, end_line or 0, end_column or 0)
    return Position(code.co_name, span[0], span[1], _target(code, span))


def _target(code: CodeType, span: tuple[int, int, int, int]) -> str | None:
    """The single variable of the assignment that holds the span."""
    for node in _assignments(code.co_filename):
        start = (node.lineno, node.col_offset)
        end = (node.end_lineno or 0, node.end_col_offset or 0)
        if start <= span[:2] and span[2:] <= end and len(node.targets) == 1:
            return ast.unparse(node.targets[0]).strip("()")
    return None


@functools.lru_cache(maxsize=64)
def _assignments(filename: str) -> tuple[ast.Assign, ...]:
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Assign))


def source_file(function: object) -> str:
    """The file a reference stands in."""
    return inspect.getsourcefile(inspect.unwrap(function)) or "?"  # type: ignore[arg-type]
