"""The kernel's instructions: IEEE 754's, or named by the claim.

A kernel's bits are those of its PTX only if ptxas has nothing to decide, and its arithmetic is the
claim's only if no approximation slipped in. So, for everything that Triton compiles on the claim's
cases, with its variants and the launcher before the last rounding:

* every floating-point add, sub and mul carries a rounding modifier, and the machine code is the
  same under `--fmad=false` (else `allows` names "fusion");
* ptxas folds no division by a constant and no function of one (else "folding");
* every other numeric instruction that is not IEEE 754's stands in `allows` under the name that
  `exactness.virtual.census` gives it: "fma", "ex2.approx.ftz", "div.full", "wgmma.bf16";
* the machine code holds no fused multiply-add and no approximate function whose PTX line does not
  ask for one.

It looks at sm_90 whatever runs the kernels, so it needs Triton and NVIDIA's tools, but no GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import drawn_examples
from exactness.checks.compiled import why_not_compiled
from exactness.checks.outcome import Evidence
from exactness.inputs import Example
from exactness.inputs.patterns import seed_of

if TYPE_CHECKING:
    from exactness.virtual.instructions import Instruction
    from exactness.virtual.launcher import Launch

FUSION = "fusion"
"""Allows ptxas to contract products and sums."""
FOLDING = "folding"
"""Allows ptxas to evaluate divisions by and functions of constants."""

EDGE = "instructions are IEEE 754's or allowed"
LISTED = 12
"""Offending instructions that a message lists."""
_DRAWN = 3
"""Examples that stand in for the cases of a claim without any."""


class CodegenCheck(Check):
    """All that Triton compiles for a claim."""

    kind = "codegen"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "codegen")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Compile, and judge every instruction."""
        reason = why_not_compiled(self.claim)
        if reason is not None:
            evidence.skip(EDGE, reason)
            return
        launches = {(each.ptx, each.kernel): each for each in self._launches(evidence)}
        if not launches and not evidence.problems:
            evidence.problem("no Triton kernel was launched: there is no PTX to judge")
        judged = [Judged(launch, self._allowed) for launch in launches.values()]
        # Disassembly is slow, so of programs with the same instructions one is enough.
        longest = {each.kind: each for each in sorted(judged, key=lambda each: each.length)}
        offences: Counter[str] = Counter()
        for each in judged:
            offences.update(each.offences())
            evidence.edges[EDGE] = evidence.edges.get(EDGE, 0) + each.length
        for each in longest.values():
            offences.update(each.machine_code())
        evidence.cases = len(launches)
        self._report(evidence, offences)
        self._describe(evidence, judged)

    @property
    def _allowed(self) -> frozenset[str]:
        """The names that the claim allows; the usual type, f32, may be said or not."""
        return frozenset(name.removesuffix(".f32") for name in self.claim.allows)

    def _launches(self, evidence: Evidence) -> Iterator[Launch]:
        """Launches of the kernel, of its variants and of its unrounded form, on every case."""
        from exactness import virtual

        for example in self._examples():
            for options in self._forms():
                with virtual.hopper() as machine:
                    try:
                        self.claim.call(example.arguments("cpu"), **options)
                    except virtual.FusionError as error:
                        evidence.problem(str(error))
                yield from machine.launches

    def _forms(self) -> Iterator[dict[str, Any]]:
        yield {}
        for variant in self.claim.variants:
            yield {"variant": variant}
        if self.claim.unrounded is not None:
            yield {"unrounded": True}

    def _examples(self) -> list[Example]:
        inputs = self.claim.inputs
        if self.claim.cases:
            return [inputs.example(f"{self.node_id}/{case}", **case) for case in self.claim.cases]
        return drawn_examples(inputs.strategy(), _DRAWN, seed_of(self.node_id))

    def _report(self, evidence: Evidence, offences: Counter[str]) -> None:
        listed = list(offences.items())
        for text, count in listed[:LISTED]:
            evidence.problem(text if count == 1 else f"{text}  ({count} times)")
        if len(listed) > LISTED:
            evidence.problem(f"… and {len(listed) - LISTED} more")

    def _describe(self, evidence: Evidence, judged: list[Judged]) -> None:
        """What there was, most frequent first, and what is allowed in vain."""
        counts: Counter[str] = sum((each.counts for each in judged), Counter())
        needed = frozenset().union(*(each.needed for each in judged))
        shown = ", ".join(f"{count} {name}" for name, count in counts.most_common(LISTED))
        more = f", {len(counts) - LISTED} other names" if len(counts) > LISTED else ""
        evidence.note(f"{evidence.cases} compiled programs: {shown or 'nothing numeric'}{more}")
        unused = sorted(self._allowed - needed)
        if unused:
            evidence.note(f"allowed, and not needed on the claim's cases: {', '.join(unused)}")


