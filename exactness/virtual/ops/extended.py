"""Extended-precision arithmetic through the carry flag: add.cc to madc.

Source: PTX ISA 9.0, section 9.7.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.common import BITS, Decoder, flags_of, single_type
from exactness.virtual.ops.twos_complement import is_signed_type, product_high
from exactness.virtual.state import Bits, State


def with_carry(ins: Instruction, b: Builder, ufunc: Any, *, reads: bool, writes: bool) -> Operation:
    """32-bit and 64-bit add and sub through the carry flag."""
    name = single_type(ins, b, {"u32", "s32", "b32", "u64", "s64"})
    sources = b.sources(ins, ins.operands[1:], BITS[name])
    target = b.target(ins, ins.operands[0], BITS[name])
    subtract = ufunc is np.subtract

    def run(state: State) -> None:
        state.require_defined(sources, "an operand of extended-precision arithmetic")
        x, y = (state.value(index) for index in sources)
        result = ufunc(x, y)
        carry = x < y if subtract else result < x
        if reads:
            before = _carry(state).astype(result.dtype)
            total = ufunc(result, before)
            wrapped = result < before if subtract else total < result
            result = total
            carry = carry | wrapped
        state.write(target, result)
        if writes:
            _set_carry(state, carry)

    return Effect(ins, run, sources, (target,))


def _carry(state: State) -> Bits:
    return np.zeros((1, 1), np.bool_) if state.carry is None else state.carry


def _set_carry(state: State, carry: Bits) -> None:
    if state.mask is not None:
        carry = np.where(state.mask, carry, _carry(state))
    state.carry = carry


def _addc(ins: Instruction, b: Builder) -> Operation:
    return with_carry(ins, b, np.add, reads=True, writes="cc" in flags_of(ins, b, {"cc"}))


def _subc(ins: Instruction, b: Builder) -> Operation:
    return with_carry(ins, b, np.subtract, reads=True, writes="cc" in flags_of(ins, b, {"cc"}))


def mad_carry(
    ins: Instruction, b: Builder, name: str, high: bool, *, reads: bool, writes: bool
) -> Operation:
    """mad.{lo,hi}.cc and madc: half a product plus an addend, through the carry flag."""
    sources = b.sources(ins, ins.operands[1:], BITS[name])
    target = b.target(ins, ins.operands[0], BITS[name])
    is_signed = is_signed_type(name)

    def run(state: State) -> None:
        state.require_defined(sources, "an operand of extended-precision arithmetic")
        x, y, z = (state.value(index) for index in sources)
        product = product_high(x, y, is_signed) if high else x * y
        result = product + z
        carry = result < z
        if reads:
            total = result + _carry(state).astype(result.dtype)
            carry = carry | (total < result)
            result = total
        state.write(target, result)
        if writes:
            _set_carry(state, carry)

    return Effect(ins, run, sources, (target,))


def _madc(ins: Instruction, b: Builder) -> Operation:
    flags = flags_of(ins, b, {"lo", "hi", "cc"})
    name = single_type(ins, b, {"u32", "s32", "u64", "s64"})
    return mad_carry(ins, b, name, "hi" in flags, reads=True, writes="cc" in flags)


TABLE: Mapping[str, Decoder] = {"addc": _addc, "subc": _subc, "madc": _madc}
