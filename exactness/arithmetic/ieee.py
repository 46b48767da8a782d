"""Correctly rounded arithmetic: NumPy on a CPU, torch on a GPU, the same bits.

An operation on formats of at most 11 bits of precision is the f32 operation followed by one
rounding (24 ≥ 2·11 + 2, so the double rounding does not show; CONTRACTS, section 1); f32 itself
is the machine's own f32 operation, which NumPy and CUDA both round correctly. tf32 goes through
f64: with f32's exponents and 11 bits, its subnormal products do not fit f32's subnormals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from exactness import arrays
from exactness.arithmetic.base import Arithmetic, Operation
from exactness.arithmetic.orders import Order
from exactness.arithmetic.value import Value
from exactness.arrays import Array
from exactness.formats import Format, f64, tf32
from exactness.rounding import RNE, Rounding, fma, host_constant, round_to

_BUFFER_BYTES = 64 << 20
"""A reduction keeps its partial results; rows are taken in chunks of at most this size."""


def square_root(x: Array) -> Array:
    """The correctly rounded f32 or f64 square root (NumPy's and CUDA's own)."""
    return arrays.namespace(x).sqrt(x)


def fmin(x: Array, y: Array) -> Array:
    """`fminf`: a NaN gives way to a number, −0 is less than +0."""
    smaller = arrays.where((x < y) | (y != y) | ((x == y) & _signbit(x)), x, y)
    return smaller


def fmax(x: Array, y: Array) -> Array:
    """`fmaxf`: a NaN gives way to a number, +0 is greater than −0."""
    return arrays.where((x > y) | (y != y) | ((x == y) & ~_signbit(x)), x, y)


def _signbit(x: Array) -> Array:
    return arrays.namespace(x).signbit(x)


_ELEMENTWISE: Mapping[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "sqrt": square_root,
}
"""Operations whose result is rounded once to the format."""

_EXACT: Mapping[str, Callable[..., Array]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "minimum": fmin,
    "maximum": fmax,
}
"""Operations whose result is a value of the format already."""


class IEEE(Arithmetic):
    """Correctly rounded operations of IEEE 754, in the value's own format."""

    name = "ieee"

    def perform(self, operation: Operation) -> Value:
        """Dispatch to the method of the operation's name.

        Raises:
            NotImplementedError: this arithmetic has no such operation.
        """
        method = getattr(self, f"_{operation.name}", None)
        unrounded = None
        with np.errstate(all="ignore"):
            if operation.name in _ELEMENTWISE:
                unrounded = _ELEMENTWISE[operation.name](*_wide_enough(operation))
                payload = self.round(unrounded, operation.format)
            elif operation.name in _EXACT:
                payload = _EXACT[operation.name](*operation.payloads)
            elif method is not None:
                payload = method(operation)
            else:
                raise NotImplementedError(
                    f"arithmetic {self.name!r} has no operation {operation.name!r}"
                )
        if operation.name == "cast":
            unrounded = operation.payloads[0]
        return Value(self, payload, operation.format, unrounded)

    def round(self, payload: Array, fmt: Format, mode: Rounding = RNE) -> Array:
        """One rounding to `fmt`, in the format's carrier."""
        carrier = "float64" if fmt is f64 else "float32"
        return arrays.astype(round_to(payload, fmt, mode), carrier)

    def _constant(self, operation: Operation) -> Array:
        number, like = operation.attributes["number"], operation.attributes["like"]
        carrier = "float64" if operation.format is f64 else "float32"
        return arrays.full(like, (), host_constant(number, operation.format), carrier)

    def _cast(self, operation: Operation) -> Array:
        (payload,) = operation.payloads
        if operation.format is f64:
            return arrays.astype(payload, "float64")
        return self.round(payload, operation.format, operation.attributes["mode"])

    def _where(self, operation: Operation) -> Array:
        return arrays.where(operation.attributes["condition"], *operation.payloads)

    def _take(self, operation: Operation) -> Array:
        (payload,) = operation.payloads
        index, mask = operation.attributes["index"], operation.attributes["mask"]
        rows = payload.shape[0]
        if bool((mask & ((index < 0) | (index >= rows))).any()):
            index, mask = self.outside(index, mask, rows)
        row = tuple(payload.shape[1:])
        if not rows:
            return arrays.full(payload, (*mask.shape, *row), 0.0, arrays.dtype_name(payload))
        taken = payload[arrays.where(mask, index, 0)]
        return arrays.where(mask.reshape(*mask.shape, *(1 for _ in row)), taken, 0.0)

    def outside(self, index: Array, mask: Array, rows: int) -> tuple[Array, Array]:
        """What to take in place of rows that do not exist: index and mask.

        Raises:
            IndexError: here always.
        """
        raise IndexError(f"take: a row outside of the {rows} of the table, not masked")

    def _fma(self, operation: Operation) -> Array:
        a, b, c = operation.payloads
        return fma(a, b, c, operation.format)

    def _sum(self, operation: Operation) -> Array:
        def add(x: Array, y: Array) -> Array:
            return self.round(x + y, operation.format)

        return self._reduce(operation, add, 0.0)

    def _max(self, operation: Operation) -> Array:
        return self._reduce(operation, fmax, -math.inf)

    def _reduce(
        self, operation: Operation, combine: Callable[[Array, Array], Array], identity: float
    ) -> Array:
        order, axis = operation.attributes["order"], operation.attributes["axis"]
        (payload,) = operation.payloads
        return reduce_along(payload, order, axis, combine, identity)