class Judged:
    """One compiled program against what is allowed.

    Attributes:
        entry: its parsed PTX.
        counts: numeric instructions by name.
        needed: the names that it needs, allowed or not.
    """

    def __init__(self, launch: Launch, allowed: frozenset[str]) -> None:
        from exactness.virtual import census, ptx

        self._launch, self._allowed = launch, allowed
        self.entry = ptx.parse(launch.ptx).entries[launch.kernel]
        self.counts = census.census(self.entry)
        self.needed: set[str] = set()

    @property
    def length(self) -> int:
        """How many instructions it has."""
        return len(self.entry.body)

    @property
    def kind(self) -> tuple[str, frozenset[str]]:
        """The kernel, and the names of its numeric instructions."""
        return self._launch.kernel, frozenset(self.counts)

    def offences(self) -> Iterator[str]:
        """What is not allowed in the PTX, each naming instruction and source line."""
        yield from self._unnamed()
        yield from self._open()

    def _unnamed(self) -> Iterator[str]:
        """Instructions that are not IEEE 754's."""
        from exactness.virtual import census

        for instruction in self.entry.body:
            name = census.permission(instruction)
            if name is not None and self._lacks(name):
                yield self._at(instruction, f'{name} is not allowed: `allows` lacks "{name}"')

    def _open(self) -> Iterator[str]:
        """What the PTX leaves to ptxas."""
        from exactness.virtual.fusion import check_fusion_free

        found = check_fusion_free(self._launch.ptx, self._launch.kernel, self._launch.options)
        if found.unrounded and self._lacks(FUSION):
            for instruction in found.unrounded:
                yield self._at(instruction, "no rounding modifier: ptxas may contract it")
        elif not found.same_code and self._lacks(FUSION):
            yield f"the machine code of {self._launch.kernel} differs under --fmad=false"
        if found.folded and self._lacks(FOLDING):
            for instruction in found.folded:
                yield self._at(instruction, "ptxas evaluates it, because an operand is constant")

    def machine_code(self) -> Iterator[str]:
        """What the machine code adds to the PTX."""
        from exactness.virtual import census, sass

        cubin = sass.assemble(self._launch.ptx, self._launch.options)
        for found in census.foreign(self.entry, sass.disassemble(cubin)):
            fused = found.arithmetic.operation is sass.Operation.FUSED
            if fused and FUSION in self._allowed:
                continue
            held = f"{found.arithmetic.operation.value} {found.arithmetic.flavour}"
            what = f"the machine code holds {held}, which the PTX does not ask for"
            if not found.instructions:
                yield f"{what}: {self._launch.kernel}, PTX line {found.line}"
            for instruction in found.instructions:
                yield self._at(instruction, what)

    def _lacks(self, name: str) -> bool:
        self.needed.add(name)
        return name not in self._allowed

    def _at(self, instruction: Instruction, what: str) -> str:
        """The sentence with instruction and source line; registers are left out, copies differ."""
        place = instruction.location or self._line_above(instruction)
        return f"{what}\n  kernel {self._launch.kernel}: {instruction.name}  ({place})"

    def _line_above(self, instruction: Instruction) -> str:
        """Where the compiler gives no source line: the last one before it."""
        above = [i.location for i in self.entry.body if i.line < instruction.line and i.location]
        return f"no source line; after {above[-1]}" if above else "no source line"
