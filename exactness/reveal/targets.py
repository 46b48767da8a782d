"""Callables as summations: what they take, and where their sum is read."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactness import bits
from exactness.bits import Bits
from exactness.formats import Format, bf16, f32, f64, format_named
from exactness.reveal.errors import RevealError
from exactness.reveal.probes import Summation

KINDS = ("sum", "mean", "rows", "dot", "linear", "matmul", "norm")
"""f(x [n]) twice, f(x [rows, n]), f(x [n], ones [n]), f(x [rows, n], ones [columns, n]),
f(x [rows, n], ones [n, columns]), f(x [rows, n])."""

_OF_ROWS = ("rows", "linear", "matmul", "norm")

_KIND_OF = {
    "dot": "dot", "vdot": "dot", "inner": "dot", "linear": "linear", "matmul": "matmul",
    "mm": "matmul", "mean": "mean", "average": "mean",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What to hand to a callable.

    Attributes:
        n: terms.
        format: of the terms.
        rows: rows of a matrix; ignored by sums and dots, which take one.
        columns: columns of a product.
        device: "cpu" or "cuda".
    """

    n: int
    format: Format = f32
    rows: int = 1
    columns: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse what has no terms.

        Raises:
            RevealError: a size below 1.
        """
        for name in ("n", "rows", "columns"):
            if getattr(self, name) < 1:
                raise RevealError(f"{name}: {getattr(self, name)} is not accepted; 1 and more are")


class Called(Summation):
    """A callable on NumPy arrays or torch tensors.

    Attributes:
        kind: one of `KINDS`.
        is_torch: whether it takes torch tensors.
    """

    def __init__(
        self, function: Callable[..., Any], shape: Shape, kind: str, *, is_torch: bool, name: str
    ) -> None:
        """Wrap `function`; `kind` says what it takes."""
        super().__init__()
        self.function, self.shape, self.kind, self.is_torch = function, shape, kind, is_torch
        self.name, self.n, self.format = name, shape.n, shape.format
        self.rows = shape.rows if kind in _OF_ROWS else 1
        self._takes_shape = "normalized_shape" in _parameters(function)
        self.signed = kind != "norm"
        self.plain = kind not in ("norm", "mean")
        self.slack = 3 if kind == "mean" else 0
        if not is_torch and shape.format is bf16:
            raise RevealError(f"{name} takes NumPy arrays, which have no bf16; --format f32")
        if not is_torch and shape.device != "cpu":
            raise RevealError(f"{name} takes NumPy arrays, which are on the CPU; --device cpu")

    def call(self, terms: np.ndarray) -> np.ndarray:
        """One call of the callable."""
        arguments = self.arguments(terms)
        try:
            with np.errstate(all="ignore"), machine(self.is_torch and self.shape.device == "cpu"):
                result = self.function(*arguments)
        except Exception as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise RevealError(f"{self.name} cannot be called as a {self.kind}: {what}") from error
        return self._read(result)

    def arguments(self, terms: np.ndarray) -> tuple[Any, ...]:
        """What the callable is called with."""
        n, columns = self.n, self.shape.columns
        if self.kind in ("sum", "mean"):
            return (self.array(terms[0]),)
        if self.kind == "dot":
            return self.array(terms[0]), self.array(np.ones(n))
        if self.kind == "rows":
            return (self.array(terms),)
        if self.kind == "norm":
            rows = self.array(terms if self.rows > 1 else terms[0])
            return (rows, (n,)) if self._takes_shape else (rows,)
        weight = np.ones((columns, n) if self.kind == "linear" else (n, columns))
        return self.array(terms), self.array(weight)

    def array(self, values: np.ndarray) -> Any:
        """Values of the format as an array that the callable takes."""
        held = Bits(bits.encode(values, self.format), self.format)
        if self.is_torch:
            return held.torch(self.shape.device)
        return values.astype({64: np.float64, 32: np.float32, 16: np.float16}[self.format.bits])

    def _read(self, result: Any) -> np.ndarray:
        values, fmt = read(result, self.name)
        if self.kind == "norm" and values.size == self.rows * self.n:
            return largest_finite(values.reshape(self.rows, self.n))
        expected = self.rows * (self.shape.columns if self.kind in ("linear", "matmul") else 1)
        if values.size != expected:
            raise RevealError(
                f"{self.name}: {values.size} results for {self.rows} rows of {self.n} terms; "
                f"{expected} expected (--kind {', '.join(KINDS)} says what it takes)"
            )
        self.result_bits = fmt.precision
        firsts = values.reshape(self.rows, -1)[:, :1]
        if self.kind == "mean":
            return nearest(firsts[:, 0] * self.n, fmt.precision)
        return largest_finite(firsts) if self.kind == "norm" else firsts[:, 0]


def largest_finite(rows: np.ndarray) -> np.ndarray:
    """The largest finite magnitude of each row: zero if the row was divided by infinity."""
    return np.asarray(np.max(np.where(np.isfinite(rows), np.abs(rows), 0.0), axis=1))


def nearest(values: np.ndarray, precision: int) -> np.ndarray:
    """Counts that were rounded in a format: integers within the error of two roundings."""
    with np.errstate(invalid="ignore"):
        whole = np.round(values)
        error = np.ldexp(np.abs(values), 1 - precision)
        return np.where(np.abs(values - whole) <= error, whole, values)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # builtins have none
        return ()


def read(result: Any, name: str) -> tuple[np.ndarray, Format]:
    """The values of a result, f64, and their format.

    Raises:
        RevealError: not a float, or no array of floats.
    """
    if isinstance(result, (tuple, list)) and result:
        result = result[0]
    if isinstance(result, (int, float)):
        return np.array([float(result)]), f64
    try:
        held = Bits.of(result if hasattr(result, "detach") else np.asarray(result))
    except TypeError:
        held = None
    if held is None or not isinstance(held.format, Format):
        raise RevealError(f"{name} returns {type(result).__name__}; floats are accepted")
    return np.asarray(held.values(), np.float64).ravel(), held.format


@contextlib.contextmanager
def machine(needed: bool) -> Iterator[None]:
    """Launch Triton kernels, if any are loaded, on the virtual Hopper."""
    if not needed or "triton" not in sys.modules:
        yield
        return
    from exactness import virtual

    with virtual.hopper():
        yield


def imported(address: str) -> Callable[..., Any]:
    """The callable at `module.attribute` or `module:attribute`.

    Raises:
        RevealError: there is none.
    """
    module, separator, attribute = address.partition(":")
    if not separator:
        module, _, attribute = address.rpartition(".")
    if not module or not attribute:
        raise RevealError(
            f"{address!r} is neither a claim nor an address, as numpy.sum or module:function"
        )
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise RevealError(f"{address}: {' '.join(str(error).split())}") from error
    if not callable(found):
        raise RevealError(f"{address} is {type(found).__name__}, which cannot be called")
    return found


def kind_of(name: str) -> str:
    """What a callable of this name probably takes."""
    if "norm" in name:
        return "norm"
    return _KIND_OF.get(name, "sum")


def takes_torch(function: Callable[..., Any], address: str) -> bool:
    """Whether a callable takes torch tensors: it is torch's, or its module uses torch."""
    if address.partition(".")[0].partition(":")[0] in ("torch", "numpy"):
        return address.startswith("torch")
    module = sys.modules.get(getattr(function, "__module__", None) or "", None)
    return "torch" in vars(module) if module is not None else False


def target(address: str, shape: Shape, kind: str | None = None) -> Called:
    """The callable at an address as a summation.

    Args:
        address: `module.attribute` or `module:attribute`.
        shape: what to hand to it.
        kind: what it takes; from its name if None.

    Raises:
        RevealError: it cannot be imported, or takes no such arrays.
    """
    function = imported(address)
    name = address.replace(":", ".").rpartition(".")[2]
    is_torch = takes_torch(function, address)
    return Called(function, shape, kind or kind_of(name), is_torch=is_torch, name=address)


def format_for(name: str | None) -> Format:
    """The format called `name`, f32 if None.

    Raises:
        RevealError: there is none.
    """
    try:
        return format_named(name or "f32")
    except ValueError as error:
        raise RevealError(str(error)) from None
