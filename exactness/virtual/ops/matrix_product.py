"""The arithmetic of a matrix instruction on bit patterns.

The bits come from `exactness.hopper.tensor_core`; this module only decodes and encodes. A tf32
operand is an f32 register whose low 13 bits the tensor core does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from exactness import bits
from exactness.formats import INTEGERS, Format, Integer, bf16, e4m3fn, e5m2, f16, f32, tf32
from exactness.hopper import tensor_core
from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.state import Bits

AnyFormat = Format | Integer

TYPES: Mapping[str, AnyFormat] = {
    "bf16": bf16,
    "f16": f16,
    "f32": f32,
    "tf32": tf32,
    "e4m3": e4m3fn,
    "e5m2": e5m2,
    "s8": INTEGERS["i8"],
    "u8": INTEGERS["u8"],
    "s32": INTEGERS["i32"],
}
"""The element types of matrix instructions that have a bit model."""

Multiply = Callable[[Bits, Bits, Bits | None], Bits]
"""a [B, M, K], b [B, K, N] and an accumulator [B, M, N] (None: zero), patterns; gives patterns."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The types of a matrix instruction."""

    result: AnyFormat
    a: AnyFormat
    b: AnyFormat

    @property
    def element(self) -> Any:
        """Storage type of the operands' elements."""
        return np.dtype(f"u{self.a.bits // 8}")


def operands_of(ins: Instruction, b: Builder, names: tuple[str, ...]) -> Operands:
    """The types that an instruction names: result, a, b.

    Raises:
        UnsupportedInstructionError: one of them has no bit model.
    """
    unknown = [name for name in names if name not in TYPES]
    if unknown or len(names) != 3:
        raise b.unsupported(ins, f"matrix types {', '.join(f'.{name}' for name in names)}")
    result, left, right = (TYPES[name] for name in names)
    if left.bits != right.bits:
        raise b.unsupported(ins, "operands of two widths")
    return Operands(result, left, right)


def multiplier(
    ins: Instruction,
    b: Builder,
    types: Operands,
    depth: int,
    *,
    saturate: bool = False,
    signs: tuple[int, int] = (1, 1),
    converted: bool = False,
) -> Multiply:
    """The function that computes one instruction.

    Args:
        ins: for error messages.
        b: likewise.
        types: of its operands.
        depth: its K.
        saturate: clamp an integer sum.
        signs: 1 or −1 for each operand.
        converted: fp8 operands become f16 first, as `mma.sync` does on sm_90.

    Raises:
        UnsupportedInstructionError: Hopper has no such product.
    """
    if isinstance(types.a, Integer) or isinstance(types.b, Integer):
        if types.result is not INTEGERS["i32"] or signs != (1, 1):
            raise b.unsupported(ins, "another integer product than 8 bits into s32")
        return _integer(types, saturate)
    if isinstance(types.result, Integer) or saturate:
        raise b.unsupported(ins, "a floating-point product into integers, or saturated")
    try:
        kind = tensor_core.kind_of(types.a, types.b, types.result)
    except TypeError as error:
        raise b.unsupported(ins, str(error)) from None
    if converted and types.a.bits == 8:
        return _converted(kind)
    if depth > kind.step:
        raise b.unsupported(ins, f"K = {depth}; one instruction fuses at most {kind.step}")
    return _floating(replace(kind, step=depth), signs)


def _integer(types: Operands, saturate: bool) -> Multiply:
    def multiply(a: Bits, b: Bits, acc: Bits | None) -> Bits:
        start = None if acc is None else acc.view(np.int32)
        left, right = bits.decode(a, types.a), bits.decode(b, types.b)
        product = tensor_core.integer_matmul(left, right, start, saturate=saturate)
        return np.asarray(product).view(np.uint32)

    return multiply


def _floating(kind: tensor_core.Kind, signs: tuple[int, int]) -> Multiply:
    def multiply(a: Bits, b: Bits, acc: Bits | None) -> Bits:
        # The model's compiler is loaded by the first product, not by every import.
        from exactness.hopper import tensor_core_cpu

        left, right = _values(a, kind.a, signs[0]), _values(b, kind.b, signs[1])
        out = _start(a, b, acc, kind.accumulator)
        tensor_core_cpu.chain(left, right, out, kind)
        return _patterns(out, kind.accumulator)

    return multiply


def _converted(kind: tensor_core.Kind) -> Multiply:
    def multiply(a: Bits, b: Bits, acc: Bits | None) -> Bits:
        left, right = _values(a, kind.a, 1), _values(b, kind.b, 1)
        start = _start(a, b, acc, kind.accumulator)
        return _patterns(
            np.asarray(tensor_core.fp8_mma_sync(left, right, start, kind=kind)), kind.accumulator
        )

    return multiply


def _values(patterns: Bits, fmt: Format, sign: int) -> Bits:
    if fmt is tf32:
        patterns = patterns & np.uint32(~((1 << tf32.padding) - 1) & 0xFFFFFFFF)
    values = bits.decode(patterns, fmt)
    return values if sign == 1 else -values


def _start(a: Bits, b: Bits, acc: Bits | None, fmt: Format) -> Bits:
    """A fresh array of the accumulator's values."""
    if acc is None:
        return np.zeros((*a.shape[:2], b.shape[2]), np.float32)
    return np.array(bits.decode(acc, fmt), np.float32, order="C")


def _patterns(values: Bits, fmt: Format) -> Bits:
    if fmt is f16:
        half = values.astype(np.float16).view(np.uint16)
        return np.where(np.isnan(values), np.uint16(0x7FFF), half)
    return np.asarray(values, np.float32).view(np.uint32)
