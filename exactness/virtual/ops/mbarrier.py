"""mbarrier.init, inval, arrive and expect_tx; a wait ends a basic block, like a barrier.

Source: PTX ISA 9.0, section 9.7.13.15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.common import Decoder
from exactness.virtual.ops.spaces import effective
from exactness.virtual.state import Bits, State

_COMMON = frozenset(["shared", "shared::cta", "shared::cluster", "b64"])
_ORDERS = frozenset(["release", "relaxed", "cta", "cluster"])


def at_each(state: State, register: int, offset: int) -> Iterator[tuple[int, Bits]]:
    """The shared addresses of the running lanes, and the lanes (blocks, threads) of each."""
    addresses = state.full(effective(state, register, offset)).astype(np.int64)
    lanes = np.ones(state.shape, np.bool_) if state.mask is None else state.full(state.mask)
    for place in np.unique(addresses[lanes]):
        yield int(place), lanes & (addresses == place)


def numbers(state: State, register: int) -> Bits:
    """A count for every lane, i64."""
    state.require_defined((register,), "a count")
    return state.full(state.value(register)).astype(np.int64)


def _mbarrier(ins: Instruction, b: Builder) -> Operation:
    """Tell the forms apart by their first modifiers."""
    kind = ins.modifiers[0] if ins.modifiers else ""
    forms: Mapping[str, tuple[frozenset[str], Callable[[Instruction, Builder], Operation]]] = {
        "init": (_COMMON, _init),
        "inval": (_COMMON, _inval),
        "arrive": (_COMMON | _ORDERS | {"expect_tx"}, _arrive),
        "expect_tx": (_COMMON | _ORDERS, _expect),
    }
    if kind not in forms:
        raise b.unsupported(ins, f"form .{kind}")
    allowed, decode = forms[kind]
    unknown = set(ins.modifiers[1:]) - allowed
    if unknown:
        raise b.unsupported(ins, f"modifier .{min(unknown)}")
    return decode(ins, b)


def _init(ins: Instruction, b: Builder) -> Operation:
    register, offset = b.address(ins, ins.operands[0])
    count = b.source(ins, ins.operands[1], 32)

    def run(state: State) -> None:
        for place, lanes in at_each(state, register, offset):
            state.mbarriers.initialise(state, place, lanes, numbers(state, count))

    return Effect(ins, run, (register, count))


def _inval(ins: Instruction, b: Builder) -> Operation:
    register, offset = b.address(ins, ins.operands[0])

    def run(state: State) -> None:
        for place, lanes in at_each(state, register, offset):
            state.mbarriers.invalidate(state, place, lanes)

    return Effect(ins, run, (register,))


def _arrive(ins: Instruction, b: Builder) -> Operation:
    """mbarrier.arrive{.expect_tx} token, [addr]{, count or bytes}; the token is a parity here."""
    operands = ins.operands
    token = b.target(ins, operands[0], 64)
    register, offset = b.address(ins, operands[1])
    given = b.source(ins, operands[2], 32) if len(operands) > 2 else b.literal(1, 32)
    expects = "expect_tx" in ins.modifiers

    def run(state: State) -> None:
        value, one = numbers(state, given), np.ones((1, 1), np.int64)
        for place, lanes in at_each(state, register, offset):
            count, expected = (one, value) if expects else (value, None)
            phase = state.mbarriers.phase(state, place, lanes)
            state.mbarriers.arrive(state, place, lanes, count, expected)
            before, state.mask = state.mask, lanes
            state.write(token, phase)
            state.mask = before

    return Effect(ins, run, (register, given), (token,))


def _expect(ins: Instruction, b: Builder) -> Operation:
    """mbarrier.expect_tx [addr], bytes: no arrival."""
    register, offset = b.address(ins, ins.operands[0])
    given = b.source(ins, ins.operands[1], 32)

    def run(state: State) -> None:
        for place, lanes in at_each(state, register, offset):
            state.mbarriers.arrive(state, place, lanes, None, numbers(state, given))

    return Effect(ins, run, (register, given))


TABLE: Mapping[str, Decoder] = {"mbarrier": _mbarrier}
