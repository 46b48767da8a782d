"""Reference and kernel against the bits recorded from the published baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exactness.arithmetic import Launch
from exactness.bits import Bits
from exactness.catalogue import Entry
from exactness.checks.base import (
    KERNEL_GOLDEN,
    REFERENCE_GOLDEN,
    Check,
    Context,
    bits_of,
)
from exactness.checks.outcome import Evidence
from exactness.golden import Case


class GoldenCheck(Check):
    """One recorded case: every tensor of it is an argument, an output or an intermediate."""

    kind = "golden"

    def __init__(self, entry: Entry, case: Case) -> None:
        name = case.name if case.prefix == entry.claim.name else f"{case.prefix}.{case.name}"
        super().__init__(entry, f"golden-{name}")
        self.case = case

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Compare the launches in order, then the outputs, then the kernel's outputs."""
        evidence.reproduction = (
            f"exactness verify {self.claim.name} --golden {self.case.file.path} -k {self.id}"
        )
        recorded = self.case.load()
        arguments = self.arguments(recorded)
        outputs = {n: t for n, t in recorded.items() if n in self.claim.output_names}
        rest = [n for n in recorded if n not in arguments and n not in outputs]
        if not outputs:
            names = ", ".join(self.claim.output_names)
            evidence.problem(f"{self.case.key} records none of {names}")
            return
        run = context.reference(self.claim, arguments)
        self._compare_launches(evidence, run.launches, {name: recorded[name] for name in rest})
        for name, tensor in outputs.items():
            evidence.compare(REFERENCE_GOLDEN, name, self.case.key, run.outputs[name], tensor)
        self._compare_kernel(context, evidence, arguments, outputs)
        evidence.cases += 1

    def arguments(self, recorded: Mapping[str, Bits]) -> dict[str, Any]:
        """The arguments of the case: tensors, recorded or implied, and parameters.

        Raises:
            KeyError: an input is neither recorded nor implied.
        """
        parameters = {**self.claim.case_parameters(self.case.name), **self.case.parameters}
        implied = self.claim.implied.get(self.case.name, dict)()
        given = {**{name: Bits.of(tensor) for name, tensor in implied.items()}, **recorded}
        tensors = {n: given[n] for n in self.claim.inputs.tensors if n in given}
        missing = [n for n in self.claim.inputs.tensors if n not in given]
        if missing:
            raise KeyError(f"{self.case.file.path}: {self.case.key} lacks the input {missing[0]!r}")
        return {**tensors, **parameters}

    def _compare_launches(
        self, evidence: Evidence, launches: list[Launch], recorded: Mapping[str, Bits]
    ) -> None:
        """Recorded intermediates in the order of the chain, so the first to diverge is first."""
        read: set[str] = set()
        for launch in launches:
            for name in recorded:
                if launch.answers_to(name) and len(launch.results) == 1:
                    result = bits_of(launch.results[0])
                    evidence.compare(REFERENCE_GOLDEN, name, self.case.key, result, recorded[name])
                    read.add(name)
        for name in recorded.keys() - read:
            evidence.problem(
                f"recorded tensor {self.case.key}/{name} is read by no check: it is no argument, "
                "no output and no launch of the reference"
            )

    def _compare_kernel(
        self,
        context: Context,
        evidence: Evidence,
        arguments: dict[str, Any],
        outputs: Mapping[str, Bits],
    ) -> None:
        reason = context.machine.refuses(self.claim) or self._foreign(context)
        if reason:
            evidence.skip(KERNEL_GOLDEN, reason)
            return
        device = context.machine.device
        moved = {n: v.torch(device) if isinstance(v, Bits) else v for n, v in arguments.items()}
        actual = context.machine.run(self.claim, moved)
        for name, tensor in outputs.items():
            evidence.compare(KERNEL_GOLDEN, name, self.case.key, actual[name], tensor)

    def _foreign(self, context: Context) -> str | None:
        """Bits from another architecture are refused, not compared."""
        ours, theirs = context.machine.capability, self.case.capability
        if ours is None or theirs is None or ours == theirs:
            return None
        return f"recorded on {self.case.recorded_on} (sm_{theirs}), this is {context.machine.name}"
