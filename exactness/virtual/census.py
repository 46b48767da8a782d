"""Numeric instructions of a kernel: which are IEEE 754's, and what the others are called.

IEEE 754's are add, sub, mul, div, sqrt and reciprocal rounded to nearest, comparisons, minimum and
maximum, sign operations, and conversions that are exact, rounded to nearest, or to an integer.
Everything else has a name, made of the opcode and of what is unusual about it, by which a claim
allows it: `fma`, `fma.rm`, `add.ftz`, `ex2.approx.ftz`, `div.full`, `cvt.rz.bf16`, `wgmma.bf16`.

Source: PTX ISA 9.0, sections 9.7.3 to 9.7.5 (floating point), 9.7.9.21 (cvt), 9.7.14 and 9.7.15
(matrices); IEEE 754-2019, sections 5.4 and 9.6.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exactness.formats import Format, bf16, e4m3fn, e5m2, f16, f32, f64, tf32
from exactness.virtual import sass
from exactness.virtual.freedoms import is_unrounded
from exactness.virtual.instructions import Entry, Instruction
from exactness.virtual.sass import UNKNOWN_LINE, Arithmetic, Operation

FORMATS: Mapping[str, Format] = {
    "f64": f64,
    "f32": f32,
    "tf32": tf32,
    "bf16": bf16,
    "f16": f16,
    "e4m3": e4m3fn,
    "e5m2": e5m2,
}
"""Floating-point types of PTX; packed ones add `x2` or `x4`."""

_PACKING = ("x2", "x4")
# Opcodes that move or choose values of any type.
_MOVES = frozenset(
    "ld ldu st mov selp slct shfl cp ldmatrix stmatrix prmt tex suld sust multimem".split()
)
_INTEGER_ROUNDINGS = frozenset({"rni", "rzi", "rmi", "rpi"})
_COMPARISONS = frozenset(
    "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor".split()
)
# What may stand beside the type for the operation to be IEEE 754's.
_IEEE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "sqrt", "rcp"), frozenset({"rn"})),
    **dict.fromkeys(("abs", "neg", "copysign"), frozenset()),
    **dict.fromkeys(("min", "max"), frozenset({"NaN"})),
    **dict.fromkeys(("setp", "set"), _COMPARISONS | {"u32", "s32"}),
    "testp": frozenset(
        "finite infinite number notanumber normal subnormal".split(),
    ),
}
_MATRIX = frozenset({"mma", "wgmma", "wmma", "tcgen05"})
_MEMORY = frozenset({"atom", "red", "redux"})


def element_type(word: str) -> str | None:
    """`bf16` for `bf16` and `bf16x2`; None if the word is no floating-point type."""
    for packing in _PACKING:
        word = word.removesuffix(packing)
    return word if word in FORMATS else None


def permission(instruction: Instruction) -> str | None:
    """The name by which a claim allows an instruction; None if it needs no permission."""
    types = [kind for word in instruction.modifiers if (kind := element_type(word)) is not None]
    opcode = instruction.opcode
    if not types or opcode in _MOVES or is_unrounded(instruction):
        return None
    if opcode in _MATRIX:
        return _matrix(opcode, types)
    if opcode in _MEMORY:
        return _named(opcode, [w for w in instruction.modifiers if w in ("add", "min", "max")], [])
    words = [word for word in instruction.modifiers if element_type(word) is None]
    if opcode == "cvt":
        return _conversion(words, types)
    if opcode in _IEEE and set(words) <= _IEEE[opcode]:
        return None
    if opcode in ("setp", "set"):
        words = [word for word in words if word not in _IEEE[opcode]]
    return _named(opcode, words, types[:1])


def is_numeric(instruction: Instruction) -> bool:
    """Whether it computes with floating-point numbers, beyond moving them."""
    return instruction.opcode not in _MOVES and any(map(element_type, instruction.modifiers))


def census(entry: Entry) -> Counter[str]:
    """How many numeric instructions of each name a kernel's PTX has."""
    return Counter(instruction.name for instruction in entry.body if is_numeric(instruction))


def _matrix(opcode: str, types: list[str]) -> str:
    """The type of the factors; also that of the accumulator, where it is not f32."""
    accumulator, factor = types[0], types[1] if len(types) > 1 else types[0]
    return _named(opcode, [], [factor] if accumulator == "f32" else [factor, accumulator])


def _conversion(words: list[str], types: list[str]) -> str | None:
    """Exact and nearest conversions are IEEE 754's; so are those to integers in any direction."""
    unusual = [word for word in words if word in ("rz", "rm", "rp", "rna", "ftz", "sat", "relu")]
    unusual += [word for word in words if word == "satfinite"]
    if unusual or "tf32" in types:
        return _named("cvt", unusual, types[:1])
    # Between integers and floats there is one floating-point type and always a rounding modifier.
    narrows = len(types) == 2 and FORMATS[types[0]].precision < FORMATS[types[1]].precision
    if narrows and "rn" not in words and not _INTEGER_ROUNDINGS.intersection(words):
        return _named("cvt", [], types)
    return None


def _named(opcode: str, words: list[str], types: list[str]) -> str:
    shown = [word for word in words if word != "rn"]
    return ".".join((opcode, *shown, *(kind for kind in types if kind != "f32")))


@dataclass(frozen=True, slots=True)
class Foreign:
    """Arithmetic of the machine code that its PTX line does not ask for.

    Attributes:
        arithmetic: what the machine code holds.
        line: the PTX line it implements; `UNKNOWN_LINE` if that is not known.
        instructions: the PTX instructions of that line.
    """

    arithmetic: Arithmetic
    line: int
    instructions: tuple[Instruction, ...]


# PTX instructions that ptxas expands with fused multiply-adds, and with approximate functions;
# divisions of integers among them.
_FUNCTIONS = frozenset("div rem sqrt rcp rsqrt ex2 lg2 sin cos tanh".split())
_FUSED = _FUNCTIONS | {"fma", "mad"}


def foreign(entry: Entry, listing: str) -> Iterator[Foreign]:
    """Fused multiply-adds and approximate functions that the PTX does not ask for.

    Args:
        entry: the kernel.
        listing: what `sass.disassemble` gives for its cubin.
    """
    for line, found in sorted(sass.arithmetic(_own_code(entry.name, listing)).items()):
        here = tuple(i for i in entry.body if i.line == line and line != UNKNOWN_LINE)
        opcodes = {instruction.opcode for instruction in here}
        for arithmetic in sorted(found, key=str):
            allowed = _EXPANSIONS.get(arithmetic.operation)
            if allowed is not None and opcodes.isdisjoint(allowed):
                yield Foreign(arithmetic, line, here)


_EXPANSIONS = {Operation.FUSED: _FUSED, Operation.FUNCTION: _FUNCTIONS}


def _own_code(kernel: str, listing: str) -> str:
    """The kernel's section up to the first subroutine of ptxas.

    Subroutines (the slow paths of IEEE divisions and roots, divisions of integers) are called from
    the lines that need them and have no PTX lines of their own.
    """
    _, found, section = listing.partition(f"\n.text.{kernel}:\n")
    if not found:
        raise ValueError(f"the machine code has no section of kernel {kernel}")
    return re.split(r"^(?:\$__internal_\S+:|\t\.section\t)", section, maxsplit=1, flags=re.M)[0]
