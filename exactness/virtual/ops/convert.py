"""cvt between integers and floats, one rounding each; narrow and packed floats are elsewhere.

Source: PTX ISA 9.0, section 9.7.9.21 (cvt). Float to integer saturates; NaN gives 0, or the
smallest signed value of the width where source or destination has 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from exactness.rounding import Rounding, add_to_odd
from exactness.virtual import floats, poison
from exactness.virtual.builder import Builder
from exactness.virtual.floats import FORMATS, LOAD
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import UNSIGNED, Elementwise, Function, Operation
from exactness.virtual.ops.common import (
    BITS,
    INTEGER_TYPES,
    Decoder,
    expect_operands,
    flags_of,
    types_of,
)
from exactness.virtual.ops.narrow import (
    FLOAT_ROUNDINGS,
    FP8,
    float_rounding,
    fp8,
    store_rounded,
    to_tf32,
    two_to_packed,
)
from exactness.virtual.ops.twos_complement import signed
from exactness.virtual.state import Bits

_TO_INTEGRAL: Mapping[str, Any] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_FLAGS = FLOAT_ROUNDINGS | frozenset(_TO_INTEGRAL) | {"ftz", "sat", "satfinite", "relu"}
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
        return two_to_packed(ins, b, out, flags)
    if out in FP8 or into in FP8:
        return fp8(ins, b, out, into, flags)
    if (out, into) == ("tf32", "f32"):
        return to_tf32(ins, b, flags)
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


def _integer_to_float(
    ins: Instruction, b: Builder, out: str, into: str, flags: frozenset[str]
) -> Operation:
    expect_operands(ins, b, 2)
    mode = float_rounding(ins, b, flags)
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
    if not flags and (out, into) == ("f32", "bf16"):
        # A shift: the payload of a NaN survives.
        widen = lambda x: x.astype(np.uint32) << np.uint32(16)  # noqa: E731
        return Elementwise(ins, widen, (source,), (target,))
    load = _float_source(ins, b, into, flags)
    mode = float_rounding(ins, b, flags)
    if FORMATS[out].precision < FORMATS[into].precision and not flags & FLOAT_ROUNDINGS:
        # ptxas takes cvt.bf16.f16, which Triton writes for fp8, as cvt.rn.bf16.f16.
        if (out, into) != ("bf16", "f16"):
            raise b.unsupported(ins, "narrowing needs a rounding modifier")
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


TABLE: Mapping[str, Decoder] = {"cvt": _cvt}
