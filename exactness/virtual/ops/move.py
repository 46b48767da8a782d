"""Moves, selection and comparison.

Source: PTX ISA 9.0, sections 9.7.6 and 9.7.7 (set, setp, selp, slct) and 9.7.9 (mov, cvta).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness.virtual import floats, poison
from exactness.virtual.builder import Builder
from exactness.virtual.floats import FORMATS, LOAD
from exactness.virtual.instructions import Instruction, Pair, Vector
from exactness.virtual.lanes import LOCAL_WINDOW, SHARED_WINDOW
from exactness.virtual.operation import UNSIGNED, Elementwise, Function, Operation
from exactness.virtual.ops.common import (
    BITS,
    FLOAT_TYPES,
    INTEGER_TYPES,
    Decoder,
    elementwise,
    expect_operands,
    flags_of,
    single_type,
    types_of,
)
from exactness.virtual.ops.twos_complement import signed
from exactness.virtual.state import Bits

_PLAIN = (INTEGER_TYPES | FLOAT_TYPES | {"pred"}) - {"f16x2", "bf16x2"}


def _identity(x: Bits) -> Bits:
    return x


def _mov(ins: Instruction, b: Builder) -> Operation:
    """Copy, pack or unpack."""
    expect_operands(ins, b, 2)
    flags_of(ins, b, ())
    name = single_type(ins, b, _PLAIN)
    bits = BITS[name]
    target, value = ins.operands
    if isinstance(value, Vector):
        return _pack(ins, b, value, bits)
    if isinstance(target, Vector):
        return _unpack(ins, b, target, bits)
    is_float = name in FLOAT_TYPES
    return elementwise(ins, b, _identity, bits, is_float=is_float, poison_rule=poison.copies)


def _pack(ins: Instruction, b: Builder, value: Vector, bits: int) -> Operation:
    part = bits // len(value.elements)
    kind = UNSIGNED[bits]

    def function(*parts: Bits) -> Bits:
        result = parts[0].astype(kind)
        for index, bits_of_part in enumerate(parts[1:], start=1):
            result = result | (bits_of_part.astype(kind) << kind.type(index * part))
        return result

    sources = b.sources(ins, value.elements, part)
    target = b.target(ins, ins.operands[0], bits)
    return Elementwise(ins, function, sources, (target,), poison.joined(part // 8))


def _unpack(ins: Instruction, b: Builder, target: Vector, bits: int) -> Operation:
    count = len(target.elements)
    part = bits // count
    kind, narrow = UNSIGNED[bits], UNSIGNED[part]

    def function(x: Bits) -> Any:
        parts = tuple((x >> kind.type(index * part)).astype(narrow) for index in range(count))
        return parts if count > 1 else parts[0]

    targets = tuple(b.target(ins, element, part) for element in target.elements)
    source = b.source(ins, ins.operands[1], bits)
    return Elementwise(ins, function, (source,), targets, poison.parted(part // 8, count))


def _cvta(ins: Instruction, b: Builder) -> Operation:
    """Generic and global addresses are the same number; shared and local ones have a window."""
    expect_operands(ins, b, 2)
    flags = flags_of(ins, b, {"to", "global", "const", "param", "shared", "local"})
    bits = BITS[single_type(ins, b, {"u64", "u32"})]
    if not flags & {"shared", "local"}:
        return elementwise(ins, b, _identity, bits)
    window = np.uint64(SHARED_WINDOW if "shared" in flags else LOCAL_WINDOW)
    if "to" in flags:
        return elementwise(ins, b, lambda x: x - window, bits)
    return elementwise(ins, b, lambda x: x + window, bits)


def _selp(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 4)
    flags_of(ins, b, ())
    name = single_type(ins, b, _PLAIN - {"pred"})
    target, first, second, chooser = ins.operands
    predicate, negated = b.predicate(ins, chooser)
    if negated:
        first, second = second, first
    is_float = name in FLOAT_TYPES
    return Elementwise(
        ins,
        lambda x, y, p: np.where(p, x, y),
        (*b.sources(ins, (first, second), BITS[name], is_float=is_float), predicate),
        (b.target(ins, target, BITS[name]),),
        poison.selected,
    )


def _slct(ins: Instruction, b: Builder) -> Operation:
    """The first operand where the third is not negative."""
    expect_operands(ins, b, 4)
    flags = flags_of(ins, b, {"ftz"})
    data, chooser = types_of(ins)

    def function(x: Bits, y: Bits, z: Bits) -> Bits:
        if chooser == "s32":
            return np.where(signed(z) >= 0, x, y)
        z = floats.flush(z, FORMATS["f32"]) if "ftz" in flags else z
        return np.where(floats.load_f32(z) >= 0, x, y)

    sources = (
        *b.sources(ins, ins.operands[1:3], BITS[data], is_float=data in FLOAT_TYPES),
        b.source(ins, ins.operands[3], 32, is_float=chooser == "f32"),
    )
    return Elementwise(ins, function, sources, (b.target(ins, ins.operands[0], BITS[data]),))


_ORDERED: Mapping[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMPARISONS = frozenset(_ORDERED) | frozenset(_UNSIGNED_NAMES) | {
    "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}  # fmt: skip
_BOOLEANS: Mapping[str, Any] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def comparison(ins: Instruction, b: Builder, name: str, operator: str, ftz: bool) -> Function:
    """Two patterns of type `name` to a boolean array."""
    if name not in FLOAT_TYPES:
        if operator in _UNSIGNED_NAMES and not name.startswith("s"):
            return _ORDERED[_UNSIGNED_NAMES[operator]]
        if operator not in _ORDERED:
            raise b.unsupported(ins, f"comparison .{operator} of .{name}")
        ufunc = _ORDERED[operator]
        if not name.startswith("s"):
            return ufunc
        return lambda x, y: ufunc(signed(x), signed(y))
    element = name.removesuffix("x2")
    test, load, fmt = _float_test(ins, b, operator), LOAD[element], FORMATS[element]
    if ftz:
        return lambda x, y: test(load(floats.flush(x, fmt)), load(floats.flush(y, fmt)))
    return lambda x, y: test(load(x), load(y))


def _float_test(ins: Instruction, b: Builder, operator: str) -> Function:
    if operator == "num":
        return lambda x, y: ~(np.isnan(x) | np.isnan(y))
    if operator == "nan":
        return lambda x, y: np.isnan(x) | np.isnan(y)
    if operator == "ne":
        # NumPy's != holds for NaN; PTX's ordered `ne` does not.
        return lambda x, y: (x < y) | (x > y)
    if operator in _ORDERED:
        return _ORDERED[operator]
    if operator == "neu":
        return np.not_equal
    if not operator.endswith("u"):
        raise b.unsupported(ins, f"comparison .{operator} of floats")
    ufunc = _ORDERED[operator[:-1]]
    return lambda x, y: ufunc(x, y) | np.isnan(x) | np.isnan(y)


def _comparison_parts(ins: Instruction, b: Builder) -> tuple[Function, str | None, str]:
    """The comparison, the boolean operator after it if any, and the compared type."""
    flags = flags_of(ins, b, _COMPARISONS | frozenset(_BOOLEANS) | {"ftz"})
    operators = flags & _COMPARISONS
    if len(operators) != 1:
        raise b.unsupported(ins, "it needs one comparison")
    name = types_of(ins)[-1]
    boolean = next(iter(flags & frozenset(_BOOLEANS)), None)
    return comparison(ins, b, name, min(operators), "ftz" in flags), boolean, name


def _setp(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 3, 4)
    single_type(ins, b, (INTEGER_TYPES | FLOAT_TYPES) - {"u8", "s8", "b8"})
    test, boolean, name = _comparison_parts(ins, b)
    target = ins.operands[0]
    targets = [target.first, target.second] if isinstance(target, Pair) else [target]
    sources = b.sources(ins, ins.operands[1:3], BITS[name], is_float=name in FLOAT_TYPES)
    negated = False
    if boolean is not None:
        predicate, negated = b.predicate(ins, ins.operands[3])
        sources = (*sources, predicate)
    combine = _BOOLEANS[boolean] if boolean else None
    pair = len(targets) == 2

    def results(x: Bits, y: Bits, *predicates: Bits) -> Any:
        if name.endswith("x2"):
            both = test(floats.split_halves(x), floats.split_halves(y))
            low, high = both[..., 0], both[..., 1]
        else:
            low = test(x, y)
            high = ~low if pair else low
        if combine is not None:
            other = ~predicates[0] if negated else predicates[0]
            low, high = combine(low, other), combine(high, other)
        return (low, high) if pair else low

    if name.endswith("x2") and not pair:
        raise b.unsupported(ins, "a packed comparison needs two destinations")
    rule = poison.compared(name.endswith("x2"), len(targets), boolean, negated)
    return Elementwise(ins, results, sources, tuple(b.target(ins, t, 1) for t in targets), rule)


def _set(ins: Instruction, b: Builder) -> Operation:
    """Like setp, but the result is all ones, or 1.0; packed operands give packed results."""
    expect_operands(ins, b, 3, 4)
    test, boolean, name = _comparison_parts(ins, b)
    out = types_of(ins)[0]
    if len(types_of(ins)) != 2 or boolean is not None or BITS[out] == 64:
        raise b.unsupported(ins, "this form of set")
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
    if name.endswith("x2"):
        return _set_packed(ins, b, test, ones.get(out.removesuffix("x2"), 0xFFFF))
    kind = UNSIGNED[BITS[out]]
    true = kind.type(ones.get(out, (1 << BITS[out]) - 1))
    return elementwise(
        ins,
        b,
        lambda x, y: np.where(test(x, y), true, kind.type(0)),
        BITS[name],
        out_bits=BITS[out],
        is_float=name in FLOAT_TYPES,
    )


def _set_packed(ins: Instruction, b: Builder, test: Function, true: int) -> Operation:
    """Each half of the result is `true` or zero."""

    def function(x: Bits, y: Bits) -> Bits:
        held = test(floats.split_halves(x), floats.split_halves(y))
        return floats.join_halves(np.where(held, np.uint16(true), np.uint16(0)))

    return elementwise(ins, b, function, 32, poison_rule=poison.packed_halves)


TABLE: Mapping[str, Decoder] = {
    "mov": _mov,
    "cvta": _cvta,
    "selp": _selp,
    "slct": _slct,
    "setp": _setp,
    "set": _set,
}
