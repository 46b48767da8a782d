"""The named operations of a reference: everything that `+ − × ÷` do not say.

Each takes values and hands itself to their arithmetic; the source of its bits is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactness import arrays
from exactness.arithmetic.base import Arithmetic, Operation, running
from exactness.arithmetic.integers import ENTER, Word, WordOperation, word_of
from exactness.arithmetic.orders import Order
from exactness.arithmetic.value import Value
from exactness.arrays import Array
from exactness.formats import Format, Integer, f32
from exactness.hopper.tensor_core import kind_of
from exactness.rounding import RNE, Rounding


def _arithmetic(*operands: Value | float) -> Arithmetic:
    for operand in operands:
        if isinstance(operand, Value):
            return operand.arithmetic
    raise TypeError(f"no operand is a Value: {operands!r}")


def cast(x: Value, fmt: Format, mode: Rounding = RNE) -> Value:
    """`x` in `fmt`, rounded once from its payload."""
    return x.arithmetic.operate("cast", x, fmt=fmt, mode=mode)


def constant(number: float, fmt: Format, like: Value) -> Value:
    """A Python number as a host constant of `fmt`: f64 to `fmt` in one rounding."""
    return like.arithmetic.constant(number, fmt, like.payload)


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """The product a · b plus c, rounded once."""
    return _arithmetic(a, b, c).operate("fma", a, b, c)


def sqrt(x: Value) -> Value:
    """The correctly rounded square root."""
    return x.arithmetic.operate("sqrt", x)


def minimum(x: Value, y: Value | float) -> Value:
    """`fminf`: a NaN gives way to a number, −0 is less than +0."""
    return x.arithmetic.operate("minimum", x, y)


def maximum(x: Value, y: Value | float) -> Value:
    """`fmaxf`: a NaN gives way to a number, +0 is greater than −0."""
    return x.arithmetic.operate("maximum", x, y)


def sum_(x: Value, *, order: Order, axis: int = -1) -> Value:
    """The sum along `axis` (kept, size 1) in `order`, each addition rounded to the format."""
    return x.arithmetic.operate("sum", x, order=order, axis=axis)


def max_(x: Value, *, order: Order, axis: int = -1) -> Value:
    """The maximum along `axis` (kept, size 1); a NaN gives way, the order's padding is −inf."""
    return x.arithmetic.operate("max", x, order=order, axis=axis)


def equal(x: Value, y: Value | float) -> Array:
    """A plain boolean array; NaN equals nothing, −0 equals +0."""
    return x.arithmetic.compare("eq", x, y)


def where(condition: Array, x: Value, y: Value | float) -> Value:
    """`x` where the plain condition holds, else `y`; no arithmetic is done.

    Raises:
        TypeError: the condition is no boolean array; `<` and `equal` give one.
    """
    if not hasattr(condition, "dtype") or arrays.dtype_name(condition) != "bool":
        raise TypeError(f"condition: {condition!r:.60} is no boolean array; compare to get one")
    return x.arithmetic.operate("where", x, y, condition=condition)


def concatenate(parts: Sequence[Value], *, axis: int = -1) -> Value:
    """Values of one format one after the other along `axis`; no arithmetic is done."""
    arithmetic = _arithmetic(*parts)
    payloads = [part.payload for part in arithmetic._values("concatenate", tuple(parts))]
    return Value(arithmetic, arrays.concatenate(payloads, axis), parts[0].format)


def take(x: Value, index: Array | Word, *, mask: Array | None = None) -> Value:
    """Rows of `x` by number; +0 where the plain mask does not hold, whatever the number.

    Args:
        x: any format, [rows, ...].
        index: integers of any shape.
        mask: booleans of the shape of `index`.

    Returns:
        The shape of `index`, then that of a row.

    Raises:
        IndexError: a row that does not exist.
    """
    numbers = index.plain() if isinstance(index, Word) else index
    held = arrays.full(numbers, tuple(numbers.shape), True, "bool") if mask is None else mask
    return x.arithmetic.operate("take", x, index=numbers, mask=held)


def words(fmt: Integer, *given: Array | Word) -> tuple[Word, ...]:
    """Integer arrays, or words of another format, as words of `fmt`, wrapped to it.

    Raises:
        TypeError: not integers of at most 64 bits, or no arithmetic runs the program.
    """
    arithmetic = next((x.arithmetic for x in given if isinstance(x, Word)), None) or running()
    operands = tuple(word_of(arithmetic, x) for x in given)
    return arithmetic.operate_words(WordOperation(ENTER, operands, fmt))


def side_by_side(parts: Sequence[Word]) -> Word:
    """Words of one format, [n] each, as the columns of [n, parts]; nothing is computed."""
    payloads = [part.plain()[:, None] for part in parts]
    return Word(parts[0].arithmetic, arrays.concatenate(payloads, -1), parts[0].format)


def dot(a: Value, b: Value, acc: Value | None = None, *, accumulator: Format = f32) -> Value:
    """The tensor-core product a · b + acc, in ascending k; one site, whatever its number of steps.

    Args:
        a: bf16, f16, tf32 or fp8, […, M, K].
        b: the same format (fp8 formats may be mixed), […, K, N].
        acc: f32, or f16 for f16 and fp8 operands, […, M, N]: where the chain starts; zero if None.
        accumulator: the format of the result where no `acc` says it.

    Returns:
        […, M, N] in the format of the accumulator.

    Raises:
        TypeError: Hopper has no such product.
    """
    kind = kind_of(a.format, b.format, accumulator if acc is None else acc.format)
    operands = (a, b) if acc is None else (a, b, acc)
    return a.arithmetic.perform(Operation("dot", operands, kind.accumulator, {"kind": kind}))


def ex2_approx(x: Value, *, ftz: bool) -> Value:
    """`ex2.approx{.ftz}.f32`, the power of two (f32)."""
    return x.arithmetic.operate("ex2_approx", x, ftz=ftz)


def rsqrt_approx(x: Value, *, ftz: bool) -> Value:
    """`rsqrt.approx{.ftz}.f32`, the reciprocal square root (f32)."""
    return x.arithmetic.operate("rsqrt_approx", x, ftz=ftz)


def sqrt_approx(x: Value, *, ftz: bool) -> Value:
    """`sqrt.approx{.ftz}.f32`, the square root (f32)."""
    return x.arithmetic.operate("sqrt_approx", x, ftz=ftz)


def rcp_approx(x: Value, *, ftz: bool) -> Value:
    """`rcp.approx{.ftz}.f32`, the reciprocal (f32)."""
    return x.arithmetic.operate("rcp_approx", x, ftz=ftz)


def div_full(x: Value | float, y: Value | float, *, ftz: bool = False) -> Value:
    """`div.full{.ftz}.f32`, Triton's `/` on f32."""
    return _arithmetic(x, y).operate("div_full", x, y, ftz=ftz)


def expf(x: Value) -> Value:
    """CUDA's accurate `expf` (f32)."""
    return x.arithmetic.operate("expf", x)


def tanhf(x: Value) -> Value:
    """CUDA's accurate `tanhf` (f32)."""
    return x.arithmetic.operate("tanhf", x)


def erff(x: Value) -> Value:
    """CUDA's accurate `erff` (f32)."""
    return x.arithmetic.operate("erff", x)
