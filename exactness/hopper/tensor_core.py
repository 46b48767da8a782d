"""Hopper's tensor cores: matrix products with the H200's bits.

An instruction does not add products one after the other. It fuses up to `Kind.step` products and
the accumulator into one sum:

1. products are exact, their significand in [1, 4) and not renormalised;
2. every term is aligned to the largest exponent among them and truncated toward zero at
   `Kind.fraction_bits` bits behind the point;
3. the truncated terms are summed exactly;
4. the sum is rounded once to `Kind.result`. A zero is +0, overflow gives infinity.

A subnormal operand keeps its format's least exponent with a significand below 1. A zero product
never raises the largest exponent, a zero accumulator counts as `Kind.zero_exponent`. Infinities and
NaN behave as in IEEE 754. A longer K is a chain of instructions in ascending k, each result the
accumulator of the next.

Sources: bf16 and tf32 chains recorded on an H200 (CONTRACTS, section 3); Xie et al., "MMA-Sim:
Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909, for f16, fp8 and
the exponents of zero; `scripts/measure_tensor_core.py` compares this module with a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.formats import Format, bf16, e4m3fn, e5m2, f16, f32, tf32
from exactness.rounding import Rounding, round_to

E8M13 = Format("e8m13", 32, 8, 13)
"""What an fp8 product of Hopper accumulates in: f32 without its last ten bits."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The arithmetic of one family of matrix instructions.

    Attributes:
        a: format of the left operand.
        b: format of the right operand.
        accumulator: format of the accumulator and of the result's register.
        step: most products that one instruction fuses, a multiple of 4; an instruction of a
            smaller K is `dataclasses.replace(kind, step=K)`.
        fraction_bits: fractional bits of an aligned term.
        zero_exponent: exponent of an accumulator that is zero.
        result: format that the sum is rounded to.
        rounding: how; toward zero or to nearest even.
        alignment: how an aligned term loses its low bits; the hardware truncates.
    """

    a: Format
    b: Format
    accumulator: Format
    step: int
    fraction_bits: int
    zero_exponent: int
    result: Format
    rounding: Rounding
    alignment: Rounding = Rounding.TOWARD_ZERO

    def __post_init__(self) -> None:
        """Refuse what the kernels do not compute."""
        if self.step <= 0 or self.step % 4:
            raise ValueError(f"step: {self.step} is not accepted; a positive multiple of 4 is")
        for name in ("rounding", "alignment"):
            mode = getattr(self, name)
            if mode not in (Rounding.TOWARD_ZERO, Rounding.NEAREST_EVEN):
                raise ValueError(f"{name}: {mode} is not accepted; toward zero or to nearest is")

    @property
    def name(self) -> str:
        """As PTX writes the types: `f32.bf16.bf16`."""
        return _key(self.a, self.b, self.accumulator)


def _key(a: Format, b: Format, accumulator: Format) -> str:
    return f"{accumulator.name}.{a.name}.{b.name}"


def _kind(a: Format, b: Format, accumulator: Format) -> Kind:
    fp8 = a.bits == 8
    half = accumulator is f16
    return Kind(
        a,
        b,
        accumulator,
        step=256 // a.bits,
        fraction_bits=13 if fp8 else 25,
        zero_exponent=-21 if half else -133,
        result=f16 if half else E8M13 if fp8 else f32,
        rounding=Rounding.NEAREST_EVEN if half else Rounding.TOWARD_ZERO,
    )


_FP8 = (e4m3fn, e5m2)

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            _kind(bf16, bf16, f32),
            _kind(f16, f16, f32),
            _kind(f16, f16, f16),
            _kind(tf32, tf32, f32),
            *(_kind(a, b, acc) for acc in (f32, f16) for a in _FP8 for b in _FP8),
        )
    }
)
"""Every floating-point product of Hopper's `wgmma`, by name."""


def kind_of(a: Format, b: Format, accumulator: Format = f32) -> Kind:
    """The kind that multiplies formats `a` and `b` into `accumulator`.

    Raises:
        TypeError: Hopper has no such instruction; the message lists those it has.
    """
    key = _key(a, b, accumulator)
    if key not in KINDS:
        raise TypeError(f"no tensor-core product {key}; there are {', '.join(KINDS)}")
    return KINDS[key]


