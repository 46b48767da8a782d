"""ld and st of every space, prefetches and fences.

Source: PTX ISA 9.0, sections 9.7.9 (ld, st, prefetch) and 9.7.13 (membar, fence). Cache and
eviction hints change no bits and are accepted; the spaces and the memory order are not hints.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Address, Instruction, Operand, Symbol
from exactness.virtual.lanes import WORDS, active
from exactness.virtual.operation import UNSIGNED, Effect, Elementwise, Operation
from exactness.virtual.ops.common import BITS, Decoder, flags_of, single_type
from exactness.virtual.ops.spaces import LOADS, STORES, effective
from exactness.virtual.ops.twos_complement import signed
from exactness.virtual.poison import CLEAN, extended
from exactness.virtual.state import Bits, State

_SPACES = frozenset(["global", "shared", "local", "param", "const"])
_HINTS = frozenset(
    """ca cg cs cv lu wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last
    L1::no_allocate L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B
    L2::256B""".split()
)
_ORDERS = frozenset(["weak", "relaxed", "acquire", "release", "volatile", "mmio"])
_SCOPES = frozenset(["cta", "cluster", "gpu", "sys"])
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_FLAGS = _SPACES | _HINTS | _ORDERS | _SCOPES | frozenset(_VECTORS) | {"shared::cta", "unified"}


def space_of(flags: frozenset[str]) -> str:
    """The state space; "generic" if none is named."""
    if "shared::cta" in flags:
        return "shared"
    return next(iter(flags & _SPACES), "generic")


def _vector_width(flags: frozenset[str]) -> int:
    return next((_VECTORS[word] for word in flags if word in _VECTORS), 1)


def extend(words: Bits, name: str, bits: int) -> Bits:
    """Loaded elements to a register of `bits`, sign- or zero-extended."""
    if name.startswith("s"):
        words = signed(words)
    return words if 8 * words.itemsize == bits else words.astype(UNSIGNED[bits])


def split_elements(words: Bits, count: int, size: int) -> list[Bits]:
    """Words to their `count` elements of `size` bytes each."""
    if count == 1:
        return [words.view(WORDS[size]) if words.dtype != WORDS[size] else words]
    parts = np.ascontiguousarray(words)[..., None].view(WORDS[size])
    return [np.ascontiguousarray(parts[..., index]) for index in range(count)]


def join_elements(parts: list[Bits], size: int) -> Bits:
    """The inverse of `split_elements`; all parts have one shape."""
    if len(parts) == 1:
        return parts[0]
    stacked = np.stack(parts, axis=-1)
    return stacked.view(WORDS[size * len(parts)])[..., 0]


def _ld(ins: Instruction, b: Builder) -> Operation:
    flags = flags_of(ins, b, _FLAGS)
    name = single_type(ins, b, BITS)
    space = space_of(flags)
    if space == "param":
        if _is_named(ins.operands[1]):
            return _ld_param(ins, b, name)
        space = "const"
    size, count = BITS[name] // 8, _vector_width(flags)
    if size * count > 16:
        raise b.unsupported(ins, f"a vector of {size * count} bytes")
    targets = tuple(b.any_target(ins, e, 8 * size) for e in b.elements(ins.operands[0]))
    if len(targets) != count:
        raise b.unsupported(ins, f"{len(targets)} destinations for {count} elements")
    register, offset = b.address(ins, ins.operands[1])
    widths = [b.widths[target] for target in targets]
    strong = bool(flags & {"relaxed", "acquire", "volatile", "mmio"})
    rules = [extended(size, bits // 8, name.startswith("s")) for bits in widths]
    load = LOADS[space]

    def run(state: State) -> None:
        addresses = effective(state, register, offset)
        words, poison = load(state, addresses, size * count, strong)
        parts = split_elements(words, count, size)
        for index, (target, part, bits) in enumerate(zip(targets, parts, widths, strict=True)):
            undefined = None
            if poison is not None:
                own = (poison >> np.uint16(index * size)).astype(np.uint8)
                undefined = rules[index]([part], [own])[0]
            state.write(target, extend(part, name, bits), undefined)

    return Effect(ins, run, (register,), targets)


def _is_named(operand: Operand) -> bool:
    """Whether an address is that of a variable; the others are computed."""
    return isinstance(operand, Address) and isinstance(operand.base, Symbol)


def _ld_param(ins: Instruction, b: Builder, name: str) -> Operation:
    """A kernel parameter: a literal once the launch is known."""
    address = ins.operands[1]
    assert isinstance(address, Address)
    assert isinstance(address.base, Symbol)
    base = address.base.name
    targets = tuple(b.any_target(ins, e, BITS[name]) for e in b.elements(ins.operands[0]))
    sources = tuple(
        b.param(ins, base, address.offset + i * BITS[name] // 8, name, b.widths[target])
        for i, target in enumerate(targets)
    )
    if len(targets) == 1:
        return Elementwise(ins, lambda x: x, sources, targets)
    return Elementwise(ins, lambda *x: x, sources, targets)


def _st(ins: Instruction, b: Builder) -> Operation:
    flags = flags_of(ins, b, _FLAGS)
    name = single_type(ins, b, BITS)
    space = space_of(flags)
    size, count = BITS[name] // 8, _vector_width(flags)
    if space in ("param", "const") or size * count > 16:
        raise b.unsupported(ins, f"a store of {size * count} bytes to .{space}")
    elements = b.elements(ins.operands[1])
    if len(elements) != count:
        raise b.unsupported(ins, f"{len(elements)} sources for {count} elements")
    sources = tuple(b.any_source(ins, element, 8 * size) for element in elements)
    register, offset = b.address(ins, ins.operands[0])
    kind = UNSIGNED[8 * size]
    store = STORES[space]

    def run(state: State) -> None:
        addresses = effective(state, register, offset)
        parts = [
            active(state.full(state.value(source).astype(kind, copy=False)), state.mask, state)
            for source in sources
        ]
        poison = _joint_poison(state, sources, size)
        if parts[0].size:
            store(state, addresses, join_elements(parts, size), poison, size * count)

    return Effect(ins, run, (register, *sources), ())


def _joint_poison(state: State, sources: tuple[int, ...], size: int) -> Bits | None:
    """Undefined bytes of what the running lanes store (u16), compressed like the values."""
    if not state.poison or state.poison.keys().isdisjoint(sources):
        return None
    joint = np.zeros((1, 1), np.uint16)
    keep = np.uint16((1 << size) - 1)
    for index, source in enumerate(sources):
        part = state.poison.get(source, CLEAN).astype(np.uint16) & keep
        joint = joint | (part << np.uint16(index * size))
    undefined = active(state.full(joint), state.mask, state)
    return undefined if undefined.any() else None


def _nothing(ins: Instruction, b: Builder) -> Operation:
    """Hints and fences: threads of a chunk see each other's writes at once."""
    return Effect(ins, lambda state: None)


def _createpolicy(ins: Instruction, b: Builder) -> Operation:
    """A cache policy: an opaque number that only hints read."""
    target = b.target(ins, ins.operands[0], 64)
    zero = np.zeros((1, 1), np.uint64)
    return Effect(ins, lambda state: state.write(target, zero), (), (target,))


TABLE: Mapping[str, Decoder] = {
    "ld": _ld,
    "ldu": _ld,
    "st": _st,
    "prefetch": _nothing,
    "prefetchu": _nothing,
    "applypriority": _nothing,
    "membar": _nothing,
    "fence": _nothing,
    "createpolicy": _createpolicy,
    "griddepcontrol": _nothing,
    "nanosleep": _nothing,
    "setmaxnreg": _nothing,
}
