"""Decoders by opcode, one module a family of instructions.

`decode` turns an instruction into an operation, or raises by name. Control flow and barriers are
not here: they end a basic block (`exactness.virtual.program`).
"""

from __future__ import annotations

from collections.abc import Mapping

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Operation
from exactness.virtual.ops import (
    async_copy,
    atomic,
    cluster,
    convert,
    extended,
    floating,
    integer,
    logic,
    masks,
    matrix_load,
    mbarrier,
    memory,
    mma,
    move,
    special_function,
    tensor_map,
    warp,
    wgmma,
)
from exactness.virtual.ops.common import FLOAT_TYPES, Decoder, types_of

_OTHERS: Mapping[str, Decoder] = {
    **logic.TABLE,
    **masks.TABLE,
    **extended.TABLE,
    **special_function.TABLE,
    **move.TABLE,
    **convert.TABLE,
    **memory.TABLE,
    **warp.TABLE,
    **atomic.TABLE,
    **async_copy.TABLE,
    **matrix_load.TABLE,
    **mma.TABLE,
    **mbarrier.TABLE,
    **tensor_map.TABLE,
    **cluster.TABLE,
    **wgmma.TABLE,
}


def decode(ins: Instruction, b: Builder) -> Operation:
    """The operation an instruction stands for.

    Raises:
        UnsupportedInstructionError: naming the opcode, modifier or type without a bit model.
    """
    types = types_of(ins)
    is_float = bool(types) and types[-1] in FLOAT_TYPES
    decoder = (floating.TABLE if is_float else integer.TABLE).get(ins.opcode)
    if decoder is None:
        decoder = _OTHERS.get(ins.opcode) or floating.TABLE.get(ins.opcode)
    if ins.opcode in ("bar", "barrier") and "warp" in ins.modifiers:
        decoder = warp.bar_warp
    if decoder is None:
        raise b.unsupported(ins, f"opcode {ins.opcode}")
    return decoder(ins, b)
