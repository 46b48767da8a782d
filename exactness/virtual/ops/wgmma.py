"""wgmma: the product of matrices in registers and shared memory, by a warpgroup of four warps.

The product is computed at once, while the hardware computes it until it is waited for: until then
the shared memory that it reads must not be overwritten (`exactness.virtual.wgmma_groups`).

Source: PTX ISA 9.0, section 9.7.15.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from exactness.formats import Integer
from exactness.virtual import wgmma_groups
from exactness.virtual.builder import Builder
from exactness.virtual.errors import BarrierDivergenceError
from exactness.virtual.instructions import Instruction, Operand, Vector
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops import fragments
from exactness.virtual.ops.common import Decoder
from exactness.virtual.ops.matrix_descriptor import PIECE, Descriptors
from exactness.virtual.ops.matrix_product import Multiply, Operands, multiplier, operands_of
from exactness.virtual.shared import SHARED_BASE
from exactness.virtual.shared_tiles import tile_places
from exactness.virtual.state import WARP, Bits, State

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_WARPS = 4
_ROWS = 64
_PIECES = 2
"""Pieces of 16 bytes along K of every shape."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A decoded `wgmma.mma_async`.

    Attributes:
        columns: its N.
        types: of its operands.
        registers: of A, empty if it is in shared memory.
        descriptors: register numbers of the descriptors of A and B; −1 where there is none.
        transposed: whether A and B lie transposed in shared memory.
        accumulator: registers of D.
        keep: the predicate that decides whether D is added, and whether it is negated.
        multiply: the arithmetic.
    """

    columns: int
    types: Operands
    registers: tuple[int, ...]
    descriptors: tuple[int, int]
    transposed: tuple[bool, bool]
    accumulator: tuple[int, ...]
    keep: tuple[int, bool]
    multiply: Multiply


def _wgmma(ins: Instruction, b: Builder) -> Operation:
    words = ins.modifiers
    if words[:1] == ("mma_async",):
        return _mma_async(ins, b)
    if words == ("fence", "sync", "aligned"):
        return _whole(ins, lambda state, units: None)
    if words == ("commit_group", "sync", "aligned"):
        return _whole(ins, wgmma_groups.commit)
    if words == ("wait_group", "sync", "aligned"):
        left = int(b.literals[b.source(ins, ins.operands[0], 32)].item())
        return _whole(ins, lambda state, units: wgmma_groups.wait(state, units, left))
    raise b.unsupported(ins, f"modifiers {'.'.join(words)}")


def _whole(ins: Instruction, act: Callable[[State, Bits], None]) -> Operation:
    """An instruction that whole warps execute; acts on (blocks, warps)."""

    def run(state: State) -> None:
        units = fragments.units_running(state, 1, ins.name)
        if units.any():
            act(state, units)

    return Effect(ins, run)


def _mma_async(ins: Instruction, b: Builder) -> Operation:
    form = _form(ins, b)
    sources = [*form.registers, *(d for d in form.descriptors if d >= 0), form.keep[0]]

    def run(state: State) -> None:
        units = fragments.units_running(state, _WARPS, "wgmma")
        if units.any():
            _execute(state, form, units)

    return Effect(ins, run, (*sources, *form.accumulator), form.accumulator)


def _form(ins: Instruction, b: Builder) -> _Form:
    words = list(ins.modifiers)
    saturate = "satfinite" in words
    if saturate:
        words.remove("satfinite")
    shape = _SHAPE.fullmatch(words[3]) if len(words) == 7 else None
    if shape is None or words[1:3] != ["sync", "aligned"] or len(ins.operands) < 4:
        raise b.unsupported(ins, "another form than wgmma.mma_async.sync.aligned.m64nNkK")
    columns, depth = int(shape[1]), int(shape[2])
    types = operands_of(ins, b, tuple(words[4:7]))
    if columns % 8 or not 8 <= columns <= 256 or depth * types.a.bits != 256:
        raise b.unsupported(ins, f"shape .{words[3]} for {types.a.name}")
    first, second, third, keep, *rest = ins.operands
    numbers = [_immediate(ins, b, operand) for operand in rest]
    in_registers = isinstance(second, Vector)
    signs, transposed = _options(ins, b, types, numbers, in_registers)
    multiply = multiplier(ins, b, types, depth, saturate=saturate, signs=signs)
    accumulator = tuple(b.target(ins, element, 32) for element in b.elements(first))
    left = b.sources(ins, b.elements(second), 32) if in_registers else ()
    if len(accumulator) != columns * types.result.bits // 64 or len(left) not in (0, 4):
        raise b.unsupported(ins, f"{len(accumulator)} and {len(left)} registers")
    descriptors = (-1 if left else b.source(ins, second, 64), b.source(ins, third, 64))
    return _Form(
        columns, types, left, descriptors, transposed, accumulator, b.predicate(ins, keep), multiply
    )


def _immediate(ins: Instruction, b: Builder, operand: Operand) -> int:
    value = int(b.literals[b.source(ins, operand, 32)].item())
    return value - (1 << 32) if value >> 31 else value


def _options(
    ins: Instruction, b: Builder, types: Operands, numbers: list[int], in_registers: bool
) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """Signs and transpositions of A and B from the operands after scale-d."""
    if isinstance(types.a, Integer):
        signs, flags = (1, 1), numbers
    else:
        signs, flags = (numbers[0], numbers[1]), numbers[2:]
    expected = (2 - in_registers) * (types.a.bits == 16)
    if len(flags) != expected or not {*signs} <= {1, -1} or not {*flags} <= {0, 1}:
        raise b.unsupported(ins, f"immediate operands {numbers}")
    both = (False, False)
    if flags:
        both = (not in_registers and bool(flags[0]), bool(flags[-1]))
    return signs, both


def _execute(state: State, form: _Form, units: Bits) -> None:
    """One product for every warpgroup that runs."""
    keep = _uniform(state, form.keep[0], units) != form.keep[1]
    reads: dict[int, list[Bits]] = {}
    if form.registers:
        state.require_defined(form.registers, "a matrix operand")
        words = fragments.read(state, form.registers, units, _WARPS)
        a = fragments.left(words, form.types.element)
    else:
        a = _from_shared(state, form, units, 0, reads)
    b = _from_shared(state, form, units, 1, reads)
    start = None
    if keep.any():
        state.require_defined(form.accumulator, "a matrix accumulator")
        words = fragments.read(state, form.accumulator, units, _WARPS)
        start = fragments.accumulator(words, form.types.result.bits)
        if not keep.all():
            start = np.where(keep[:, None, None], start, start.dtype.type(0))
    product = form.multiply(a, b, start)
    words = fragments.accumulator_words(product, len(form.accumulator), _WARPS)
    fragments.write(state, form.accumulator, words, units)
    granules = {unit: np.concatenate(parts) for unit, parts in reads.items()}
    wgmma_groups.issue(state, units, granules)


def _uniform(state: State, register: int, units: Bits) -> Bits:
    """The value of an operand that is the same in all lanes of a warpgroup: [units that run]."""
    state.require_defined((register,), "a matrix operand")
    values = state.full(state.value(register)).reshape(*units.shape, _WARPS * WARP)
    differs = (values != values[:, :, :1]) & units[:, :, None]
    if differs.any():
        what = "an operand of wgmma that differs within a warpgroup"
        state.fail(BarrierDivergenceError, what, differs.reshape(state.shape))
    return values[:, :, 0][units]


def _from_shared(
    state: State, form: _Form, units: Bits, side: int, reads: dict[int, list[Bits]]
) -> Bits:
    """A as [units, 64, K] or B as [units, K, N], from shared memory; notes what was read."""
    lines = form.columns if side else _ROWS
    transposed = form.transposed[side]
    found = Descriptors.decode(_uniform(state, form.descriptors[side], units))
    addresses = found.addresses(lines, _PIECES, transposed=transposed)
    places = tile_places(state, addresses, units, PIECE, SHARED_BASE)
    pieces, granules = state.shared.tiles.load(state, places, units, PIECE)
    number = np.nonzero(units)[1]
    for unit in np.unique(number):
        reads.setdefault(int(unit), []).append(granules[number == unit].ravel())
    elements = pieces.view(form.types.element).reshape(*addresses.shape[:2], -1)
    return elements.swapaxes(1, 2) if transposed != bool(side) else elements


TABLE: Mapping[str, Decoder] = {"wgmma": _wgmma}
