"""tensormap.replace and tensormap.cp_fenceproxy: a kernel builds a tensor map in shared memory.

Source: PTX ISA 9.0, sections 9.7.9.28 and 9.7.13.16.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.lanes import active
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.common import Decoder
from exactness.virtual.ops.spaces import LOADS, STORES, effective
from exactness.virtual.state import Bits, State
from exactness.virtual.tensor_maps import LAYOUT, MAP_BYTES

_PLACES = {} if LAYOUT.fields is None else dict(LAYOUT.fields)
_FIELDS = frozenset(name for name in _PLACES if name != "reserved")
_PIECE = 16


def _tensormap(ins: Instruction, b: Builder) -> Operation:
    if ins.modifiers[:1] == ("replace",):
        return _replace(ins, b)
    if ins.modifiers[:1] == ("cp_fenceproxy",):
        return _copy(ins, b)
    raise b.unsupported(ins, f"modifiers {'.'.join(ins.modifiers)}")


def _replace(ins: Instruction, b: Builder) -> Operation:
    """tensormap.replace.tile.field.space.b1024.type [addr], {ordinal,} value."""
    words = ins.modifiers
    if len(words) != 6 or words[1] != "tile" or words[2] not in _FIELDS or words[4] != "b1024":
        raise b.unsupported(ins, "another form than .tile.field.space.b1024.type")
    bits = int(words[5][1:])
    kind, place = _PLACES[words[2]][:2]
    ordinal = 0
    if len(ins.operands) == 3:
        ordinal = int(b.literals[b.source(ins, ins.operands[1], 32)].item())
    if ordinal >= max(np.prod(kind.shape, dtype=int), 1) or kind.base.itemsize * 8 != bits:
        raise b.unsupported(ins, f"ordinal {ordinal} of {bits} bits")
    register, offset = b.address(ins, ins.operands[0])
    value = b.source(ins, ins.operands[-1], bits)
    store = STORES["shared" if words[3].startswith("shared") else "global"]
    offset += place + ordinal * bits // 8

    def run(state: State) -> None:
        state.require_defined((value,), "a field of a tensor map")
        given = active(state.full(state.value(value)), state.mask, state)
        if given.size:
            store(state, effective(state, register, offset), given, None, bits // 8)

    return Effect(ins, run, (register, value))


def _copy(ins: Instruction, b: Builder) -> Operation:
    """tensormap.cp_fenceproxy: the first lane of each warp copies the map to global memory."""
    words = frozenset(ins.modifiers)
    if not {"global", "sync", "aligned"} <= words or not words & {"shared", "shared::cta"}:
        raise b.unsupported(ins, "another form than from shared to global memory by whole warps")
    target, source = b.address(ins, ins.operands[0]), b.address(ins, ins.operands[1])
    if int(b.literals[b.source(ins, ins.operands[2], 32)].item()) != MAP_BYTES:
        raise b.unsupported(ins, "another size than 128")

    def run(state: State) -> None:
        before = state.mask
        state.mask = first_lanes(state)
        for step in range(0, MAP_BYTES, _PIECE):
            words, poison = LOADS["shared"](
                state, effective(state, source[0], source[1] + step), _PIECE, False
            )
            part = active(words, state.mask, state)
            bad = None if poison is None else active(poison, state.mask, state)
            where = effective(state, target[0], target[1] + step)
            if part.size:
                STORES["global"](state, where, part, bad, _PIECE)
        state.mask = before

    return Effect(ins, run, (target[0], source[0]))


def first_lanes(state: State) -> Bits:
    """Lane 0 of each warp that runs."""
    first = np.arange(state.threads)[None, :] % 32 == 0
    return state.full(first if state.mask is None else first & state.mask)


def read_maps(state: State, addresses: Bits) -> Bits:
    """The maps at generic addresses of the running lanes, decoded: [lanes]."""
    parts = []
    for step in range(0, MAP_BYTES, _PIECE):
        words, _ = LOADS["global"](state, addresses + np.uint64(step), _PIECE, True)
        parts.append(active(state.full(words), state.mask, state))
    flat = np.ascontiguousarray(np.stack(parts, axis=-1).reshape(-1, MAP_BYTES // _PIECE))
    return flat.view(np.uint8).reshape(-1, MAP_BYTES).view(LAYOUT)[:, 0]


TABLE: Mapping[str, Decoder] = {"tensormap": _tensormap}
