"""Which contractions the silicon executes, and a PTX text that says so.

PTX is not the last word: ptxas may contract, fold and merge what the text leaves open (`freedoms`).
The cubin is. `resolve` therefore decides every such place from the machine code that implements its
PTX line, prints PTX that leaves nothing open, assembles that with the same options, and accepts it
only if the outcome is the same: the same machine code, or at least the same arithmetic on every PTX
line where there was something to decide. Anything else is refused by name. Nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from exactness.virtual import ptx, sass
from exactness.virtual.errors import LaunchError
from exactness.virtual.evidence import FusionError, Lines, check_divisions, choices, compare
from exactness.virtual.freedoms import Freedoms, find
from exactness.virtual.ptx import Instruction, Module
from exactness.virtual.rewriting import rewrite

__all__ = [
    "NO_CONTRACTION",
    "Contraction",
    "FusionError",
    "FusionFree",
    "Proof",
    "Resolved",
    "Verdict",
    "check_fusion_free",
    "resolve",
]

NO_CONTRACTION = "--fmad=false"


class Proof(Enum):
    """Why the resolved PTX has the bits of the cubin."""

    EXPLICIT = "the PTX leaves nothing open, and --fmad=false makes no difference"
    SAME_CODE = "the resolved PTX assembles to the same machine code"
    SAME_ARITHMETIC = "the resolved PTX assembles to the same arithmetic on every PTX line"


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product that the machine code adds without rounding it first."""

    product: Instruction
    total: Instruction


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about a kernel.

    Attributes:
        contractions: products merged into sums by ptxas.
        folded: divisions by and functions of constants that ptxas evaluated itself.
        proof: why this is what the cubin does.
    """

    contractions: tuple[Contraction, ...]
    folded: tuple[Instruction, ...]
    proof: Proof


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """PTX that means what the cubin does.

    Attributes:
        text: the PTX; line by line the program that went in.
        module: the same, parsed.
        verdict: what was decided.
    """

    text: str
    module: Module
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FusionFree:
    """Whether a kernel's arithmetic depends on nothing but its PTX.

    Attributes:
        unrounded: floating-point add, sub and mul without rounding modifier.
        folded: divisions by and functions of constants, which ptxas evaluates at any setting.
        same_code: whether the machine code is the same with and without --fmad=false.
    """

    unrounded: tuple[Instruction, ...]
    folded: tuple[Instruction, ...]
    same_code: bool

    def __bool__(self) -> bool:
        """True if contraction has no say; folded constants do not count, they never vary."""
        return self.same_code and not self.unrounded


def resolve(
    text: str, kernel: str, *, options: Sequence[str] = (), cubin: bytes | None = None
) -> Resolved:
    """Decide everything that `text` leaves to ptxas.

    Args:
        text: the PTX of a module.
        kernel: the name of its entry.
        options: the ptxas options it is assembled with, "--fmad=false" among them if it is.
        cubin: the machine code in use; assembled here if not given.

    Returns:
        The PTX to execute, and the verdict.

    Raises:
        FusionError: the arithmetic of the cubin cannot be expressed with certainty.
        LaunchError: the module has no such kernel.
        sass.ToolError: ptxas or nvdisasm is missing.
    """
    module = ptx.parse(text)
    freedoms = _freedoms(module, kernel)
    actual = sass.assemble(text, options) if cubin is None else cubin
    if freedoms.unproven:
        check_divisions(freedoms, _evidence(text, options, actual))
    if freedoms.nothing_to_decide and _is_explicit(text, options, actual, freedoms):
        return Resolved(text, module, Verdict((), (), Proof.EXPLICIT))
    for fused in ({}, _usual(freedoms)):
        decided = rewrite(text, freedoms, fused)
        if sass.code(sass.assemble(decided, options)) == sass.code(actual):
            return _resolved(decided, freedoms, fused, Proof.SAME_CODE)
    return _contracted(text, freedoms, options, actual)


def check_fusion_free(text: str, kernel: str, options: Sequence[str] = ()) -> FusionFree:
    """Whether contraction has no say in a kernel: a property that our own kernels must have.

    Args:
        text: the PTX of a module.
        kernel: the name of its entry.
        options: the ptxas options it is assembled with; "--fmad=false" is added and left out here.

    Returns:
        The finding; true if every floating-point add, sub and mul carries a rounding modifier and
        the machine code is the same under "--fmad=false".

    Raises:
        LaunchError: the module has no such kernel.
        sass.ToolError: ptxas is missing.
    """
    freedoms = _freedoms(ptx.parse(text), kernel)
    with_fusion, without = (_code(text, options, fuse=fuse) for fuse in (True, False))
    folded = (*freedoms.divisions, *freedoms.functions)
    return FusionFree(freedoms.unrounded, folded, with_fusion == without)


def _freedoms(module: Module, kernel: str) -> Freedoms:
    if kernel not in module.entries:
        known = ", ".join(module.entries) or "none"
        raise LaunchError(f"kernel is {kernel!r}; the PTX module has: {known}")
    return find(module.entries[kernel])


def _code(text: str, options: Sequence[str], *, fuse: bool) -> Mapping[str, bytes]:
    others = [option for option in options if option != NO_CONTRACTION]
    return sass.code(sass.assemble(text, others if fuse else [*others, NO_CONTRACTION]))


def _is_explicit(text: str, options: Sequence[str], actual: bytes, freedoms: Freedoms) -> bool:
    """The check that DESIGN asks for: flipping --fmad must not change the machine code."""
    flipped = NO_CONTRACTION in options
    if _code(text, options, fuse=flipped) == sass.code(actual):
        return True
    raise FusionError(
        "the machine code changes with --fmad=false although every add, sub and mul is rounded",
        kernel=freedoms.entry.name,
    )


def _arithmetic(cubin: bytes) -> Lines:
    return sass.arithmetic(sass.disassemble(cubin))


def _evidence(text: str, options: Sequence[str], actual: bytes) -> Lines:
    """The arithmetic of each PTX line; a cubin without line information is assembled again."""
    lines = _arithmetic(actual)
    if sass.UNKNOWN_LINE not in lines:
        return lines
    again = sass.assemble(text, options)
    if sass.code(again) != sass.code(actual):
        raise FusionError("the cubin has no line information, and its PTX assembles to other code")
    return _arithmetic(again)


def _usual(freedoms: Freedoms) -> dict[Instruction, int]:
    """What ptxas does as a rule: absorb the first operand whose readers can all absorb it.

    A first try, which spares the disassembly if the machine code agrees.
    """
    counted = Counter(p.instruction for t in freedoms.sums for p in t.products.values())
    chosen = {}
    for total in freedoms.sums:
        for position, product in sorted(total.products.items()):
            if counted[product.instruction] == product.users:
                chosen[total.instruction] = position
                break
    return chosen


def _contracted(text: str, freedoms: Freedoms, options: Sequence[str], actual: bytes) -> Resolved:
    """Take the contractions from the machine code, and check that they explain all of it."""
    lines = _evidence(text, options, actual)
    fused = choices(freedoms, lines)
    decided = rewrite(text, freedoms, fused)
    assembled = sass.assemble(decided, options)
    proof = Proof.SAME_CODE
    if sass.code(assembled) != sass.code(actual):
        compare(freedoms, lines, _arithmetic(assembled))
        proof = Proof.SAME_ARITHMETIC
    return _resolved(decided, freedoms, fused, proof)


def _resolved(
    text: str, freedoms: Freedoms, fused: Mapping[Instruction, int], proof: Proof
) -> Resolved:
    pairs = tuple(
        Contraction(total.products[fused[total.instruction]].instruction, total.instruction)
        for total in freedoms.sums
        if total.instruction in fused
    )
    verdict = Verdict(pairs, (*freedoms.divisions, *freedoms.functions), proof)
    return Resolved(text, ptx.parse(text), verdict)
