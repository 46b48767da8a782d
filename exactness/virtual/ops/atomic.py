"""atom and red, where the result does not depend on the order of threads.

Integer add, min, max, and, or, xor commute: any number of threads may apply one of them to an
address, as long as nobody reads the old values. Everything else (float add, exchange, compare and
swap, or a result that is used) is accepted for one contribution per address and launch; a second
one raises.

Source: PTX ISA 9.0, sections 9.7.13.5 and 9.7.13.6 (atom, red): f32 add on global memory flushes
subnormals, on shared memory it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness.virtual import floats
from exactness.virtual.builder import Builder
from exactness.virtual.errors import (
    OrderDependenceError,
    OutOfBoundsError,
    UndefinedValueError,
)
from exactness.virtual.floats import FORMATS
from exactness.virtual.instructions import Instruction, Symbol
from exactness.virtual.lanes import active, inactive_filled, indices, spread
from exactness.virtual.memory import Access, Region
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.common import BITS, FLOAT_TYPES, Decoder, flags_of, single_type
from exactness.virtual.ops.floating import extreme_of
from exactness.virtual.ops.memory import space_of
from exactness.virtual.ops.spaces import effective, split_generic
from exactness.virtual.ops.twos_complement import signed
from exactness.virtual.state import Bits, State
from exactness.virtual.tracking import ATOMIC_OWNER

_OPERATIONS = frozenset(["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])
_FLAGS = (
    frozenset(["global", "shared", "shared::cta", "relaxed", "acquire", "release", "acq_rel"])
    | frozenset(["cta", "gpu", "sys", "noftz", "L2::cache_hint"])
    | _OPERATIONS
)
_COMMUTING: Mapping[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_SINGLE = 1
_KINDS = {name: number for number, name in enumerate(_COMMUTING, start=2)}
"""What an address was touched by in a launch: 0 nothing, 1 something that does not commute."""


def _atom(ins: Instruction, b: Builder) -> Operation:
    return _atomic(ins, b, has_result=True)


def _red(ins: Instruction, b: Builder) -> Operation:
    return _atomic(ins, b, has_result=False)


def _atomic(ins: Instruction, b: Builder, *, has_result: bool) -> Operation:
    flags = flags_of(ins, b, _FLAGS)
    name = single_type(ins, b, frozenset(BITS) - {"pred"})
    space = space_of(flags)
    kinds = flags & _OPERATIONS
    if space not in ("global", "shared", "generic") or len(kinds) != 1:
        raise b.unsupported(ins, f"an atomic on .{space}")
    operands = list(ins.operands)
    # The sink `_` as destination makes an atom a red.
    result = operands.pop(0) if has_result else Symbol("_")
    register, offset = b.address(ins, operands[0])
    kind, bits = min(kinds), BITS[name]
    count = 2 if kind == "cas" else 1
    sources = b.sources(ins, operands[1 : 1 + count], bits, is_float=name in FLOAT_TYPES)
    target = b.target(ins, result, bits)
    combine = _combiner(ins, b, kind, name, space)

    def run(state: State) -> None:
        addresses = state.full(effective(state, register, offset))
        for source in sources:
            state.require_defined((source,), "an operand of an atomic")
        used = id(ins) not in b.unread
        access = _access(state, space, addresses, bits // 8)
        if access.index.size == 0:
            return state.write(target, np.zeros((1, 1), _words(bits)))
        values = [active(state.full(state.value(source)), state.mask, state) for source in sources]
        commutes = kind in _COMMUTING and name not in FLOAT_TYPES and not used
        access.claim(_KINDS[kind] if commutes else _SINGLE)
        before = access.words.take(access.index)
        if commutes:
            _accumulate(access, _COMMUTING[kind], name, values[0])
        else:
            access.words[access.index] = combine(before, *values)
        state.write(target, inactive_filled(before, state.mask, state))

    return Effect(ins, run, (register, *sources), (target,))


def _words(bits: int) -> Any:
    return np.dtype(f"u{bits // 8}")


def _accumulate(access: _Access, ufunc: Any, name: str, values: Bits) -> None:
    """Apply a commuting operation once for every lane."""
    words, index = access.words, access.index.ravel()
    values = values.ravel()
    if name.startswith("s"):
        words, values = signed(words), signed(values)
    ufunc.at(words, index, values)


def _combiner(ins: Instruction, b: Builder, kind: str, name: str, space: str) -> Any:
    """New value from the old one and the operands, for single contributions."""
    if name in FLOAT_TYPES:
        return _float_combiner(ins, b, kind, name, space)
    match kind:
        case "exch":
            return lambda old, new: new
        case "cas":
            return lambda old, expected, new: np.where(old == expected, new, old)
        case "inc":
            return lambda old, top: np.where(old >= top, old.dtype.type(0), old + old.dtype.type(1))
        case "dec":
            return lambda old, top: np.where((old == 0) | (old > top), top, old - old.dtype.type(1))
    ufunc = _COMMUTING[kind]
    if not name.startswith("s"):
        return ufunc
    return lambda old, value: ufunc(signed(old), signed(value)).view(old.dtype)


def _float_combiner(ins: Instruction, b: Builder, kind: str, name: str, space: str) -> Any:
    element = name.removesuffix("x2")
    if kind in ("min", "max"):
        function = extreme_of(element, kind == "min", False)
    elif kind == "add":
        load, store = floats.LOAD[element], floats.STORE[element]
        function = lambda x, y: store(load(x) + load(y))  # noqa: E731
        if name == "f32" and space == "global":
            plain, fmt = function, FORMATS["f32"]
            function = lambda x, y: floats.flush(  # noqa: E731
                plain(floats.flush(x, fmt), floats.flush(y, fmt)), fmt
            )
        elif name == "f32" and space == "generic":
            raise b.unsupported(ins, "f32 add at a generic address")
    else:
        raise b.unsupported(ins, f".{kind} of .{name}")
    if element == name:
        return function
    return lambda *registers: floats.join_halves(
        function(*(floats.split_halves(bits) for bits in registers))
    )


class _Access:
    """Where the running lanes' atomics land.

    Attributes:
        words: memory as words of the atomic's size.
        index: word number of every running lane.
    """

    words: Bits
    index: Bits

    def __init__(self, state: State) -> None:
        self.state = state

    def claim(self, kind: int) -> None:
        """Record the atomic; raise if its result would depend on the order of threads."""
        raise NotImplementedError

    def order_matters(self, bad: Bits) -> None:
        """Raise for the marked lanes."""
        self.state.fail(
            OrderDependenceError,
            "the result of an atomic depends on the order of threads: several of them, or one "
            "and a plain access, touch one address",
            spread(bad, self.state.mask, self.state),
        )

    def check_kinds(self, touched: Bits, index: Bits, kind: int) -> None:
        """Compare with what touched these addresses before, and with each other."""
        before = touched.take(index)
        bad = (before != 0) & ((before != kind) | (kind == _SINGLE))
        if kind == _SINGLE and not bad.any():
            bad = _repeated(index)
        if bad.any():
            self.order_matters(bad)
        touched[index] = kind


def _access(state: State, space: str, addresses: Bits, size: int) -> _Access:
    """Where atomics land; generic addresses must all be in one space."""
    if space == "generic":
        parts = split_generic(state, addresses)
        if len(parts) != 1 or parts[0][0] == "local":
            bad = np.ones((1, 1), np.bool_) if state.mask is None else state.mask
            state.fail(OutOfBoundsError, "an atomic on local memory, or on several spaces", bad)
        space, addresses, _ = parts[0]
    return (_Shared if space == "shared" else _Global)(state, addresses, size)


def _repeated(index: Bits) -> Bits:
    """Which entries occur more than once."""
    _, inverse, counts = np.unique(index.ravel(), return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] > 1).reshape(index.shape)


class _Global(_Access):
    """Atomics on global memory."""

    def __init__(self, state: State, addresses: Bits, size: int) -> None:
        super().__init__(state)
        part = active(addresses, state.mask, state)
        self.access = Access(state, part, state.mask, size)
        self.index = np.zeros(0, np.int64)
        if part.size == 0:
            return
        region = state.memory.region_of(self.access)
        if region is None or not region.writable:
            bad = spread(np.ones(part.shape, np.bool_), state.mask, state)
            state.fail(UndefinedValueError, "an atomic over several buffers, or a constant", bad)
        self.region: Region = region
        start, self.words = region.words(size)
        self.index = indices(part, start, size)

    def claim(self, kind: int) -> None:
        tracker = self.region.tracker
        assert tracker is not None
        if tracker.atomics is None:
            tracker.atomics = np.zeros(tracker.count, np.uint8)
        if tracker.owners is None:
            tracker.owners = np.zeros(tracker.count, np.int64)
        for granule in tracker.granules(self.access):
            owner = tracker.owners.take(granule)
            plain = (owner != 0) & (owner != ATOMIC_OWNER)
            if plain.any():
                self.order_matters(plain)
            self.check_kinds(tracker.atomics, granule, kind)
            tracker.owners[granule] = ATOMIC_OWNER


class _Shared(_Access):
    """Atomics on shared memory: ordered by barriers against plain accesses."""

    def __init__(self, state: State, addresses: Bits, size: int) -> None:
        super().__init__(state)
        shared = state.shared
        flat = shared.places(state, addresses, state.mask, size)
        self.words = shared.data.view(_words(8 * size))
        self.index = flat // size
        self.granules = shared.granules(flat, size) if flat.size else []

    def claim(self, kind: int) -> None:
        shared, state = self.state.shared, self.state
        for granule in self.granules:
            undefined = shared.undefined.take(granule) != 0
            if undefined.any():
                bad = spread(undefined, state.mask, state)
                state.fail(UndefinedValueError, "an atomic on undefined shared memory", bad)
            shared.claim_atomic(state, granule, kind, self.order_matters, state.mask)


TABLE: Mapping[str, Decoder] = {"atom": _atom, "red": _red}
