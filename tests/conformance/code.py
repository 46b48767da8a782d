"""A digest of the code that a launch runs, which formatting and comments leave alone."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any


def source_digest(launch: Callable[..., object]) -> str:
    """Return the SHA-256 of ``launch`` and of all functions of its file that it reaches."""
    found: dict[str, str] = {}
    pending = [launch]
    while pending:
        function = plain(pending.pop())
        if function is None or function.__qualname__ in found:
            continue
        text = textwrap.dedent(inspect.getsource(function))
        found[function.__qualname__] = ast.unparse(ast.parse(text))
        pending += reached(function)
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


def plain(value: Any) -> FunctionType | None:
    """Return the Python function below Triton's wrappers, or None for any other object."""
    while not isinstance(value, FunctionType) and hasattr(value, "fn"):
        value = value.fn
    return value if isinstance(value, FunctionType) else None


def reached(function: FunctionType) -> Iterator[Any]:
    """Yield what a function refers to, by closure or as a global of its own package."""
    package = function.__module__.split(".")[0]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    for value in (*cells, *named):
        found = plain(value) if not isinstance(value, ModuleType) else None
        if found is not None and found.__module__.split(".")[0] == package:
            yield found
