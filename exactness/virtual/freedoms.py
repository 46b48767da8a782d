"""What PTX leaves to ptxas, and PTX that leaves nothing.

A floating-point `add`, `sub` or `mul` without a rounding modifier may be contracted: PTX ISA,
chapter 9.7.3. Measured on ptxas 12.8 to 13.4 for sm_90, it also replaces, with or without
`--fmad=false`,

* `div.full` and `div.approx` by a constant by a multiplication with the correctly rounded
  reciprocal, and
* an approximate function of a constant by the correctly rounded value,

and, unless `--fmad=false` is given, merges the last multiplication of such a division into a sum.

`find` lists these places; `rewriting.rewrite` prints the same program with each of them decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from exactness.virtual.ptx import Entry, Instruction, Integer, Register, Vector

FLOAT_TYPES = frozenset({"f64", "f32", "f16", "f16x2", "bf16", "bf16x2", "f32x2"})
_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})
# Bounds of |divisor| beyond which divisions scale their operands.
LARGE, SMALL = 2.0**126, 2.0**-126
_FUNCTIONS: Mapping[str, Callable[[np.float64], np.float64]] = {
    "ex2": np.exp2,
    "rcp": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
}


class Kind(Enum):
    """How a product is computed when it stands alone."""

    MULTIPLY = "mul"
    DIVIDE = "div"
    DIVIDE_CONSTANT = "div by a constant"


@dataclass(frozen=True, slots=True)
class Product:
    """A rounded product that ptxas may merge into a sum.

    Attributes:
        instruction: the `mul` or `div`.
        kind: which of them.
        users: how many instructions read its result.
    """

    instruction: Instruction
    kind: Kind
    users: int


@dataclass(frozen=True, slots=True)
class Sum:
    """An `add` or `sub` without rounding modifier, and the operands that are products."""

    instruction: Instruction
    products: Mapping[int, Product]


@dataclass(frozen=True, slots=True)
class Freedoms:
    """All that a kernel's PTX leaves to ptxas.

    Attributes:
        entry: the kernel.
        unrounded: `add`, `sub` and `mul` without rounding modifier.
        divisions: `div.full` and `div.approx` by a constant, with the divisor.
        functions: approximate functions of a constant, with the correctly rounded result.
        sums: unrounded sums that could absorb a product.
        unproven: those whose divisor may become a constant once loops are unrolled.
        single: registers with one unguarded definition.
    """

    entry: Entry
    unrounded: tuple[Instruction, ...]
    divisions: Mapping[Instruction, np.float32]
    functions: Mapping[Instruction, np.float32]
    sums: tuple[Sum, ...]
    unproven: tuple[Instruction, ...]
    single: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def nothing_to_decide(self) -> bool:
        """Whether the text already says all that ptxas will do."""
        return not (self.unrounded or self.divisions or self.functions)


def find(entry: Entry) -> Freedoms:
    """List what `entry` leaves to ptxas."""
    flow = _Flow(entry)
    divisions, functions, unproven = {}, {}, []
    for instruction in entry.body:
        if _is_inexact_division(instruction):
            divisor = flow.constant(instruction.operands[2])
            if divisor is not None and not np.isnan(divisor):
                divisions[instruction] = divisor
            elif divisor is None and flow.may_be_constant(instruction.operands[2]):
                unproven.append(instruction)
        elif instruction.opcode in _FUNCTIONS and "approx" in instruction.modifiers:
            argument = flow.constant(instruction.operands[1])
            result = None if argument is None else _function(instruction, argument)
            if result is not None and not np.isnan(result):
                functions[instruction] = result
    unrounded = tuple(i for i in entry.body if is_unrounded(i))
    products = flow.products(unrounded, divisions)
    return Freedoms(
        entry=entry,
        unrounded=unrounded,
        divisions=divisions,
        functions=functions,
        sums=tuple(_sums(unrounded, products)),
        unproven=tuple(unproven),
        single=frozenset(flow.definitions),
    )


def is_unrounded(instruction: Instruction) -> bool:
    """Whether this is a floating-point add, sub or mul that ptxas may contract."""
    modifiers = instruction.modifiers
    return (
        instruction.opcode in ("add", "sub", "mul")
        and bool(modifiers)
        and modifiers[-1] in FLOAT_TYPES
        and not _ROUNDINGS.intersection(modifiers)
    )


def _is_inexact_division(instruction: Instruction) -> bool:
    """Whether this divides by multiplying with an approximate reciprocal."""
    return instruction.opcode == "div" and not {"full", "approx"}.isdisjoint(instruction.modifiers)


def _sums(unrounded: Iterable[Instruction], products: Mapping[str, Product]) -> Iterable[Sum]:
    for instruction in unrounded:
        if instruction.opcode == "mul" or instruction.guard is not None:
            continue
        found = {}
        for position in (1, 2):
            operand = instruction.operands[position]
            product = products.get(operand.name) if isinstance(operand, Register) else None
            if product is not None and _same_arithmetic(instruction, product.instruction):
                found[position] = product
        if found:
            yield Sum(instruction, found)


def _same_arithmetic(total: Instruction, product: Instruction) -> bool:
    """Type and flushing must agree; only the outer result may be clamped."""
    return (
        total.modifiers[-1] == product.modifiers[-1]
        and ("ftz" in total.modifiers) == ("ftz" in product.modifiers)
        and "sat" not in product.modifiers
    )


class _Flow:
    """Definitions and uses of the registers of a kernel."""

    def __init__(self, entry: Entry) -> None:
        self.writers: dict[str, list[Instruction]] = {}
        self.readers: dict[str, list[Instruction]] = {}
        for instruction in entry.body:
            targets, sources = registers(instruction)
            for name in targets:
                self.writers.setdefault(name, []).append(instruction)
            for name in sources:
                self.readers.setdefault(name, []).append(instruction)
        self.definitions = {
            name: found[0]
            for name, found in self.writers.items()
            if len(found) == 1 and found[0].guard is None
        }

    def constant(self, operand: object) -> np.float32 | None:
        """The f32 value of a literal, or of a register that is moved from one."""
        seen: set[str] = set()
        while isinstance(operand, Register) and operand.name not in seen:
            seen.add(operand.name)
            definition = self.definitions.get(operand.name)
            if definition is None or definition.opcode != "mov":
                return None
            operand = definition.operands[1]
        if isinstance(operand, Integer) and operand.float_bits in (0, 32):
            return np.float32(np.uint32(operand.value & 0xFFFFFFFF).view(np.float32))
        return None

    def may_be_constant(self, operand: object) -> bool:
        """Whether nothing that differs between launches or threads reaches `operand`."""
        pending, seen = [operand], set()
        while pending:
            item = pending.pop()
            if isinstance(item, Vector):
                pending.extend(item.elements)
            elif isinstance(item, Register) and item.name not in seen:
                seen.add(item.name)
                for writer in self.writers.get(item.name, ()):
                    if writer.opcode in _OPAQUE or not _pure(writer):
                        return False
                    pending.extend(writer.operands[1:])
        return True

    def products(
        self,
        unrounded: Iterable[Instruction],
        divisions: Mapping[Instruction, np.float32],
    ) -> dict[str, Product]:
        """Result register to product, for results that are written in one place."""
        candidates = [(i, Kind.MULTIPLY) for i in unrounded if i.opcode == "mul"]
        for instruction in self.definitions.values():
            if _is_inexact_division(instruction):
                divisor = divisions.get(instruction)
                if divisor is None:
                    candidates.append((instruction, Kind.DIVIDE))
                elif abs(divisor) != 1:  # x / ±1 is exact, so that there is nothing to contract
                    candidates.append((instruction, Kind.DIVIDE_CONSTANT))
        found = {}
        for instruction, kind in candidates:
            target, *factors = instruction.operands
            if not _is_scoped(target) and any(map(_is_scoped, factors)):
                continue  # a sum outside of the block could not read them
            if isinstance(target, Register) and target.name in self.definitions:
                users = len(self.readers.get(target.name, ()))
                found[target.name] = Product(instruction, kind, users)
        return found


# Their results differ from thread to thread or from launch to launch.
_OPAQUE = frozenset(
    {"ld", "ldu", "shfl", "vote", "match", "redux", "atom", "call", "activemask", "tex", "suld"}
)
_NO_RESULT = frozenset(
    {"st", "red", "bar", "barrier", "bra", "brx", "ret", "exit", "membar", "fence"}
)


def _pure(instruction: Instruction) -> bool:
    """Whether all operands are literals and registers; special registers and symbols vary."""
    return all(isinstance(o, Integer | Register | Vector) for o in instruction.operands[1:])


def registers(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Names of the registers written and read. The first operand is the result, if there is one."""
    groups = [_names(operand) for operand in instruction.operands]
    sources = [instruction.guard.register.name] if instruction.guard is not None else []
    if instruction.opcode in _NO_RESULT or not groups:
        return [], sources + [name for group in groups for name in group]
    return groups[0], sources + [name for group in groups[1:] for name in group]


def _is_scoped(operand: object) -> bool:
    """Whether this is a register of an inner block."""
    return any("@" in name for name in _names(operand))


def _names(operand: object) -> list[str]:
    """All register names in an operand, however nested."""
    if isinstance(operand, Register):
        return [operand.name]
    parts: list[str] = []
    for attribute in ("elements", "base", "register", "first", "second"):
        value = getattr(operand, attribute, ())
        for item in value if isinstance(value, tuple) else (value,):
            parts += _names(item)
    return parts


def _function(instruction: Instruction, argument: np.float32) -> np.float32:
    """The correctly rounded result of an approximate function."""
    flush = "ftz" in instruction.modifiers
    with np.errstate(all="ignore"):
        exact = _FUNCTIONS[instruction.opcode](np.float64(flushed(argument, flush=flush)))
        return flushed(np.float32(exact), flush=flush)


def flushed(value: np.float32, *, flush: bool) -> np.float32:
    """A subnormal value becomes a zero of its sign, if `flush`."""
    tiny = flush and abs(value) < np.float32(SMALL)
    return np.copysign(np.float32(0), value) if tiny else value
