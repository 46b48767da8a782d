"""Float arithmetic that IEEE 754 defines: add to fma, min, max, division, square root.

Source: PTX ISA 9.0, sections 9.7.3 (f32, f64) and 9.7.4, 9.7.5 (half precision).
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from exactness import rounding
from exactness.rounding import Rounding
from exactness.virtual import directed, floats, poison
from exactness.virtual.builder import Builder
from exactness.virtual.floats import FORMATS, LOAD, STORE
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Function, Operation
from exactness.virtual.ops.common import (
    BITS,
    FLOAT_TYPES,
    Decoder,
    elementwise,
    expect_operands,
    flags_of,
    single_type,
)
from exactness.virtual.ops.special_function import quotient, special_function
from exactness.virtual.state import Bits

_ROUNDING_FLAGS = frozenset(["rn", "rz", "rm", "rp"])
Values = Callable[..., Any]
"""A function of f32 (or f64) value arrays."""


def scalar_type(name: str) -> str:
    """The element type of a packed one: "bf16" of "bf16x2"."""
    return name.removesuffix("x2")


def packed_or_plain(name: str, function: Function) -> Function:
    """`function` of element patterns, for registers that hold one or two of them."""
    if not name.endswith("x2"):
        return function

    def apply(*registers: Bits) -> Bits:
        halves = function(*(floats.split_halves(bits) for bits in registers))
        return floats.join_halves(halves)

    return apply


def with_flush(name: str, function: Function) -> Function:
    """`function` between flushed inputs and flushed results."""
    fmt = FORMATS[scalar_type(name)]

    def apply(*registers: Bits) -> Bits:
        return floats.flush(function(*(floats.flush(bits, fmt) for bits in registers)), fmt)

    return apply


def on_values(name: str, compute: Values, *, after: Values | None = None) -> Function:
    """Patterns to values, `compute`, the clamp `after` if any, one rounding, patterns."""
    load, store = LOAD[scalar_type(name)], STORE[scalar_type(name)]
    if after is None:
        return lambda *registers: store(compute(*(load(bits) for bits in registers)))
    return lambda *registers: store(after(compute(*(load(bits) for bits in registers))))


def finish(
    ins: Instruction, b: Builder, name: str, function: Function, flags: frozenset[str]
) -> Operation:
    """Add `.ftz` and packing to a function of patterns."""
    if "ftz" in flags:
        function = with_flush(name, function)
    rule = poison.packed_halves if name.endswith("x2") else None
    function = packed_or_plain(name, function)
    return elementwise(ins, b, function, BITS[name], is_float=True, poison_rule=rule)


def _clamp(flags: frozenset[str]) -> Values | None:
    if "sat" in flags:
        return floats.saturate
    return floats.relu if "relu" in flags else None


def _mode(ins: Instruction, b: Builder, flags: frozenset[str], name: str) -> Rounding:
    """The rounding mode; other than nearest only on f32."""
    named = flags & _ROUNDING_FLAGS
    if len(named) > 1:
        raise b.unsupported(ins, "two rounding modifiers")
    mode = floats.ROUNDINGS[min(named)] if named else Rounding.NEAREST_EVEN
    if mode is not Rounding.NEAREST_EVEN and name != "f32":
        raise b.unsupported(ins, f"rounding .{mode.value} of .{name}")
    return mode


def _sum_or_product(nearest: Values, in_mode: Callable[..., Any]) -> Decoder:
    def decode(ins: Instruction, b: Builder) -> Operation:
        expect_operands(ins, b, 3)
        flags = flags_of(ins, b, _ROUNDING_FLAGS | {"ftz", "sat"})
        name = single_type(ins, b, FLOAT_TYPES)
        mode = _mode(ins, b, flags, name)
        compute = nearest
        if name == "f32" and "ftz" in flags and nearest is np.multiply:
            compute = lambda x, y: directed.mul_flushed(x, y, mode)  # noqa: E731
        elif mode is not Rounding.NEAREST_EVEN:
            compute = lambda x, y: in_mode(x, y, mode)  # noqa: E731
        return finish(ins, b, name, on_values(name, compute, after=_clamp(flags)), flags)

    return decode


def _subtract_directed(x: Bits, y: Bits, mode: Rounding) -> Bits:
    return directed.add_directed(x, -y, mode)


def _fma(ins: Instruction, b: Builder) -> Operation:
    """The fused a · b + c, rounded once; `mad` on floats is the same."""
    expect_operands(ins, b, 4)
    flags = flags_of(ins, b, _ROUNDING_FLAGS | {"ftz", "sat", "relu"})
    name = single_type(ins, b, FLOAT_TYPES)
    if not flags & _ROUNDING_FLAGS:
        raise b.unsupported(ins, "it needs a rounding modifier")
    mode = _mode(ins, b, flags, name)
    compute = _fma_of(scalar_type(name), mode)
    if name == "f32" and "ftz" in flags:
        compute = lambda x, y, z: directed.fma_flushed(x, y, z, mode)  # noqa: E731
    return finish(ins, b, name, on_values(name, compute, after=_clamp(flags)), flags)


def _fma_of(name: str, mode: Rounding) -> Values:
    if name == "f64":
        return _fma_f64
    if name != "f32":
        fmt = FORMATS[name]
        return lambda x, y, z: np.asarray(rounding.fma(x, y, z, fmt))
    if mode is Rounding.NEAREST_EVEN:
        return floats.fma_f32
    return lambda x, y, z: directed.fma_directed(x, y, z, mode)


def _fma_f64(x: Bits, y: Bits, z: Bits) -> Bits:
    """One element after another by the C library: f64 has no wider format to compute in."""
    return np.asarray(_libm_fma()(x, y, z)).astype(np.float64)


@cache
def _libm_fma() -> Any:
    library = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    library.fma.restype = ctypes.c_double
    library.fma.argtypes = [ctypes.c_double] * 3
    return np.frompyfunc(library.fma, 3, 1)


def _extreme(smaller: bool) -> Decoder:
    """`min` or `max`: a NaN loses unless `.NaN`, and −0 is below +0."""

    def decode(ins: Instruction, b: Builder) -> Operation:
        expect_operands(ins, b, 3, 4)
        flags = flags_of(ins, b, {"ftz", "NaN", "xorsign", "abs"})
        name = single_type(ins, b, FLOAT_TYPES)
        if len(ins.operands) == 4 and flags & {"xorsign"}:
            raise b.unsupported(ins, "three operands with .xorsign")
        function = extreme_of(scalar_type(name), smaller, "NaN" in flags)
        if "xorsign" in flags:
            function = _with_xor_sign(function)
        return finish(ins, b, name, function, flags)

    return decode


def extreme_of(name: str, smaller: bool, keep_nan: bool) -> Function:
    """The smaller or larger of two or three patterns of element type `name`."""
    load = LOAD[name]
    fmt = FORMATS[name]
    nan: Any = {16: floats.HALF_NAN, 32: floats.F32_NAN, 64: floats.F64_NAN}[fmt.bits]

    def two(x: Bits, y: Bits) -> Bits:
        vx, vy = load(x), load(y)
        first = vx < vy if smaller else vx > vy
        # Equal values differ in bits only where they are zeros: OR gives −0, AND +0.
        equal = x | y if smaller else x & y
        result = np.where(first, x, np.where(vx == vy, equal, y))
        nan_x, nan_y = np.isnan(vx), np.isnan(vy)
        if keep_nan:
            return np.where(nan_x | nan_y, nan, result)
        if not (nan_x.any() or nan_y.any()):
            return result
        return np.where(nan_y, np.where(nan_x, nan, x), np.where(nan_x, y, result))

    def function(x: Bits, y: Bits, *more: Bits) -> Bits:
        return two(two(x, y), more[0]) if more else two(x, y)

    return function


def _with_xor_sign(function: Function) -> Function:
    """The extreme of magnitudes, with the sign of the product."""

    def apply(x: Bits, y: Bits) -> Bits:
        result = function(floats.magnitude(x), floats.magnitude(y))
        return floats.magnitude(result) | floats.sign_of(x ^ y)

    return apply


def _pattern_only(function: Function) -> Decoder:
    """`neg` and `abs`: the sign bit alone, but ptxas makes additions of them, so NaN is NaN."""

    def decode(ins: Instruction, b: Builder) -> Operation:
        expect_operands(ins, b, 2)
        flags = flags_of(ins, b, {"ftz"})
        name = single_type(ins, b, FLOAT_TYPES)
        fmt = FORMATS[scalar_type(name)]
        return finish(ins, b, name, lambda x: floats.canonical(function(x), fmt), flags)

    return decode


def _copysign(ins: Instruction, b: Builder) -> Operation:
    """The sign of the first source on the magnitude of the second."""
    flags = flags_of(ins, b, ())
    name = single_type(ins, b, {"f32", "f64"})
    return finish(ins, b, name, lambda x, y: floats.magnitude(y) | floats.sign_of(x), flags)


def _testp(ins: Instruction, b: Builder) -> Operation:
    """Classify a float into a predicate."""
    flags = flags_of(ins, b, set(_CLASSES))
    name = single_type(ins, b, {"f32", "f64"})
    (kind,) = flags
    load, test = LOAD[name], _CLASSES[kind]
    smallest = FORMATS[name].smallest_normal
    return elementwise(
        ins, b, lambda x: test(load(x), smallest), BITS[name], out_bits=1, is_float=True
    )


_CLASSES: Mapping[str, Values] = {
    "finite": lambda x, _: np.isfinite(x),
    "infinite": lambda x, _: np.isinf(x),
    "number": lambda x, _: ~np.isnan(x),
    "notanumber": lambda x, _: np.isnan(x),
    # The ISA counts zeros as normal.
    "normal": lambda x, smallest: np.isfinite(x) & ((np.abs(x) >= smallest) | (x == 0)),
    "subnormal": lambda x, smallest: (x != 0) & (np.abs(x) < smallest),
}


def _div(ins: Instruction, b: Builder) -> Operation:
    """`.rn` and the directed modes are IEEE; `.full` and `.approx` are the hardware's own."""
    expect_operands(ins, b, 3)
    flags = flags_of(ins, b, _ROUNDING_FLAGS | {"ftz", "full", "approx"})
    name = single_type(ins, b, {"f32", "f64"})
    if flags & {"full", "approx"}:
        return quotient(ins, b, flags)
    if not flags & _ROUNDING_FLAGS:
        raise b.unsupported(ins, "it needs a rounding modifier, .full or .approx")
    mode = _mode(ins, b, flags, name)
    compute: Values = np.divide
    if mode is not Rounding.NEAREST_EVEN:
        compute = lambda x, y: directed.div_directed(x, y, mode)  # noqa: E731
    return finish(ins, b, name, on_values(name, compute), flags)


