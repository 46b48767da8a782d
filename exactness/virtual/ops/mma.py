"""mma.sync: the product of matrices that lie in the registers of one warp.

Source: PTX ISA 9.0, section 9.7.14.5.14.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops import fragments
from exactness.virtual.ops.common import Decoder
from exactness.virtual.ops.matrix_product import multiplier, operands_of
from exactness.virtual.state import State

_SHAPE = re.compile(r"m16n8k(\d+)")
_ROW, _COLUMN = 32, 8
"""Bytes of a row of A at full depth; columns of B."""


def _mma(ins: Instruction, b: Builder) -> Operation:
    """mma.sync.aligned.m16n8kK.row.col{.satfinite}.d.a.b.c d, a, b, c."""
    words = list(ins.modifiers)
    saturate = "satfinite" in words
    if saturate:
        words.remove("satfinite")
    shape = _SHAPE.fullmatch(words[2]) if len(words) == 9 else None
    if shape is None or words[:2] != ["sync", "aligned"] or words[3:5] != ["row", "col"]:
        raise b.unsupported(ins, "another form than mma.sync.aligned.m16n8kK.row.col")
    if words[5] != words[8]:
        raise b.unsupported(ins, "a result of another type than the accumulator")
    depth, types = int(shape[1]), operands_of(ins, b, tuple(words[5:8]))
    row = depth * types.a.bits // 8
    if row not in (_ROW // 2, _ROW):
        raise b.unsupported(ins, f"shape .{words[2]} for {types.a.name}")
    multiply = multiplier(ins, b, types, depth, saturate=saturate, converted=True)
    counts = (types.result.bits // 8, row // 8, row // 16, types.result.bits // 8)
    registers = [b.elements(operand) for operand in ins.operands]
    if tuple(map(len, registers)) != counts:
        raise b.unsupported(ins, f"{tuple(map(len, registers))} registers, not {counts}")
    targets = tuple(b.target(ins, element, 32) for element in registers[0])
    left, right, start = (b.sources(ins, elements, 32) for elements in registers[1:])

    def run(state: State) -> None:
        units = fragments.units_running(state, 1, "mma.sync")
        if not units.any():
            return
        state.require_defined((*left, *right, *start), "a matrix operand")
        bits = types.result.bits
        product = multiply(
            fragments.left(fragments.read(state, left, units, 1), types.element),
            fragments.right(fragments.read(state, right, units, 1), types.element),
            fragments.accumulator(fragments.read(state, start, units, 1), bits),
        )
        words = fragments.accumulator_words(product, len(targets), 1)
        fragments.write(state, targets, words, units)

    return Effect(ins, run, (*left, *right, *start), targets)


TABLE: Mapping[str, Decoder] = {"mma": _mma}