def matmul(a: Array, b: Array, acc: Array | None = None, *, kind: Kind) -> Array:
    """The matrix product a · b + acc, as a chain of instructions in ascending k.

    Args:
        a: f32 values of the format `kind.a`, […, M, K]; a NumPy array or a CUDA tensor.
        b: f32 values of the format `kind.b`, […, K, N]. Leading dimensions broadcast.
        acc: f32 values of the format `kind.accumulator` that broadcast to […, M, N]; zero if
            None.
        kind: the instructions.

    Returns:
        f32 values of the format `kind.result`, […, M, N]; the same bits from arrays and tensors.
        A NaN is 0x7fffffff.

    Raises:
        TypeError: an operand is not f32.
        ValueError: shapes that do not fit, or an element that is no value of its format.
    """
    shape = _shape(a, b, acc)
    given = {"a": (a, kind.a), "b": (b, kind.b), "acc": (acc, kind.accumulator)}
    for name, (x, fmt) in given.items():
        if x is not None:
            _require_values(name, x, fmt)
    out = arrays.full(a, shape, 0.0, "float32")
    if acc is not None:
        out[...] = acc
    if 0 not in shape and a.shape[-1]:
        if b.ndim == 2:  # One matrix for all: its batch is rows.
            a, out = a.reshape(-1, a.shape[-1]), out.reshape(-1, shape[-1])
        batch = tuple(out.shape[:-2])
        left = arrays.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
        right = arrays.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
        with np.errstate(all="ignore"):
            _chain(left, right, out.reshape(-1, *out.shape[-2:]), kind)
    return out.reshape(shape)


def step(a: Array, b: Array, acc: Array, *, kind: Kind) -> Array:
    """One instruction's fused sum: the product of two vectors of at most `kind.step` elements.

    Args:
        a: f32 values of `kind.a`, […, K].
        b: f32 values of `kind.b`, of the shape of `a`.
        acc: f32 values of `kind.accumulator` that broadcast to […].
        kind: the instruction.

    Returns:
        f32 values of the format `kind.result`, […].

    Raises:
        TypeError: an operand is not f32.
        ValueError: K is more than one instruction takes, or as `matmul`.
    """
    if a.shape[-1] > kind.step:
        raise ValueError(f"a: {a.shape[-1]} products; {kind.name} fuses at most {kind.step}")
    start = arrays.broadcast_to(acc, tuple(a.shape[:-1]))
    return matmul(a[..., None, :], b[..., None], start[..., None, None], kind=kind)[..., 0, 0]


