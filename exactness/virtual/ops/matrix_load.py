"""ldmatrix and stmatrix: 8x8 tiles of 16-bit elements between shared memory and a warp.

They move bits only; Triton uses them to transpose and to change layouts in kernels without any
matrix product.

Source: PTX ISA 9.0, sections 9.7.14.5.15 and 9.7.14.5.16.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.errors import BarrierDivergenceError
from exactness.virtual.instructions import Instruction
from exactness.virtual.lanes import WORDS
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.common import Decoder, flags_of, single_type
from exactness.virtual.ops.spaces import effective
from exactness.virtual.ops.warp import running
from exactness.virtual.state import WARP, Bits, State

_FLAGS = frozenset(["sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"])
_ROW_BYTES = 16


def _tiles(ins: Instruction, b: Builder) -> tuple[int, bool]:
    """How many tiles, and whether they are transposed."""
    flags = flags_of(ins, b, _FLAGS)
    single_type(ins, b, {"b16"})
    if "m8n8" not in flags or not flags & {"shared", "shared::cta"}:
        raise b.unsupported(ins, "another shape than .m8n8 of .shared")
    return next(int(word[1]) for word in flags if word in ("x1", "x2", "x4")), "trans" in flags


def _row_addresses(state: State, register: int, offset: int, tiles: int) -> tuple[Bits, Bits]:
    """Addresses that lanes 0 … 8·tiles − 1 give, and which lanes those are.

    Raises:
        BarrierDivergenceError: part of a warp is elsewhere.
    """
    here = running(state)
    partial = here.any(axis=2, keepdims=True) & ~here
    if partial.any():
        bad = partial.reshape(state.shape)
        state.fail(BarrierDivergenceError, "a matrix load or store by part of a warp", bad)
    gives = np.zeros((1, 1, WARP), np.bool_)
    gives[..., : 8 * tiles] = True
    mask = (here & gives).reshape(state.shape)
    before, state.mask = state.mask, mask
    addresses = effective(state, register, offset)
    state.mask = before
    return addresses, mask


def _element_positions(tiles: int, transposed: bool) -> Bits:
    """For every lane, tile and half: the 16-bit element of the rows' (8·tiles, 8) array."""
    lane = np.arange(WARP)[:, None, None]
    tile = np.arange(tiles)[None, :, None]
    half = np.arange(2)[None, None, :]
    row, column = lane // 4, 2 * (lane % 4) + half
    if transposed:
        row, column = column, row
    return (8 * tile + row) * 8 + column


def _ldmatrix(ins: Instruction, b: Builder) -> Operation:
    tiles, transposed = _tiles(ins, b)
    elements = b.elements(ins.operands[0])
    if len(elements) != tiles:
        raise b.unsupported(ins, f"{len(elements)} destinations for {tiles} tiles")
    targets = tuple(b.target(ins, element, 32) for element in elements)
    register, offset = b.address(ins, ins.operands[1])
    positions = _element_positions(tiles, transposed)

    def run(state: State) -> None:
        addresses, mask = _row_addresses(state, register, offset, tiles)
        flat = state.shared.places(state, addresses, mask, _ROW_BYTES)
        if flat.size == 0:
            return
        rows, poison = state.shared.load(state, flat, mask, _ROW_BYTES)
        halves = rows.view(np.uint16).reshape(-1, 8 * tiles * 8)
        words = np.ascontiguousarray(halves[:, positions]).view(np.uint32)[..., 0]
        undefined = None
        if poison is not None:
            undefined = _element_poison(poison, tiles)[:, positions]
            undefined = undefined[..., 0] | undefined[..., 1] << np.uint8(2)
        for tile, target in enumerate(targets):
            bad = None if undefined is None else _to_lanes(state, undefined[:, :, tile])
            state.write(target, _to_lanes(state, words[:, :, tile]), bad)

    return Effect(ins, run, (register,), targets)


def _element_poison(rows: Bits, tiles: int) -> Bits:
    """Undefined bytes of each 16-bit element, from those of 16-byte rows."""
    places = np.uint16(2) * np.arange(8, dtype=np.uint16)
    elements = (rows[..., None] >> places) & np.uint16(3)
    return elements.astype(np.uint8).reshape(-1, 8 * tiles * 8)


def _to_lanes(state: State, per_warp: Bits) -> Bits:
    """(warps that run, 32) to (blocks, threads); other lanes hold zero."""
    here = running(state).any(axis=2)
    whole = np.zeros((*here.shape, WARP), per_warp.dtype)
    whole[here] = per_warp
    return whole.reshape(state.shape)


def _stmatrix(ins: Instruction, b: Builder) -> Operation:
    tiles, transposed = _tiles(ins, b)
    elements = b.elements(ins.operands[1])
    if len(elements) != tiles:
        raise b.unsupported(ins, f"{len(elements)} sources for {tiles} tiles")
    sources = tuple(b.source(ins, element, 32) for element in elements)
    register, offset = b.address(ins, ins.operands[0])
    positions = _element_positions(tiles, transposed)

    def run(state: State) -> None:
        addresses, mask = _row_addresses(state, register, offset, tiles)
        flat = state.shared.places(state, addresses, mask, _ROW_BYTES)
        if flat.size == 0:
            return
        here = running(state).any(axis=2)
        warps = int(np.count_nonzero(here))
        halves = np.zeros((warps, 8 * tiles * 8), np.uint16)
        poison = np.zeros((warps, 8 * tiles * 8), np.uint16)
        for tile, source in enumerate(sources):
            value = state.full(state.value(source)).reshape(state.blocks, -1, WARP)[here]
            pairs = np.ascontiguousarray(value)[..., None].view(np.uint16)
            halves[:, positions[:, tile, :]] = pairs
            if source in state.poison:
                bad = state.full(state.poison[source]).reshape(state.blocks, -1, WARP)[here]
                both = np.stack([bad & np.uint8(3), (bad >> np.uint8(2)) & np.uint8(3)], axis=-1)
                poison[:, positions[:, tile, :]] = both
        words = halves.reshape(-1, 8).view(WORDS[_ROW_BYTES])[:, 0]
        bad_rows = None
        if poison.any():
            places = np.uint16(2) * np.arange(8, dtype=np.uint16)
            bad_rows = (poison.reshape(-1, 8) << places).sum(axis=-1, dtype=np.uint16)
        state.shared.store(state, flat, words, bad_rows, mask, _ROW_BYTES)

    return Effect(ins, run, (register, *sources))


TABLE: Mapping[str, Decoder] = {"ldmatrix": _ldmatrix, "stmatrix": _stmatrix}
