"""cvt: every conversion between integers and floats, one rounding each.

Source: PTX ISA 9.0, section 9.7.9.21 (cvt). Float to integer saturates; NaN gives 0, or the
smallest signed value of the width where source or destination has 64 bits. fp8 results saturate
to the largest finite number, and NaN is 0x7f.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from exactness import bits as patterns
from exactness.formats import Format, e4m3fn, e5m2, tf32
from exactness.rounding import Rounding, add_to_odd, round_to
from exactness.virtual import floats, poison
from exactness.virtual.floats import FORMATS, LOAD, STORE
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import UNSIGNED, Builder, Elementwise, Function, Operation
from exactness.virtual.ops.common import (
    BITS,
    INTEGER_TYPES,
    Decoder,
    expect_operands,
    flags_of,
    types_of,
)
from exactness.virtual.ops.integer import signed
from exactness.virtual.state import Bits

_TO_INTEGRAL: Mapping[str, Any] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_FLOAT_ROUNDINGS = frozenset(["rn", "rz", "rm", "rp", "rna"])
_FLAGS = _FLOAT_ROUNDINGS | frozenset(_TO_INTEGRAL) | {"ftz", "sat", "satfinite", "relu"}
_FP8: Mapping[str, Format] = {"e4m3x2": e4m3fn, "e5m2x2": e5m2}
_PLAIN_FLOATS = frozenset(["f16", "bf16", "f32", "f64"])


def _cvt(ins: Instruction, b: Builder) -> Operation:
    """Dispatch on the kinds of source and destination."""
    flags = flags_of(ins, b, _FLAGS)
    types = types_of(ins)
    if len(types) != 2:
        raise b.unsupported(ins, "it needs two types")
    out, into = types
    if out in INTEGER_TYPES and into in INTEGER_TYPES:
        return _integer_to_integer(ins, b, out, into, "sat" in flags)
    if out in INTEGER_TYPES and into in _PLAIN_FLOATS:
        return _float_to_integer(ins, b, out, into, flags)
    if out in _PLAIN_FLOATS and into in INTEGER_TYPES:
        return _integer_to_float(ins, b, out, into, flags)
    if out in _PLAIN_FLOATS and into in _PLAIN_FLOATS:
        return _float_to_float(ins, b, out, into, flags)
    if out in ("f16x2", "bf16x2") and into == "f32":
        return _two_to_packed(ins, b, out, flags)
    if out in _FP8 or into in _FP8:
        return _fp8(ins, b, out, into, flags)
    if (out, into) == ("tf32", "f32"):
        return _to_tf32(ins, b, flags)
    raise b.unsupported(ins, f"conversion from .{into} to .{out}")


def integer_values(bits: Bits, name: str) -> Bits:
    """The low bits of a register as integers of type `name`."""
    width = BITS[name]
    if 8 * bits.itemsize != width:
        bits = bits.astype(UNSIGNED[width])
    return signed(bits) if name.startswith("s") else bits


def fill_register(values: Bits, register_bits: int) -> Bits:
    """Integers of their own type, sign- or zero-extended to the register's width."""
    kind = UNSIGNED[register_bits]
    return values.astype(kind)