def fp8_mma_sync(a: Array, b: Array, acc: Array, *, kind: Kind) -> Array:
    """One `mma.sync` of fp8 operands, which sm_90 has no instruction for.

    ptxas converts the operands to f16, multiplies the elements whose k is 0 or 1 modulo 4, then
    those whose k is 2 or 3, and adds the accumulator last, rounding to nearest.

    Args:
        a: f32 values of `kind.a`, […, M, 16] or […, M, 32].
        b: f32 values of `kind.b`, […, K, N].
        acc: f32 values of `kind.accumulator` that broadcast to […, M, N].
        kind: an fp8 kind.

    Returns:
        f32 values of the format `kind.accumulator`, […, M, N].

    Raises:
        ValueError: another K, or as `matmul`.

    Source: SASS of ptxas 12.8 and 13.0 for sm_90a.
    """
    depth = a.shape[-1]
    if depth not in (16, 32):
        raise ValueError(f"a: {depth} columns; one instruction takes 16 or 32")
    half = replace(kind_of(f16, f16, kind.accumulator), step=depth // 2)
    left = a.reshape(*a.shape[:-1], depth // 4, 4)
    right = b.swapaxes(-1, -2).reshape(*b.shape[:-2], b.shape[-1], depth // 4, 4)
    total = None
    for part in (slice(0, 2), slice(2, 4)):
        x, y = (z[..., part].reshape(*z.shape[:-2], depth // 2) for z in (left, right))
        total = matmul(x, y.swapaxes(-1, -2), total, kind=half)
    with np.errstate(all="ignore"):
        return canonical_nan(round_to(acc + total, kind.accumulator))


def integer_matmul(
    a: Array, b: Array, acc: Array | None = None, *, saturate: bool = False
) -> Array:
    """The product of 8-bit integers a · b + acc; neither order nor step show.

    Args:
        a: int8 or uint8, […, M, K]; a NumPy array or a CUDA tensor.
        b: int8 or uint8, […, K, N]. Leading dimensions broadcast.
        acc: int32 that broadcasts to […, M, N]; zero if None.
        saturate: clamp the sum to int32, as `.satfinite` does at the end of each instruction;
            otherwise it is taken modulo 2^32.

    Returns:
        int32, […, M, N].

    Raises:
        TypeError: another dtype.
        ValueError: shapes that do not fit.
    """
    for name, x in (("a", a), ("b", b)):
        if arrays.dtype_name(x) not in ("int8", "uint8"):
            raise TypeError(f"{name}: dtype {arrays.dtype_name(x)}; int8 or uint8 is accepted")
    if acc is not None and arrays.dtype_name(acc) != "int32":
        raise TypeError(f"acc: dtype {arrays.dtype_name(acc)}; int32 is accepted")
    _shape(a, b, acc)
    # Exact in f64 up to K = 2^37, and neither machine has a faster integer product.
    exact = arrays.astype(a, "float64") @ arrays.astype(b, "float64")
    total = arrays.astype(exact, "int64") + (0 if acc is None else arrays.astype(acc, "int64"))
    if saturate:
        total = total.clip(-(1 << 31), (1 << 31) - 1)
    return arrays.astype(total, "int32")


def tf32_operand(x: Array) -> Array:
    """What a tensor core reads of an f32 register: the low 13 bits are ignored, in a NaN too.

    Args:
        x: f32, any shape; a NumPy array or a CUDA tensor.

    Returns:
        Values of tf32, of the shape of `x`.
    """
    return arrays.view(arrays.view(x, "int32") & -(1 << tf32.padding), "float32")


def canonical_nan(x: Array) -> Array:
    """f32 values with every NaN as 0x7fffffff, the pattern that Hopper's units give."""
    nan = arrays.view(arrays.full(x, (), 0x7FFFFFFF, "int32"), "float32")
    return arrays.where(x != x, nan, x)


def _shape(a: Array, b: Array, acc: Array | None) -> tuple[int, ...]:
    """The shape of the result."""
    for name, x in (("a", a), ("b", b)):
        if x.ndim < 2:
            raise ValueError(f"{name}: shape {tuple(x.shape)}; at least two dimensions are needed")
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"a has {a.shape[-1]} columns and b {b.shape[-2]} rows; they must agree")
    batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    shape = (*batch, a.shape[-2], b.shape[-1])
    if acc is not None and np.broadcast_shapes(shape, tuple(acc.shape)) != shape:
        raise ValueError(f"acc: shape {tuple(acc.shape)} does not broadcast to {shape}")
    return shape


def _require_values(name: str, x: Array, fmt: Format) -> None:
    """Refuse what the operand's register could not hold."""
    if arrays.dtype_name(x) != "float32":
        raise TypeError(f"{name}: dtype {arrays.dtype_name(x)}; float32 values are accepted")
    if fmt.exponent_bits == f32.exponent_bits:
        low = (1 << f32.fraction_bits - fmt.fraction_bits) - 1
        strange = ((arrays.view(x, "int32") & low) != 0) & (x == x)
    else:
        strange = _outside(x, fmt)
    if bool(strange.any()):
        raise ValueError(
            f"{name}: {float(x[strange].reshape(-1)[0])!r} is not a value of {fmt.name}; "
            "round it first"
        )


def _outside(x: Array, fmt: Format) -> Array:
    """Which f32 values are none of a narrower format."""
    with np.errstate(invalid="ignore"):
        units = arrays.astype(x, "float64") * power_of_two(fmt.fraction_bits - exponents(x, fmt))
        between = units != arrays.namespace(x).trunc(units)
    infinite = fmt.infinities & (abs(x) == np.inf)
    return (x == x) & ~infinite & (between | (abs(x) > fmt.largest))


def exponents(x: Array, fmt: Format) -> Array:
    """int64 exponents of f32 values; zeros and subnormals of `fmt` have its least."""
    bits = arrays.astype(arrays.view(x, "int32"), "int64")
    return ((bits >> 23 & 0xFF) - 127).clip(fmt.min_exponent)


def power_of_two(exponent: Array) -> Array:
    """2^exponent in f64; int64 exponents of normal numbers."""
    return arrays.view(exponent + 1023 << 52, "float64")


def _chain(a: Array, b: Array, out: Array, kind: Kind) -> None:
    """Add the products [B, M, K] · [B, K, N] to `out`, in place."""
    # Compiled code and its compiler are loaded by the first product, not by every import.
    if arrays.is_numpy(a):
        from exactness.hopper import tensor_core_cpu

        tensor_core_cpu.chain(a, b, out, kind)
    else:
        from exactness.hopper import tensor_core_arrays

        tensor_core_arrays.chain(a, b, out, kind)
