"""Clusters of one block: a shared address of the cluster is that of the block.

Source: PTX ISA 9.0, section 9.7.9.23 (mapa, getctarank).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.errors import OutOfBoundsError
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.common import Decoder, flags_of, single_type
from exactness.virtual.state import State


def _mapa(ins: Instruction, b: Builder) -> Operation:
    """The address of a block's memory in the cluster: rank 0 is the only one."""
    flags_of(ins, b, {"shared::cluster"})
    bits = int(single_type(ins, b, {"u32", "u64"})[1:])
    target, source = b.target(ins, ins.operands[0], bits), b.source(ins, ins.operands[1], bits)
    rank = b.source(ins, ins.operands[2], 32)

    def run(state: State) -> None:
        state.require_defined((source, rank), "an address")
        bad = state.value(rank) != 0
        if state.mask is not None:
            bad = bad & state.mask
        if bad.any():
            what = "an address in a block that the cluster does not have"
            state.fail(OutOfBoundsError, what, bad)
        state.write(target, state.value(source))

    return Effect(ins, run, (source, rank), (target,))


def _getctarank(ins: Instruction, b: Builder) -> Operation:
    flags_of(ins, b, {"shared::cluster"})
    single_type(ins, b, {"u32", "u64"})
    target = b.target(ins, ins.operands[0], 32)
    zero = np.zeros((1, 1), np.uint32)
    return Effect(ins, lambda state: state.write(target, zero), (), (target,))


TABLE: Mapping[str, Decoder] = {"mapa": _mapa, "getctarank": _getctarank}