def _root_or_reciprocal(nearest: Values, in_mode: Callable[..., Any], approx: str) -> Decoder:
    """`sqrt` and `rcp`: IEEE in four modes, or the special-function unit."""

    def decode(ins: Instruction, b: Builder) -> Operation:
        expect_operands(ins, b, 2)
        flags = flags_of(ins, b, _ROUNDING_FLAGS | {"ftz", "approx"})
        name = single_type(ins, b, {"f32", "f64"})
        if "approx" in flags:
            return special_function(approx)(ins, b)
        if not flags & _ROUNDING_FLAGS:
            raise b.unsupported(ins, "it needs a rounding modifier or .approx")
        mode = _mode(ins, b, flags, name)
        compute = nearest
        if mode is not Rounding.NEAREST_EVEN:
            compute = lambda x: in_mode(x, mode)  # noqa: E731
        return finish(ins, b, name, on_values(name, compute), flags)

    return decode


def _reciprocal_directed(x: Bits, mode: Rounding) -> Bits:
    return directed.div_directed(np.ones((1, 1), np.float32), x, mode)


TABLE: Mapping[str, Decoder] = {
    "add": _sum_or_product(np.add, directed.add_directed),
    "sub": _sum_or_product(np.subtract, _subtract_directed),
    "mul": _sum_or_product(np.multiply, directed.mul_directed),
    "fma": _fma,
    "mad": _fma,
    "min": _extreme(True),
    "max": _extreme(False),
    "neg": _pattern_only(floats.negate),
    "abs": _pattern_only(floats.magnitude),
    "copysign": _copysign,
    "testp": _testp,
    "div": _div,
    "sqrt": _root_or_reciprocal(np.sqrt, directed.sqrt_directed, "sqrt_approx"),
    "rcp": _root_or_reciprocal(lambda x: x.dtype.type(1) / x, _reciprocal_directed, "rcp_approx"),
}
