"""One thing wrong in a compiled kernel: an edit of its PTX.

A fault sits at a place of the kernel's source and hits every instruction that was compiled from it:
the copies of an unrolled loop, every specialization, both the kernel and its form that stores f32.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath

from exactness.virtual import ptx
from exactness.virtual.census import is_numeric
from exactness.virtual.freedoms import registers
from exactness.virtual.instructions import Entry, Instruction, Integer, Location, Register
from exactness.virtual.rewriting import substitute

_LITERAL = re.compile(r"(?<![\w%.])(?:0[fF]([0-9a-fA-F]{8})|(-?\d+))(?![\w.])")
_INFINITY = 0x7F800000
_SHIFTED: Mapping[str, str] = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
_NARROW = frozenset({"bf16", "bf16x2", "f16", "f16x2"})
_INTEGERS = frozenset(f"{sign}{bits}" for sign in "su" for bits in (16, 32, 64))


class Kind(Enum):
    """What is done wrong."""

    TRUNCATING_CAST = "truncating cast"
    ROUNDED_TOWARD_ZERO = "rounded toward zero"
    PERTURBED_CONSTANT = "constant off by one ulp"
    SHIFTED_BOUND = "comparison off by one"


@dataclass(frozen=True, slots=True)
class Fault:
    """An edit of PTX; call it with the text and the kernel's name.

    Attributes:
        kind: what is done wrong.
        kernel: the kernel it is done in.
        place: where, as `place_names` calls it.
        constant: the pattern of the f32 constant that is perturbed.
    """

    kind: Kind
    kernel: str
    place: str
    constant: int | None = None

    @property
    def name(self) -> str:
        """`truncating cast at qnorm.py:68:30 (qnorm.py:28:16)`, for reports."""
        which = "" if self.constant is None else f" {self.constant:#010x}"
        return f"{self.kind.value}{which} at {self.place}"

    def __call__(self, text: str, kernel: str) -> str:
        """The text with the fault; unchanged where the place does not occur."""
        if kernel != self.kernel:
            return text
        entry = ptx.parse(text).entries[kernel]
        replaced = {
            instruction: spoiled(instruction, self.kind, self.constant)
            for instruction, fault in _located(entry)
            if fault == self
        }
        return substitute(text, entry, replaced) if replaced else text


def faults(text: str, kernel: str) -> list[Fault]:
    """Every fault that a kernel's PTX has room for, each once, in program order.

    Left out are those that could not be blamed on the kernel or are harmless by a theorem: bounds
    that the source does not compare, since the compiler needs some to exchange data; and the
    rounding of f32 results that are narrowed at once, since truncating 24 bits does not move the
    sum of two short numbers across a tie.
    """
    return list(dict.fromkeys(fault for _, fault in _located(ptx.parse(text).entries[kernel])))


def spoiled(instruction: Instruction, kind: Kind, constant: int | None = None) -> str:
    """The text of an instruction with a fault in it."""
    name, text = instruction.name, instruction.text
    if kind is Kind.PERTURBED_CONSTANT:
        assert constant is not None
        return _LITERAL.sub(lambda m: _spoiled_literal(m, constant), text)
    if kind is Kind.SHIFTED_BOUND:
        words = [_SHIFTED.get(word, word) for word in instruction.modifiers]
    else:
        words = ["rz" if word == "rn" else word for word in instruction.modifiers]
    return text.replace(name, ".".join((instruction.opcode, *words)), 1)


def _spoiled_literal(literal: re.Match[str], constant: int) -> str:
    """The constant one ulp further from zero, the largest finite one nearer; others as they are."""
    pattern = int(literal[1], 16) if literal[1] else int(literal[2]) & 0xFFFFFFFF
    if pattern != constant:
        return literal[0]
    is_largest = (pattern & 0x7FFFFFFF) + 1 == _INFINITY
    return f"0f{pattern - 1 if is_largest else pattern + 1:08X}"


@functools.lru_cache(maxsize=256)
def _located(entry: Entry) -> tuple[tuple[Instruction, Fault], ...]:
    """Instructions that can be spoiled, each with how; entries are compared by identity."""
    return tuple(_locate(entry))


def _locate(entry: Entry) -> Iterator[tuple[Instruction, Fault]]:
    places = place_names(entry)
    readers = _readers(entry)
    for instruction in entry.body:
        kind, read = _kind(instruction), readers.get(_target(instruction), [])
        if kind is not None and not (kind is Kind.ROUNDED_TOWARD_ZERO and _is_narrowed(read)):
            yield instruction, Fault(kind, entry.name, places[instruction])
        for constant in _constants(instruction, read):
            # A constant that is moved into a register belongs to the instruction that reads it.
            user = read[0] if instruction.opcode == "mov" and read else instruction
            yield instruction, Fault(Kind.PERTURBED_CONSTANT, entry.name, places[user], constant)


def _kind(instruction: Instruction) -> Kind | None:
    """What can be done wrong with an instruction, constants apart."""
    words = instruction.modifiers
    if instruction.opcode == "cvt" and "rn" in words and words[-1] == "f32":
        return Kind.TRUNCATING_CAST if _NARROW.intersection(words) else None
    if instruction.opcode in ("add", "sub", "mul", "fma") and words[-1:] == ("f32",):
        return Kind.ROUNDED_TOWARD_ZERO if "rn" in words else None
    if instruction.opcode == "setp" and words[-1] in _INTEGERS and words[0] in _SHIFTED:
        return Kind.SHIFTED_BOUND if _compares(instruction.location) else None
    return None


def _constants(instruction: Instruction, readers: list[Instruction]) -> list[int]:
    """Patterns of the f32 constants of an instruction, without zeros, infinities and NaN.

    Before inline assembly, LLVM moves them into registers as integers.
    """
    integers = instruction.name == "mov.b32" and bool(readers) and all(map(_is_f32, readers))
    found = [
        operand.value & 0xFFFFFFFF
        for operand in instruction.operands
        if isinstance(operand, Integer) and (operand.float_bits == 32 or integers)
    ]
    finite = [p for p in found if p & 0x7FFFFFFF and p & _INFINITY != _INFINITY]
    return list(dict.fromkeys(finite))


def _is_f32(instruction: Instruction) -> bool:
    """Whether it computes with f32 operands."""
    return is_numeric(instruction) and instruction.modifiers[-1] == "f32"


def _is_narrowed(readers: list[Instruction]) -> bool:
    """Whether only conversions to 16-bit formats read a result."""
    return bool(readers) and all(_kind(r) is Kind.TRUNCATING_CAST for r in readers)


def _target(instruction: Instruction) -> str:
    """The register that an instruction with a single result writes; empty if there is none."""
    target = instruction.operands[0] if instruction.operands else None
    return target.name if isinstance(target, Register) else ""


def _readers(entry: Entry) -> dict[str, list[Instruction]]:
    """The instructions that read each register, in program order."""
    readers: dict[str, list[Instruction]] = {}
    for instruction in entry.body:
        for name in registers(instruction)[1]:
            readers.setdefault(name, []).append(instruction)
    return readers


def place_names(entry: Entry) -> dict[Instruction, str]:
    """A name of the source position of each instruction, the same in every specialization.

    Instructions that the compiler gives no line are counted after the last one that has.
    """
    names: dict[Instruction, str] = {}
    counted: dict[tuple[str, str], int] = {}
    last = "the start"
    for instruction in entry.body:
        if instruction.location is not None:
            last = names[instruction] = _position(instruction.location)
        else:
            key = last, instruction.name
            counted[key] = counted.get(key, 0) + 1
            names[instruction] = f"{instruction.name} {counted[key]} after {last}"
    return names


def _position(location: Location) -> str:
    """`qnorm.py:68:30 (qnorm.py:28:16)`: in the kernel itself, then in what it calls there."""
    chain: list[str] = []
    place: Location | None = location
    while place is not None:
        chain.append(f"{PurePath(place.file).name}:{place.line}:{place.column}")
        place = place.inlined_at
    *inner, outer = chain
    return f"{outer} ({', '.join(reversed(inner))})" if inner else outer


def _compares(location: Location | None) -> bool:
    """Whether the source line holds a comparison of order."""
    return location is not None and location.line in _comparing_lines(location.file)


@functools.lru_cache(maxsize=64)
def _comparing_lines(file: str) -> frozenset[int]:
    try:
        tree = ast.parse(_source_file(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    orders = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(isinstance(o, orders) for o in node.ops)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )


def _source_file(file: str) -> Path:
    """Where the module is that runs, of a file that a compiler named.

    Triton's cache outlives folders and is shared by checkouts: what it names may be gone, or be
    another version.
    """
    path = Path(file)
    names = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    loaded = [Path(name) for name in names if name]
    if path not in loaded:
        alike = (other for other in loaded if other.parts[-2:] == path.parts[-2:])
        return next(alike, path)
    return path
