"""Instructions that look at other lanes of the warp: shuffles, votes, matches, reductions.

Source: PTX ISA 9.0, sections 9.7.9.6 (shfl.sync) and 9.7.13 (vote, match, activemask, redux,
elect, bar.warp.sync).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.errors import BarrierDivergenceError
from exactness.virtual.instructions import Instruction, Operand, Pair
from exactness.virtual.lanes import WORDS
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.common import Decoder, expect_operands, flags_of, single_type
from exactness.virtual.ops.twos_complement import signed, unsigned
from exactness.virtual.poison import CLEAN, everything
from exactness.virtual.state import WARP, Bits, State

_LANES = np.arange(WARP, dtype=np.int64)
_ALL = 0xFFFFFFFF


def by_warp(array: Bits, state: State) -> Bits:
    """(blocks, threads) to (blocks, warps, 32)."""
    return state.full(array).reshape(state.blocks, -1, WARP)


def running(state: State) -> Bits:
    """Which lanes execute, (blocks, warps, 32)."""
    mask = np.ones((1, 1), np.bool_) if state.mask is None else state.mask
    return by_warp(mask, state)


def to_lanes(per_warp: Bits, state: State) -> Bits:
    """(blocks, warps) to (blocks, threads)."""
    return np.repeat(per_warp, WARP, axis=1)


def members(state: State, mask_register: int, use: str) -> Bits:
    """Lanes that take part, (blocks, warps, 32); all of them must be here.

    Raises:
        BarrierDivergenceError: a live lane named by the member mask is elsewhere.
    """
    state.require_defined((mask_register,), "a member mask")
    named = (by_warp(state.value(mask_register), state) >> _LANES.astype(np.uint32)) & 1 == 1
    here = running(state)
    # A lane that takes part must be named by its own mask.
    outside = here & ~named
    missing = here.any(axis=2, keepdims=True) & named & by_warp(state.live, state) & ~here
    bad = outside | missing
    if bad.any():
        state.fail(
            BarrierDivergenceError,
            f"lanes that the member mask of {use} names do not execute it, or one that it does "
            "not name does",
            bad.reshape(state.shape),
        )
    return named & here


def _targets(ins: Instruction, b: Builder, operand: Operand, bits: int) -> tuple[int, ...]:
    if isinstance(operand, Pair):
        return b.target(ins, operand.first, bits), b.target(ins, operand.second, 1)
    return (b.target(ins, operand, bits),)


def source_lanes(mode: str, distance: Bits, clamp: Bits) -> tuple[Bits, Bits]:
    """The lane each lane reads, and whether it is in range (both broadcast over 32 lanes).

    Args:
        mode: "up", "down", "bfly" or "idx".
        distance: operand b, low 5 bits used.
        clamp: operand c: clamp value in bits 0-4, segment mask in bits 8-12.
    """
    distance, segment = distance & 31, (clamp >> 8) & 31
    most = (_LANES & segment) | (clamp & 31 & ~segment)
    match mode:
        case "up":
            lane = _LANES - distance
            inside = lane >= most
        case "down":
            lane = _LANES + distance
            inside = lane <= most
        case "bfly":
            lane = _LANES ^ distance
            inside = lane <= most
        case _:
            lane = (_LANES & segment) | (distance & ~segment)
            inside = lane <= most
    return np.where(inside, lane, _LANES), inside


def _shfl(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 5)
    flags = flags_of(ins, b, {"sync", "up", "down", "bfly", "idx"})
    single_type(ins, b, {"b32"})
    if "sync" not in flags:
        raise b.unsupported(ins, "the form without .sync")
    mode = next(iter(flags - {"sync"}))
    value, distance, clamp, member = b.sources(ins, ins.operands[1:], 32)
    targets = _targets(ins, b, ins.operands[0], 32)

    numbers = (value, distance, clamp, member)
    permute = None
    if len(targets) == 1 and {distance, clamp, member} <= b.literals.keys():
        permute = _permutation(mode, *(int(b.literals[n].item()) for n in numbers[1:]))

    def run(state: State) -> None:
        if permute is not None and state.mask is None:
            poison = state.poison.get(value)
            moved = None if poison is None else permute(poison)
            return state.write(targets[0], permute(state.value(value)), moved)
        _shuffle(state, mode, numbers, targets)

    def fast(registers: list[Any]) -> None:
        assert permute is not None
        registers[targets[0]] = permute(registers[value])

    return Effect(ins, run, numbers, targets, fast=None if permute is None else fast)


def _shuffle(
    state: State, mode: str, numbers: tuple[int, int, int, int], targets: tuple[int, ...]
) -> None:
    """The general shuffle: any lanes, operands that differ between them."""
    value, distance, clamp, member = numbers
    state.require_defined((distance, clamp), "the lane of a shuffle")
    taking_part = members(state, member, "a shuffle")
    lane, inside = source_lanes(
        mode,
        by_warp(state.value(distance), state).astype(np.int64),
        by_warp(state.value(clamp), state).astype(np.int64),
    )
    lane = np.broadcast_to(lane, taking_part.shape)
    poison = by_warp(state.poison.get(value, CLEAN), state) | everything(~taking_part)
    poison = np.take_along_axis(poison, lane, axis=2)
    found = np.take_along_axis(by_warp(state.value(value), state), lane, axis=2)
    state.write(targets[0], found.reshape(state.shape), poison.reshape(state.shape))
    if len(targets) == 2:
        state.write(targets[1], np.broadcast_to(inside, lane.shape).reshape(state.shape))


def _permutation(
    mode: str, distance: int, clamp: int, member: int
) -> Callable[[Bits], Bits] | None:
    """A shuffle by constants among whole warps, as a function of arrays; None if not whole."""
    if member != _ALL:
        return None
    lanes, _ = source_lanes(mode, np.int64(distance), np.int64(clamp))
    swaps = mode == "bfly" and clamp == WARP - 1 and distance in (1, 2, 4, 8, 16)

    def permute(x: Bits) -> Bits:
        blocks, threads = x.shape
        if threads == 1:
            return x
        if swaps:
            return _swap_runs(x, distance)
        return x.reshape(blocks, -1, WARP)[:, :, lanes].reshape(blocks, threads)

    return permute


def _swap_runs(x: Bits, distance: int) -> Bits:
    """Swap neighbouring runs of `distance` lanes, moving as many bytes at once as will go."""
    if x.itemsize == 4:
        x = np.ascontiguousarray(x)
        if distance == 1:
            pairs, half = x.view(np.uint64), np.uint64(32)
            return ((pairs << half) | (pairs >> half)).view(x.dtype)
        wide = x.view(WORDS[min(4 * distance, 16)])
        run = distance * x.itemsize // wide.itemsize
        swapped = wide.reshape(x.shape[0], -1, 2, run)[:, :, ::-1]
        return np.ascontiguousarray(swapped).view(x.dtype).reshape(x.shape)
    return x.reshape(x.shape[0], -1, 2, distance)[:, :, ::-1].reshape(x.shape)


def _warp_poison(state: State, register: int, taking_part: Bits) -> Bits | None:
    """Warps in which a participating lane is undefined, (blocks, threads)."""
    poison = state.poison.get(register)
    if poison is None:
        return None
    bad = ((by_warp(poison, state) != 0) & taking_part).any(axis=2)
    return to_lanes(everything(bad), state)


def ballot(values: Bits) -> Bits:
    """(blocks, warps, 32) booleans to one word a warp, lane 0 in bit 0."""
    packed = np.packbits(values, axis=2, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint32)[..., 0]


def _vote(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 3)
    flags = flags_of(ins, b, {"sync", "all", "any", "uni", "ballot"})
    if "sync" not in flags:
        raise b.unsupported(ins, "the form without .sync")
    kind = next(iter(flags - {"sync"}))
    predicate, negated = b.predicate(ins, ins.operands[1])
    member = b.source(ins, ins.operands[2], 32)
    target = b.target(ins, ins.operands[0], 32 if kind == "ballot" else 1)

    def run(state: State) -> None:
        taking_part = members(state, member, "a vote")
        values = by_warp(state.value(predicate), state) != negated
        match kind:
            case "ballot":
                result = ballot(values & taking_part)
            case "all":
                result = (values | ~taking_part).all(axis=2)
            case "any":
                result = (values & taking_part).any(axis=2)
            case _:
                result = (values | ~taking_part).all(axis=2) | ~(values & taking_part).any(axis=2)
        poison = _warp_poison(state, predicate, taking_part)
        state.write(target, to_lanes(result, state), poison)

    return Effect(ins, run, (predicate, member), (target,))


_REDUCTIONS: Mapping[str, tuple[Any, int, int]] = {
    # operation: ufunc, neutral element for unsigned, for signed
    "add": (np.add, 0, 0),
    "min": (np.minimum, _ALL, 0x7FFFFFFF),
    "max": (np.maximum, 0, 0x80000000),
    "and": (np.bitwise_and, _ALL, _ALL),
    "or": (np.bitwise_or, 0, 0),
    "xor": (np.bitwise_xor, 0, 0),
}


def _redux(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 3)
    flags = flags_of(ins, b, {"sync"} | frozenset(_REDUCTIONS))
    name = single_type(ins, b, {"u32", "s32", "b32"})
    ufunc, neutral_unsigned, neutral_signed = _REDUCTIONS[min(flags - {"sync"})]
    is_signed = name == "s32"
    neutral = np.uint32(neutral_signed if is_signed else neutral_unsigned)
    value, member = b.sources(ins, ins.operands[1:], 32)
    target = b.target(ins, ins.operands[0], 32)

    def run(state: State) -> None:
        taking_part = members(state, member, "a reduction")
        values = np.where(taking_part, by_warp(state.value(value), state), neutral)
        if is_signed:
            result = unsigned(ufunc.reduce(signed(values), axis=2, dtype=np.int32))
        else:
            result = ufunc.reduce(values, axis=2, dtype=np.uint32)
        state.write(target, to_lanes(result, state), _warp_poison(state, value, taking_part))

    return Effect(ins, run, (value, member), (target,))


def _match(ins: Instruction, b: Builder) -> Operation:
    """Which lanes hold the same value (any), or whether all do (all)."""
    expect_operands(ins, b, 3)
    flags = flags_of(ins, b, {"any", "all", "sync"})
    bits = int(single_type(ins, b, {"b32", "b64"})[1:])
    value, member = b.source(ins, ins.operands[1], bits), b.source(ins, ins.operands[2], 32)
    targets = _targets(ins, b, ins.operands[0], 32)
    every = "all" in flags

    def run(state: State) -> None:
        taking_part = members(state, member, "a match")
        values = by_warp(state.value(value), state)
        equal = (values[..., None, :] == values[..., :, None]) & taking_part[..., None, :]
        packed = np.packbits(equal, axis=3, bitorder="little")
        words = np.ascontiguousarray(packed).view(np.uint32)[..., 0]
        poison = _warp_poison(state, value, taking_part)
        if every:
            everyone = ballot(taking_part)[..., None]
            agreed = ((words == everyone) | ~taking_part).all(axis=2, keepdims=True)
            words = np.where(agreed, everyone, np.uint32(0))
            words = np.broadcast_to(words, values.shape)
            if len(targets) == 2:
                flat = np.broadcast_to(agreed, values.shape).reshape(state.shape)
                state.write(targets[1], flat, poison)
        state.write(targets[0], words.reshape(state.shape), poison)

    return Effect(ins, run, (value, member), targets)


def _activemask(ins: Instruction, b: Builder) -> Operation:
    flags_of(ins, b, ())
    target = b.target(ins, ins.operands[0], 32)

    def run(state: State) -> None:
        state.write(target, to_lanes(ballot(running(state)), state))

    return Effect(ins, run, (), (target,))


def _elect(ins: Instruction, b: Builder) -> Operation:
    """The leader is the lowest lane that takes part."""
    flags_of(ins, b, {"sync"})
    member = b.source(ins, ins.operands[1], 32)
    targets = _targets(ins, b, ins.operands[0], 32)

    def run(state: State) -> None:
        taking_part = members(state, member, "an election")
        leader = taking_part.argmax(axis=2)
        state.write(targets[0], to_lanes(leader.astype(np.uint32), state))
        if len(targets) == 2:
            chosen = leader[..., None] == _LANES
            state.write(targets[1], chosen.reshape(state.shape))

    return Effect(ins, run, (member,), targets)


def bar_warp(ins: Instruction, b: Builder) -> Operation:
    """bar.warp.sync: the named lanes are here, since a warp runs at its lowest position."""
    member = b.source(ins, ins.operands[0], 32)

    def run(state: State) -> None:
        members(state, member, "a warp barrier")

    return Effect(ins, run, (member,))


TABLE: Mapping[str, Decoder] = {
    "shfl": _shfl,
    "vote": _vote,
    "redux": _redux,
    "match": _match,
    "activemask": _activemask,
    "elect": _elect,
}
