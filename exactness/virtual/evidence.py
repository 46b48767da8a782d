"""What the machine code says about each place that PTX leaves open.

Everything here reads `sass.arithmetic`: the floating-point operations that implement a PTX line,
without registers, schedule and unrolling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from exactness.virtual.errors import VirtualHopperError
from exactness.virtual.freedoms import Freedoms, Kind, Product, Sum
from exactness.virtual.ptx import Instruction
from exactness.virtual.rewriting import division_scale
from exactness.virtual.sass import Arithmetic, Operation

Lines: TypeAlias = Mapping[int, frozenset[Arithmetic]]


class FusionError(VirtualHopperError):
    """ptxas changed the arithmetic in a way that cannot be taken from its output with certainty."""


def choices(freedoms: Freedoms, lines: Lines) -> dict[Instruction, int]:
    """Which operand each sum absorbed, where its PTX line holds a fused instruction."""
    sums = {total.instruction: total for total in freedoms.sums}
    chosen = {}
    for instruction in freedoms.unrounded:
        if instruction.opcode == "mul":
            continue
        operations = {found.operation for found in lines.get(instruction.line, frozenset())}
        if Operation.FUSED not in operations:
            continue
        total = sums.get(instruction)
        if total is None:
            raise _refusal(
                "it is contracted with a product that was not found", freedoms, instruction
            )
        if Operation.ADD in operations:
            raise _refusal("it is contracted in some copies and not in others", freedoms, total)
        merged = [
            position
            for position, product in total.products.items()
            if not _stands_alone(product, freedoms, lines)
        ]
        if len(merged) != 1:
            raise _refusal("which of its operands is contracted is not certain", freedoms, total)
        chosen[instruction] = merged[0]
    return chosen


def _stands_alone(product: Product, freedoms: Freedoms, lines: Lines) -> bool:
    """Whether the machine code still rounds this product."""
    found = lines.get(product.instruction.line, frozenset())
    multiplications = [a for a in found if a.operation is Operation.MULTIPLY]
    if product.kind is Kind.DIVIDE:
        return any(not a.immediates for a in multiplications)
    if product.kind is Kind.DIVIDE_CONSTANT:
        divisor = freedoms.divisions[product.instruction]
        scaled = division_scale(product.instruction, divisor) != 1
        return len(multiplications) > int(scaled)
    return bool(multiplications)


def check_divisions(freedoms: Freedoms, lines: Lines) -> None:
    """A divisor that is constant after unrolling is folded, unseen in the PTX."""
    for instruction in freedoms.unproven:
        found = lines.get(instruction.line, frozenset())
        scales = {("0.25",), ("16777216",), ()}
        inverted = any(a.operation is Operation.FUNCTION for a in found)
        folded = any(
            a.operation is Operation.MULTIPLY and a.immediates not in scales for a in found
        )
        if found and (folded or not inverted):
            raise _refusal("its divisor is a constant after unrolling", freedoms, instruction)


def compare(freedoms: Freedoms, actual: Lines, resolved: Lines) -> None:
    """Refuse unless both have the same arithmetic wherever there was something to decide."""
    # x / ±1 is exact, whether ptxas keeps the multiplication or not.
    divisions = (i for i, divisor in freedoms.divisions.items() if abs(divisor) != 1)
    open_places = (*freedoms.unrounded, *divisions, *freedoms.functions)
    merged = (p.instruction for total in freedoms.sums for p in total.products.values())
    for instruction in sorted({*open_places, *merged}, key=lambda i: i.line):
        line = instruction.line
        if _needed(actual, line) != _needed(resolved, line):
            raise _refusal(
                f"the machine code has {_words(actual, line)} where {_words(resolved, line)} was"
                " expected",
                freedoms,
                instruction,
            )


def _needed(lines: Lines, line: int) -> frozenset[Arithmetic]:
    """The arithmetic of a line without what ptxas may leave out and keep every bit.

    That is x·1, and (x·0)·0, which is x·0; it does so once it knows that a masked load gave 0.
    """
    found = lines.get(line, frozenset())
    redundant = (("0",), ("1",))
    return frozenset(
        a for a in found if a.operation is not Operation.MULTIPLY or a.immediates not in redundant
    )


def _words(lines: Lines, line: int) -> str:
    found = lines.get(line, frozenset())
    names = sorted(" ".join((a.operation.value, a.flavour, *a.immediates)) for a in found)
    return " and ".join(names) if names else "nothing"


def _refusal(what: str, freedoms: Freedoms, place: Instruction | Sum) -> FusionError:
    """The error, with the pair and its source lines."""
    instruction = place.instruction if isinstance(place, Sum) else place
    lines = [f"what ptxas made of this instruction cannot be resolved: {what}"]
    if isinstance(place, Sum):
        for product in place.products.values():
            source = product.instruction.location
            lines.append(f"  product: {product.instruction.text}  ({source or 'no source line'})")
    lines.append("  Launch the kernel with enable_fp_fusion=False, or write the fma out.")
    return FusionError("\n".join(lines), kernel=freedoms.entry.name, instruction=instruction)
