"""cvt to narrow and packed floats: f16 and bf16 pairs, fp8, tf32.

Source: PTX ISA 9.0, section 9.7.9.21 (cvt). fp8 results saturate to the largest finite number, and
NaN is 0x7f.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness import bits as patterns
from exactness.formats import Format, e4m3fn, e5m2, tf32
from exactness.rounding import Rounding, round_to
from exactness.virtual import floats, poison
from exactness.virtual.builder import Builder
from exactness.virtual.floats import FORMATS, STORE
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Elementwise, Function, Operation
from exactness.virtual.ops.common import expect_operands
from exactness.virtual.state import Bits

FLOAT_ROUNDINGS = frozenset(["rn", "rz", "rm", "rp", "rna"])
FP8: Mapping[str, Format] = {"e4m3x2": e4m3fn, "e5m2x2": e5m2}


def float_rounding(ins: Instruction, b: Builder, flags: frozenset[str]) -> Rounding:
    """The rounding mode that the modifiers name; nearest even if none does."""
    named = flags & FLOAT_ROUNDINGS
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


def two_to_packed(ins: Instruction, b: Builder, out: str, flags: frozenset[str]) -> Operation:
    """Two f32 into one register; the first source goes to the upper half."""
    expect_operands(ins, b, 3)
    store = store_rounded(
        out.removesuffix("x2"), float_rounding(ins, b, flags), satfinite="satfinite" in flags
    )
    clamp = floats.relu if "relu" in flags else None

    def half(x: Bits) -> Bits:
        values = floats.load_f32(x)
        bits: Bits = store(values if clamp is None else clamp(values))
        return bits.astype(np.uint32)

    def function(high: Bits, low: Bits) -> Bits:
        return (half(high) << np.uint32(16)) | half(low)

    sources = b.sources(ins, ins.operands[1:], 32, is_float=True)
    target = b.target(ins, ins.operands[0], 32)
    return Elementwise(ins, function, sources, (target,), poison.packed_pair(2))


def fp8(ins: Instruction, b: Builder, out: str, into: str, flags: frozenset[str]) -> Operation:
    """fp8 pairs from two f32 or an f16 pair, and back to an f16 pair."""
    if into in FP8:
        if out != "f16x2":
            raise b.unsupported(ins, f"conversion from .{into} to .{out}")
        return _fp8_to_f16(ins, b, FP8[into], "relu" in flags)
    if "satfinite" not in flags or into not in ("f32", "f16x2"):
        raise b.unsupported(ins, f"conversion from .{into} to .{out} without .satfinite")
    fmt = FP8[out]
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
    rule = poison.packed_pair(1) if into == "f32" else poison.halves_to_bytes
    return Elementwise(ins, function, sources, (b.target(ins, ins.operands[0], 16),), rule)


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
    target = b.target(ins, ins.operands[0], 32)
    return Elementwise(ins, function, (source,), (target,), poison.bytes_to_halves)


def to_tf32(ins: Instruction, b: Builder, flags: frozenset[str]) -> Operation:
    """f32 to tf32, kept in 32 bits with the low 13 zero."""
    expect_operands(ins, b, 2)
    mode = float_rounding(ins, b, flags)
    if not flags & FLOAT_ROUNDINGS:
        raise b.unsupported(ins, "it needs a rounding modifier")

    function: Function = lambda x: _tf32(x, mode, flags)  # noqa: E731
    if mode is Rounding.NEAREST_AWAY:
        function = lambda x: _tf32_nearest_away(x, "satfinite" in flags)  # noqa: E731
    source = b.source(ins, ins.operands[1], 32, is_float=True)
    return Elementwise(ins, function, (source,), (b.target(ins, ins.operands[0], 32),))


def _tf32(x: Bits, mode: Rounding, flags: frozenset[str]) -> Bits:
    """One conversion instruction."""
    values = floats.load_f32(x)
    if "relu" in flags:
        values = floats.relu(values)
    rounded = np.asarray(round_to(values, tf32, mode))
    if "satfinite" in flags:
        rounded = np.clip(rounded, -tf32.largest, tf32.largest)
    return floats.store_f32(rounded.astype(np.float32))


def _tf32_nearest_away(x: Bits, satfinite: bool) -> Bits:
    """The integer operations that ptxas 13.0 emits for .rna; they show in what becomes of NaN."""
    infinity = np.uint32(0x7F800000)
    finite = floats.magnitude(x) < infinity
    result = np.where(finite, x + np.uint32(0x1000), x) & np.uint32(0xFFFFE000)
    if not satfinite:
        return result
    return np.where(floats.magnitude(result) >= infinity, result - np.uint32(0x2000), result)
