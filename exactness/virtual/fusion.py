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
from dataclasses import dataclass, field
from enum import Enum

from exactness.virtual import ptx, sass
from exactness.virtual.errors import LaunchError
from exactness.virtual.evidence import FusionError, Lines, check_divisions, choices, compare
from exactness.virtual.freedoms import Freedoms, find
from exactness.virtual.inlining import called
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
    source = _Source(text, kernel, tuple(options))
    actual = sass.assemble(text, options) if cubin is None else cubin
    if f".text.{kernel}" not in sass.code(actual):
        raise LaunchError(f"the cubin has no kernel {kernel!r}")
    for part in source.parts:
        if part.unproven:
            check_divisions(part, _evidence(source, actual))
    if all(part.nothing_to_decide for part in source.parts) and _is_explicit(source, actual):
        return Resolved(text, source.module, Verdict((), (), Proof.EXPLICIT))
    for fused in ({}, _usual(source.parts)):
        decided = source.decided(fused)
        if source.code(sass.assemble(decided, options)) == source.code(actual):
            return _resolved(decided, source.parts, fused, Proof.SAME_CODE)
    return _contracted(source, actual)


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
    source = _Source(text, kernel, tuple(options))
    unrounded = tuple(i for part in source.parts for i in part.unrounded)
    same_code = source.assembled(fuse=True) == source.assembled(fuse=False)
    return FusionFree(unrounded, _folded(source.parts), same_code)


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A kernel's PTX text, with the device functions that it calls.

    Attributes:
        text: of the module.
        kernel: the entry's name.
        options: of ptxas.
        module: the text, parsed.
        parts: what the kernel and each of its functions leave open.
    """

    text: str
    kernel: str
    options: tuple[str, ...]
    module: Module = field(init=False)
    parts: tuple[Freedoms, ...] = field(init=False)

    def __post_init__(self) -> None:
        module = ptx.parse(self.text)
        if self.kernel not in module.entries:
            known = ", ".join(module.entries) or "none"
            raise LaunchError(f"kernel is {self.kernel!r}; the PTX module has: {known}")
        entry = module.entries[self.kernel]
        object.__setattr__(self, "module", module)
        object.__setattr__(self, "parts", tuple(map(find, (entry, *called(entry)))))

    def decided(self, fused: Mapping[Instruction, int]) -> str:
        """The text with every freedom decided: sum to the operand that it absorbs."""
        text = self.text
        for part in self.parts:
            text = rewrite(text, part, fused)
        return text

    def code(self, cubin: bytes) -> Mapping[str, bytes]:
        """The machine code that this kernel runs: all but the module's other kernels."""
        others = tuple(f".{name}" for name in self.module.entries if name != self.kernel)
        return {name: data for name, data in sass.code(cubin).items() if not name.endswith(others)}

    def assembled(self, *, fuse: bool) -> Mapping[str, bytes]:
        """The machine code with and without contraction, whatever the options say."""
        others = [option for option in self.options if option != NO_CONTRACTION]
        options = others if fuse else [*others, NO_CONTRACTION]
        return self.code(sass.assemble(self.text, options))


def _is_explicit(source: _Source, actual: bytes) -> bool:
    """Nothing is open if flipping --fmad does not change the machine code."""
    flipped = source.assembled(fuse=NO_CONTRACTION in source.options)
    if flipped == source.code(actual):
        return True
    # Another ptxas gave the cubin, perhaps; the one here must still find nothing to decide.
    if flipped == source.assembled(fuse=NO_CONTRACTION not in source.options):
        return True
    raise FusionError(
        "the machine code changes with --fmad=false although every add, sub and mul is rounded",
        kernel=source.kernel,
    )


def _arithmetic(cubin: bytes) -> Lines:
    return sass.arithmetic(sass.disassemble(cubin))


def _evidence(source: _Source, actual: bytes) -> Lines:
    """The arithmetic of each PTX line; a cubin without line information is assembled again."""
    lines = _arithmetic(actual)
    if sass.UNKNOWN_LINE not in lines:
        return lines
    again = sass.assemble(source.text, source.options)
    if source.code(again) != source.code(actual):
        raise FusionError("the cubin has no line information, and its PTX assembles to other code")
    return _arithmetic(again)


def _usual(parts: Sequence[Freedoms]) -> dict[Instruction, int]:
    """What ptxas does as a rule: absorb the first operand whose readers can all absorb it.

    A first try, which spares the disassembly if the machine code agrees.
    """
    sums = [total for part in parts for total in part.sums]
    counted = Counter(p.instruction for t in sums for p in t.products.values())
    chosen = {}
    for total in sums:
        for position, product in sorted(total.products.items()):
            if counted[product.instruction] == product.users:
                chosen[total.instruction] = position
                break
    return chosen


def _contracted(source: _Source, actual: bytes) -> Resolved:
    """Take the contractions from the machine code, and check that they explain all of it."""
    lines = _evidence(source, actual)
    fused: dict[Instruction, int] = {}
    for part in source.parts:
        fused |= choices(part, lines)
    decided = source.decided(fused)
    assembled = sass.assemble(decided, source.options)
    proof = Proof.SAME_CODE
    if source.code(assembled) != source.code(actual):
        resolved = _arithmetic(assembled)
        for part in source.parts:
            compare(part, lines, resolved)
        proof = Proof.SAME_ARITHMETIC
    return _resolved(decided, source.parts, fused, proof)


def _resolved(
    text: str, parts: Sequence[Freedoms], fused: Mapping[Instruction, int], proof: Proof
) -> Resolved:
    pairs = tuple(
        Contraction(total.products[fused[total.instruction]].instruction, total.instruction)
        for part in parts
        for total in part.sums
        if total.instruction in fused
    )
    return Resolved(text, ptx.parse(text), Verdict(pairs, _folded(parts), proof))


def _folded(parts: Sequence[Freedoms]) -> tuple[Instruction, ...]:
    """Divisions by and functions of constants."""
    return tuple(i for part in parts for i in (*part.divisions, *part.functions))