def _limits(name: str) -> tuple[int, int]:
    bits = BITS[name]
    if name.startswith("s"):
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _integer_to_integer(
    ins: Instruction, b: Builder, out: str, into: str, saturate: bool
) -> Operation:
    expect_operands(ins, b, 2)
    source = b.any_source(ins, ins.operands[1], BITS[into])
    target = b.any_target(ins, ins.operands[0], BITS[out])
    width, register = BITS[out], b.widths[target]
    low, high = _limits(out)

    def function(x: Bits) -> Bits:
        values = integer_values(x, into)
        if saturate:
            least, most = _limits(into)
            values = np.clip(values, max(low, least), min(high, most))
        narrowed = values.astype(f"{'i' if out.startswith('s') else 'u'}{width // 8}")
        return fill_register(narrowed, register)

    extends = into.startswith("s") and width > BITS[into]
    rule = poison.extended(min(BITS[into], width) // 8, register // 8, extends)
    return Elementwise(ins, function, (source,), (target,), None if saturate else rule)


def _float_source(ins: Instruction, b: Builder, into: str, flags: frozenset[str]) -> Function:
    """Patterns of a float register to values, subnormals flushed under `.ftz`."""
    load = LOAD[into]
    if "ftz" not in flags:
        return load
    return lambda x: load(floats.flush(x, FORMATS[into]))


def _float_to_integer(
    ins: Instruction, b: Builder, out: str, into: str, flags: frozenset[str]
) -> Operation:
    expect_operands(ins, b, 2)
    mode = flags & frozenset(_TO_INTEGRAL)
    if len(mode) != 1:
        raise b.unsupported(ins, "it needs .rni, .rzi, .rmi or .rpi")
    to_integral, load = _TO_INTEGRAL[min(mode)], _float_source(ins, b, into, flags)
    source = b.source(ins, ins.operands[1], BITS[into], is_float=True)
    target = b.any_target(ins, ins.operands[0], BITS[out])
    register = b.widths[target]
    wide = into == "f64" or BITS[out] == 64
    nan_value = 1 << (BITS[out] - 1) if wide else 0

    def function(x: Bits) -> Bits:
        values = to_integral(load(x).astype(np.float64))
        return fill_register(saturated_integers(values, out, nan_value), register)

    return Elementwise(ins, function, (source,), (target,))


def saturated_integers(values: Bits, out: str, nan_pattern: int) -> Bits:
    """Integral f64 values to integers of type `out`, clamped to its range."""
    low, high = _limits(out)
    kind = np.dtype(f"{'i' if out.startswith('s') else 'u'}{BITS[out] // 8}")
    nan = np.array(nan_pattern, UNSIGNED[BITS[out]]).view(kind)
    # The bounds of 64-bit types are not f64 values: compare with the power of two above.
    above, below = values >= float(high + 1), values < float(low)
    safe = np.where(above | below | np.isnan(values), 0.0, values)
    result = np.where(above, kind.type(high), np.where(below, kind.type(low), safe.astype(kind)))
    return np.where(np.isnan(values), nan, result)


def _float_rounding(ins: Instruction, b: Builder, flags: frozenset[str]) -> Rounding:
    named = flags & _FLOAT_ROUNDINGS
    if len(named) > 1:
        raise b.unsupported(ins, "two rounding modifiers")
    return floats.ROUNDINGS[min(named)] if named else Rounding.NEAREST_EVEN


def store_rounded(name: str, mode: Rounding, *, satfinite: bool = False) -> Function:
    """Values to patterns of a 16, 32 or 64-bit format, in one rounding of any mode."""
    fmt, store = FORMATS[name], STORE[name]
    if mode is Rounding.NEAREST_EVEN and not satfinite:
        if name == "f32":
            return lambda values: store(values.astype(np.float32))
        return store

    def apply(values: Bits) -> Bits:
        rounded = np.asarray(round_to(values, fmt, mode))
        if satfinite:
            rounded = np.clip(rounded, -fmt.largest, fmt.largest)
        return store(rounded.astype(np.float32) if fmt.bits <= 32 else rounded)

    return apply


def _integer_to_float(
    ins: Instruction, b: Builder, out: str, into: str, flags: frozenset[str]
) -> Operation:
    expect_operands(ins, b, 2)
    mode = _float_rounding(ins, b, flags)
    if out == "f64" and mode is not Rounding.NEAREST_EVEN:
        raise b.unsupported(ins, f"rounding .{mode.value} to .f64")
    source = b.any_source(ins, ins.operands[1], BITS[into])
    store = store_rounded(out, mode)

    def function(x: Bits) -> Bits:
        values = integer_values(x, into)
        if out == "f64" or values.itemsize < 8:
            return store(values.astype(np.float64))
        return store(_sticky_f64(values))

    return Elementwise(ins, function, (source,), (b.target(ins, ins.operands[0], BITS[out]),))


def _sticky_f64(values: Bits) -> Bits:
    """64-bit integers to f64, rounded to odd, so that one more rounding is the only one."""
    low = (values & values.dtype.type(0xFFFFFFFF)).astype(np.float64)
    high = (values >> values.dtype.type(32)).astype(np.float64) * 2.0**32
    return np.asarray(add_to_odd(high, low))


def _float_to_float(
    ins: Instruction, b: Builder, out: str, into: str, flags: frozenset[str]
) -> Operation:
    expect_operands(ins, b, 2)
    integral = flags & frozenset(_TO_INTEGRAL)
    source = b.source(ins, ins.operands[1], BITS[into], is_float=True)
    target = b.target(ins, ins.operands[0], BITS[out])
    if not (flags or integral) and out == into:
        return Elementwise(ins, lambda x: x, (source,), (target,))
    load = _float_source(ins, b, into, flags)
    mode = _float_rounding(ins, b, flags)
    if FORMATS[out].precision < FORMATS[into].precision and not flags & _FLOAT_ROUNDINGS:
        if (out, into) != ("bf16", "f16"):
            raise b.unsupported(ins, "narrowing needs a rounding modifier")
        return Elementwise(ins, _exact_bf16_of_f16(ins, b), (source,), (target,))
    steps: list[Callable[[Bits], Bits]] = []
    if integral:
        steps.append(_TO_INTEGRAL[min(integral)])
    if "sat" in flags:
        steps.append(floats.saturate)
    if "relu" in flags:
        steps.append(floats.relu)
    if out == "f64":
        steps.append(lambda values: values.astype(np.float64))
    store = store_rounded(out, mode, satfinite="satfinite" in flags)
    # PTX flushes results of .ftz only where they are f32.
    flush_result = "ftz" in flags and out == "f32"

    def function(x: Bits) -> Bits:
        values = load(x)
        for step in steps:
            values = step(values)
        result = store(values)
        return floats.flush(result, FORMATS[out]) if flush_result else result

    return Elementwise(ins, function, (source,), (target,))


def _exact_bf16_of_f16(ins: Instruction, b: Builder) -> Function:
    """cvt.bf16.f16 names no rounding; Triton converts fp8 by it, which needs none."""

    def function(x: Bits) -> Bits:
        values = floats.load_f16(x)
        result = floats.store_bf16(values)
        if not np.array_equal(floats.load_bf16(result), values, equal_nan=True):
            raise b.unsupported(ins, "an f16 value that bf16 cannot hold, and no rounding mode")
        return result

    return function


def _two_to_packed(ins: Instruction, b: Builder, out: str, flags: frozenset[str]) -> Operation:
    """Two f32 into one register; the first source goes to the upper half."""
    expect_operands(ins, b, 3)
    store = store_rounded(
        out.removesuffix("x2"), _float_rounding(ins, b, flags), satfinite="satfinite" in flags
    )
    clamp = floats.relu if "relu" in flags else None

    def half(x: Bits) -> Bits:
        values = floats.load_f32(x)
        bits: Bits = store(values if clamp is None else clamp(values))
        return bits.astype(np.uint32)

    def function(high: Bits, low: Bits) -> Bits:
        return (half(high) << np.uint32(16)) | half(low)

    sources = b.sources(ins, ins.operands[1:], 32, is_float=True)
    return Elementwise(ins, function, sources, (b.target(ins, ins.operands[0], 32),))


def _fp8(ins: Instruction, b: Builder, out: str, into: str, flags: frozenset[str]) -> Operation:
    """fp8 pairs from two f32 or an f16 pair, and back to an f16 pair."""
    if into in _FP8:
        if out != "f16x2":
            raise b.unsupported(ins, f"conversion from .{into} to .{out}")
        return _fp8_to_f16(ins, b, _FP8[into], "relu" in flags)
    if "satfinite" not in flags or into not in ("f32", "f16x2"):
        raise b.unsupported(ins, f"conversion from .{into} to .{out} without .satfinite")
    fmt = _FP8[out]
    clamp = floats.relu if "relu" in flags else None

    def byte(values: Bits) -> Bits:
        return saturated_fp8(values if clamp is None else clamp(values), fmt).astype(np.uint16)

    def from_f32(high: Bits, low: Bits) -> Bits:
        return (byte(floats.load_f32(high)) << np.uint16(8)) | byte(floats.load_f32(low))

    def from_f16(x: Bits) -> Bits:
        both = byte(floats.load_f16(floats.split_halves(x)))
        return both[..., 0] | (both[..., 1] << np.uint16(8))

    function: Function = from_f32 if into == "f32" else from_f16
    expect_operands(ins, b, 3 if into == "f32" else 2)
    sources = b.sources(ins, ins.operands[1:], 32, is_float=into == "f32")
    return Elementwise(ins, function, sources, (b.target(ins, ins.operands[0], 16),))


def saturated_fp8(values: Bits, fmt: Format) -> Bits:
    """f32 values to fp8 patterns, nearest even, finite results clamped; NaN is 0x7f."""
    clamped = np.clip(values, -fmt.largest, fmt.largest)
    rounded = np.asarray(round_to(clamped, fmt))
    encoded = patterns.encode(np.where(np.isnan(rounded), np.float32(0), rounded), fmt)
    return np.where(np.isnan(values), np.uint8(0x7F), encoded)


def _fp8_to_f16(ins: Instruction, b: Builder, fmt: Format, relu: bool) -> Operation:
    def function(x: Bits) -> Bits:
        values = patterns.decode(np.ascontiguousarray(x)[..., None].view(np.uint8), fmt)
        return floats.join_halves(floats.store_f16(floats.relu(values) if relu else values))

    source = b.source(ins, ins.operands[1], 16)
    return Elementwise(ins, function, (source,), (b.target(ins, ins.operands[0], 32),))


def _to_tf32(ins: Instruction, b: Builder, flags: frozenset[str]) -> Operation:
    """f32 to tf32, kept in 32 bits with the low 13 zero."""
    expect_operands(ins, b, 2)
    mode = _float_rounding(ins, b, flags)
    if not flags & _FLOAT_ROUNDINGS:
        raise b.unsupported(ins, "it needs a rounding modifier")

    def function(x: Bits) -> Bits:
        values = floats.load_f32(x)
        if "relu" in flags:
            values = floats.relu(values)
        rounded = np.asarray(round_to(values, tf32, mode))
        if "satfinite" in flags:
            rounded = np.clip(rounded, -tf32.largest, tf32.largest)
        return floats.store_f32(rounded.astype(np.float32))

    source = b.source(ins, ins.operands[1], 32, is_float=True)
    return Elementwise(ins, function, (source,), (b.target(ins, ins.operands[0], 32),))


TABLE: Mapping[str, Decoder] = {"cvt": _cvt}

