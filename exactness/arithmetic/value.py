"""Values: what a reference computes with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exactness import arrays
from exactness.arrays import Array
from exactness.formats import Format

if TYPE_CHECKING:
    from exactness.arithmetic.base import Arithmetic, Operation


PLAIN = "plain"
"""Name of the origin of a value that only rearranges another one's elements."""


class Value:
    """A payload, the format it is meant in, and the arithmetic that decides its operations.

    The payload is an f32 or f64 array (NumPy or CUDA). It may be wider than the format, so that
    a rounding can be left out. `+ − × ÷` and comparisons take values of the same format or
    Python numbers, which become host constants: f64 to the format in one rounding. Comparisons
    give plain boolean arrays. Indexing, reshape and broadcast are plain.

    `unrounded` is the payload before the last rounding, where one was made: what a kernel would
    store if it left out its final cast. `origin` is the operation that made the value, where the
    arithmetic keeps it (mutants look for products that could be contracted).
    """

    __array_ufunc__ = None  # NumPy must not take `array * value` apart.
    __slots__ = ("arithmetic", "format", "origin", "payload", "unrounded")

    def __init__(
        self,
        arithmetic: Arithmetic,
        payload: Array,
        fmt: Format,
        unrounded: Array | None = None,
    ) -> None:
        self.arithmetic = arithmetic
        self.payload = payload
        self.format = fmt
        self.unrounded = unrounded
        self.origin: Operation | None = None

    def __repr__(self) -> str:
        """Format, shape and payload."""
        return f"Value({self.format.name}, shape={self.shape}, {self.payload!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the payload."""
        return tuple(self.payload.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def _plain(self, payload: Array) -> Value:
        value = Value(self.arithmetic, payload, self.format)
        if self.origin is not None:
            value.origin = self.origin.rearranged(self)
        return value

    def __getitem__(self, index: Any) -> Value:
        """Plain indexing; index arrays are integers or booleans."""
        return self._plain(self.payload[index])

    def reshape(self, *shape: int) -> Value:
        """The same elements in another shape."""
        return self._plain(self.payload.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> Value:
        """Two dimensions exchanged."""
        return self._plain(self.payload.swapaxes(first, second))

    def broadcast_to(self, *shape: int) -> Value:
        """The same elements, repeated to fill `shape`."""
        return self._plain(arrays.broadcast_to(self.payload, shape))

    def __add__(self, other: Value | float) -> Value:
        """Rounded sum."""
        return self.arithmetic.operate("add", self, other)

    def __radd__(self, other: float) -> Value:
        """Rounded sum."""
        return self.arithmetic.operate("add", other, self)

    def __sub__(self, other: Value | float) -> Value:
        """Rounded difference."""
        return self.arithmetic.operate("sub", self, other)

    def __rsub__(self, other: float) -> Value:
        """Rounded difference."""
        return self.arithmetic.operate("sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        """Rounded product."""
        return self.arithmetic.operate("mul", self, other)

    def __rmul__(self, other: float) -> Value:
        """Rounded product."""
        return self.arithmetic.operate("mul", other, self)

    def __truediv__(self, other: Value | float) -> Value:
        """Correctly rounded quotient."""
        return self.arithmetic.operate("div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        """Correctly rounded quotient."""
        return self.arithmetic.operate("div", other, self)

    def __neg__(self) -> Value:
        """The sign flipped, of zero and NaN too."""
        return self.arithmetic.operate("neg", self)

    def __abs__(self) -> Value:
        """The sign cleared."""
        return self.arithmetic.operate("abs", self)

    def __lt__(self, other: Value | float) -> Array:
        """A plain boolean array."""
        return self.arithmetic.compare("lt", self, other)

    def __le__(self, other: Value | float) -> Array:
        """A plain boolean array."""
        return self.arithmetic.compare("le", self, other)

    def __gt__(self, other: Value | float) -> Array:
        """A plain boolean array."""
        return self.arithmetic.compare("gt", self, other)

    def __eq__(self, other: object) -> bool:
        """Refused: an identity test in the place of a comparison would be False and silent.

        Raises:
            TypeError: always.
        """
        raise TypeError("Value == and != are not defined; use equal(x, y), an array of booleans")

    __hash__ = object.__hash__

    def __ge__(self, other: Value | float) -> Array:
        """A plain boolean array."""
        return self.arithmetic.compare("ge", self, other)
