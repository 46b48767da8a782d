"""What a check is, and what it runs with."""

from __future__ import annotations

import abc
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exactness import arrays
from exactness.arithmetic import Launch, Value
from exactness.arithmetic.hopper import Hopper
from exactness.bits import Bits, from_payload
from exactness.catalogue import Catalogue, Entry
from exactness.checks.outcome import GOOD, Evidence, Outcome, Status
from exactness.claim import Claim, Variant
from exactness.formats import f32
from exactness.golden import GoldenStore
from exactness.inputs import Example
from exactness.machines import Machine

KERNEL_REFERENCE = "kernel = reference"
KERNEL_REFERENCE_UNROUNDED = "kernel = reference before the last rounding"
KERNEL_GOLDEN = "kernel = golden"
REFERENCE_GOLDEN = "reference = golden"
REFERENCE_DEVICES = "reference on GPU = reference on CPU"
INPUT_KEPT = "input after = input before"


@dataclass(frozen=True)
class ReferenceRun:
    """What a reference gave.

    Attributes:
        outputs: bits by name.
        results: the same as the program returned them.
        launches: the launches of the chain.
    """

    outputs: Mapping[str, Bits]
    results: Mapping[str, Any]
    launches: list[Launch]

    def unrounded(self, name: str) -> Bits:
        """An output before its last rounding, as f32 bits (a value that had none: as it is)."""
        value = self.results[name]
        payload = value.payload if value.unrounded is None else value.unrounded
        return from_payload(arrays.astype(payload, "float32"), f32)


@dataclass(frozen=True)
class Context:
    """What checks share.

    Attributes:
        catalogue: finds references.
        golden: the recordings.
        machine: runs kernels.
        examples: Hypothesis examples a property check draws.
        mutants: how many mutants of a claim's reference, and about how many faults of its kernel,
            are judged; None for all.
        seed: added to every seed that comes from a check's id; 0 is the default run.
    """

    catalogue: Catalogue
    golden: GoldenStore
    machine: Machine
    examples: int
    mutants: int | None = None
    seed: int = 0

    def reference(
        self, claim: Claim, arguments: Mapping[str, Any], variant: Variant | None = None
    ) -> ReferenceRun:
        """Run a claim's reference."""
        program = self.catalogue.reference((variant or claim).reference)
        arithmetic = Hopper()
        result = arithmetic.run(program, _copied(arguments))
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(claim.output_names):
            raise TypeError(
                f"reference {claim.reference} returned {len(results)} results; "
                f"the claim names {', '.join(claim.output_names)}"
            )
        named = dict(zip(claim.output_names, results, strict=True))
        outputs = {name: bits_of(value) for name, value in named.items()}
        return ReferenceRun(outputs, named, arithmetic.launches)

    def compare_kernel(
        self,
        evidence: Evidence,
        claim: Claim,
        example: Example,
        variant: Variant | None = None,
        *,
        note: str = "",
    ) -> None:
        """Run kernel and reference on an example and compare outputs and inputs.

        Args:
            evidence: where findings go.
            claim: the claim.
            example: the arguments.
            variant: the opt-in variant to compare with its own reference.
            note: stands before the example's label in a report.
        """
        where = f"{note}{example.label}"
        expected = self.reference(claim, example.arguments("cpu"), variant)
        arguments = example.arguments(self.machine.device)
        if self.machine.device == "cuda":
            on_gpu = self.reference(claim, arguments, variant)
            for name, bits in on_gpu.outputs.items():
                evidence.compare(REFERENCE_DEVICES, name, where, bits, expected.outputs[name])
        if claim.unrounded is not None and variant is None:
            self._compare_unrounded(evidence, claim, arguments, expected, where)
        actual = self.machine.run(claim, arguments, variant)
        for name, tensor in actual.items():
            evidence.compare(KERNEL_REFERENCE, name, where, tensor, expected.outputs[name])
        for name, draw in example.tensors.items():
            if name not in claim.mutates:
                evidence.compare(INPUT_KEPT, name, where, arguments[name], draw.tensor("cpu"))
        evidence.cases += 1

    def _compare_unrounded(
        self,
        evidence: Evidence,
        claim: Claim,
        arguments: Mapping[str, Any],
        expected: ReferenceRun,
        where: str,
    ) -> None:
        """The same kernel storing f32: differences that the last rounding would hide."""
        wide = self.machine.run(claim, arguments, unrounded=True)
        for name in claim.outputs:
            evidence.compare(
                KERNEL_REFERENCE_UNROUNDED, name, where, wide[name], expected.unrounded(name)
            )


def _copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors cloned: a reference must not see what a kernel writes in place."""
    return {k: v.clone() if hasattr(v, "clone") else v for k, v in arguments.items()}


def bits_of(result: Any) -> Bits:
    """The bits of what a reference returned: a value, or a plain integer array."""
    if isinstance(result, Value):
        return from_payload(result.payload, result.format)
    return Bits.of(result)


class Check(abc.ABC):
    """One check of one claim.

    Attributes:
        kind: the family of checks it belongs to.
        id: unique within the claim.
    """

    kind: str

    def __init__(self, entry: Entry, check_id: str) -> None:
        self.entry = entry
        self.id = check_id

    @property
    def claim(self) -> Claim:
        """The claim it checks."""
        return self.entry.claim

    @property
    def node_id(self) -> str:
        """`kernels/qnorm.py::qnorm[golden-7x96_rn]`, relative to the project."""
        file = self.entry.file
        return f"{file.parent.name}/{file.name}::{self.claim.name}[{self.id}]"

    @abc.abstractmethod
    def gather(self, context: Context, evidence: Evidence) -> None:
        """Compare, and put what was found into `evidence`."""

    def run(self, context: Context) -> Outcome:
        """Run the check; an exception becomes an outcome of status ERROR."""
        started, evidence, message = time.perf_counter(), Evidence(), ""
        try:
            self.gather(context, evidence)
            status = evidence.status
            message = "\n".join(evidence.problems)
        except Exception as error:
            status = Status.ERROR
            # Hypothesis notes the example at length; the reproduction line says it in one.
            error.__notes__ = []
            message = "".join(traceback.format_exception(error)).strip()
        if status is Status.NOT_RUN and not evidence.not_run:
            evidence.skip(self.kind, "there was nothing to compare")
        return Outcome(
            claim=self.claim.name,
            check=self.id,
            kind=self.kind,
            status=status,
            machine=context.machine.name,
            cases=evidence.cases,
            elements=sum(evidence.edges.values()),
            edges=evidence.edges,
            max_ulps=evidence.max_ulps,
            mismatches=tuple(evidence.mismatches),
            message=message,
            reproduction="" if status in GOOD else evidence.reproduction,
            not_run=tuple(evidence.not_run),
            vacuous=evidence.vacuous,
            proof=evidence.proof,
            judgements=tuple(evidence.judgements),
            notes=tuple(evidence.notes),
            seconds=time.perf_counter() - started,
        )
