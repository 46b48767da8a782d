"""Words: integers of a fixed width that a reference computes with.

Most integers of a reference are plain arrays. Where they decide the result, as in a hash or a
lookup, they are words: every operation wraps to their format and has a site, like those of values.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exactness import arrays
from exactness.arrays import Array
from exactness.formats import INTEGERS, Integer

if TYPE_CHECKING:
    from exactness.arithmetic.base import Arithmetic

ENTER = "words"
"""Name of the operation that makes words of plain arrays or of words of another format."""

UNSIGNED = ("floordiv", "mod")
"""Operations of unsigned formats alone."""


class Word:
    """Integers in int64, the format they are meant in, and the arithmetic that runs them.

    `+ − × // %` take words of the same format or Python integers and wrap to the format; `//` and
    `%` are of unsigned formats alone, where all languages agree. Comparisons give plain boolean
    arrays. Indexing is plain. `origin` is the operation that made the word; None for a plain array.
    """

    __array_ufunc__ = None  # NumPy must not take `array * word` apart.
    __slots__ = ("arithmetic", "format", "number", "origin", "payload")

    def __init__(
        self,
        arithmetic: Arithmetic,
        payload: Array,
        fmt: Integer,
        origin: WordOperation | None = None,
        number: int | None = None,
    ) -> None:
        self.arithmetic = arithmetic
        self.payload = payload
        self.format = fmt
        self.origin = origin
        self.number = number

    def __repr__(self) -> str:
        """Format and payload."""
        return f"Word({self.format.name}, {self.payload!r})"

    def plain(self) -> Array:
        """The int64 array, which nothing looks into from here on."""
        return self.arithmetic.leave(self)

    def __getitem__(self, index: Any) -> Word:
        """Plain indexing."""
        return Word(self.arithmetic, self.payload[index], self.format, self.origin)

    def __add__(self, other: Word | int) -> Word:
        """The sum, wrapped."""
        return self._operate("add", self, other)

    def __radd__(self, other: int) -> Word:
        """The sum, wrapped."""
        return self._operate("add", other, self)

    def __sub__(self, other: Word | int) -> Word:
        """The difference, wrapped."""
        return self._operate("sub", self, other)

    def __rsub__(self, other: int) -> Word:
        """The difference, wrapped."""
        return self._operate("sub", other, self)

    def __mul__(self, other: Word | int) -> Word:
        """The product, wrapped."""
        return self._operate("mul", self, other)

    def __rmul__(self, other: int) -> Word:
        """The product, wrapped."""
        return self._operate("mul", other, self)

    def __floordiv__(self, other: Word | int) -> Word:
        """The quotient of unsigned words."""
        return self._operate("floordiv", self, other)

    def __mod__(self, other: Word | int) -> Word:
        """The remainder of unsigned words."""
        return self._operate("mod", self, other)

    def __lt__(self, other: Word | int) -> Array:
        """A plain boolean array."""
        return self._compare("lt", other)

    def __le__(self, other: Word | int) -> Array:
        """A plain boolean array."""
        return self._compare("le", other)

    def __gt__(self, other: Word | int) -> Array:
        """A plain boolean array."""
        return self._compare("gt", other)

    def __ge__(self, other: Word | int) -> Array:
        """A plain boolean array."""
        return self._compare("ge", other)

    def __eq__(self, other: object) -> bool:
        """Refused: an identity test in the place of a comparison would be False and silent.

        Raises:
            TypeError: always.
        """
        raise TypeError("Word == and != are not defined; use plain(), an array of integers")

    __hash__ = object.__hash__

    def _operate(self, name: str, *operands: Word | int) -> Word:
        if name in UNSIGNED and self.format.signed:
            raise TypeError(f"{name}: operands are {self.format.name}; unsigned words are accepted")
        words = tuple(self._word(name, operand) for operand in operands)
        (result,) = self.arithmetic.operate_words(WordOperation(name, words, self.format))
        return result

    def _compare(self, name: str, other: Word | int) -> Array:
        return self.arithmetic.perform_comparison(name, self, self._word(name, other))

    def _word(self, name: str, operand: Word | int) -> Word:
        """The operand as a word of this format; a Python integer is a constant."""
        if isinstance(operand, Word):
            if operand.format is not self.format:
                both = f"{self.format.name} and {operand.format.name}"
                raise TypeError(f"{name}: formats {both} mixed; convert one")
            return operand
        if not isinstance(operand, numbers.Integral):
            raise TypeError(f"{name}: {operand!r:.60} is neither a Word nor an integer")
        number = int(operand)
        low = -(1 << (self.format.bits - 1)) if self.format.signed else 0
        if not low <= number < low + (1 << self.format.bits):
            raise ValueError(f"{name}: {number} is not in the range of {self.format.name}")
        payload = arrays.full(self.payload, (), number, "int64")
        return Word(self.arithmetic, payload, self.format, number=number)


@dataclass(frozen=True, eq=False)
class WordOperation:
    """One operation on words, about to be performed.

    Attributes:
        name: "add", "sub", "mul", "floordiv", "mod" or `ENTER`.
        operands: two words; of `ENTER` any number, each of a format of its own.
        format: the format of the results.
    """

    name: str
    operands: tuple[Word, ...]
    format: Integer

    def unwrapped(self) -> tuple[Array, ...]:
        """The results in int64, as 64-bit arithmetic gives them."""
        payloads = tuple(operand.payload for operand in self.operands)
        return payloads if self.name == ENTER else (_RESULTS[self.name](*payloads),)

    def perform(self) -> tuple[Array, ...]:
        """The results, wrapped to the format."""
        return tuple(wrapped(result, self.format) for result in self.unwrapped())


_RESULTS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
}


def wrapped(x: Array, fmt: Integer) -> Array:
    """An int64 array modulo two to the width, in the range of `fmt`.

    Raises:
        TypeError: u64, which int64 does not hold.
    """
    if fmt.bits == 64:
        if not fmt.signed:
            raise TypeError("words of u64 are not supported; u32 and i64 are")
        return x
    half = 1 << (fmt.bits - 1) if fmt.signed else 0
    return ((x + half) & ((1 << fmt.bits) - 1)) - half


def word_of(arithmetic: Arithmetic, x: Array | Word) -> Word:
    """A plain integer array as a word of its own format, before it enters; a word as it is.

    Raises:
        TypeError: not an array of integers of at most 64 bits that int64 holds.
    """
    if isinstance(x, Word):
        return x
    name = arrays.dtype_name(x) if hasattr(x, "dtype") else type(x).__name__
    formats = {f"{'' if f.signed else 'u'}int{f.bits}": f for f in INTEGERS.values()}
    if name not in formats or name == "uint64":
        raise TypeError(f"{name} is no integer of a word; int8 to int64 and uint8 to uint32 are")
    return Word(arithmetic, arrays.astype(x, "int64"), formats[name])