def _wide_enough(operation: Operation) -> tuple[Array, ...]:
    """The payloads in a dtype whose operation, rounded once more, is correctly rounded."""
    if operation.format is not tf32:
        return operation.payloads
    return tuple(arrays.astype(payload, "float64") for payload in operation.payloads)


def reduce_along(
    x: Array,
    order: Order,
    axis: int,
    combine: Callable[[Array, Array], Array],
    identity: float,
) -> Array:
    """Reduce `x` along `axis` in `order`; the axis stays, with size 1.

    Args:
        x: f32 or f64 values.
        order: an order of `x.shape[axis]` elements to one result.
        axis: the dimension.
        combine: one addition, rounding included.
        identity: the value of the order's padding leaf.

    Raises:
        ValueError: the order is for another number of elements or leaves several results.
    """
    if order.n != x.shape[axis] or order.results.size != 1:
        raise ValueError(
            f"order {order.name!r} takes {order.n} elements to {order.results.size} results; "
            f"dimension {axis} has {x.shape[axis]} elements and needs 1 result"
        )
    last = x.swapaxes(axis, -1)
    rows = last.reshape(math.prod(last.shape[:-1]), order.n)
    result = arrays.full(x, (rows.shape[0],), identity, arrays.dtype_name(x))
    chunk = max(_BUFFER_BYTES // (8 * order.nodes), 1)
    for start in range(0, rows.shape[0], chunk):
        part = slice(start, start + chunk)
        result[part] = _reduce_rows(rows[part], order, combine, identity)
    return result.reshape(*last.shape[:-1], 1).swapaxes(axis, -1)


def _reduce_rows(
    rows: Array, order: Order, combine: Callable[[Array, Array], Array], identity: float
) -> Array:
    nodes = arrays.full(rows, (order.nodes, rows.shape[0]), identity, arrays.dtype_name(rows))
    nodes[: order.n] = rows.swapaxes(0, 1)
    end = order.n + 1
    for left, right in order.levels:
        nodes[end : end + left.size] = combine(_take(nodes, left), _take(nodes, right))
        end += left.size
    return nodes[int(order.results[0])]


def _take(nodes: Array, ids: np.ndarray) -> Array:
    """Rows of `nodes`; ids in an arithmetic progression need no gather."""
    if ids.size == 0:
        return nodes[:0]
    step = int(ids[1] - ids[0]) if ids.size > 1 else 1
    if (
        step > 0
        and int(ids[-1]) - int(ids[0]) == step * (ids.size - 1)
        and (ids.size < 3 or bool(np.all(np.diff(ids) == step)))
    ):
        return nodes[int(ids[0]) : int(ids[-1]) + 1 : step]
    return nodes[arrays.index_array(nodes, ids)]
