"""Kernel against reference: on the claim's cases, and on whatever Hypothesis finds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from exactness.catalogue import Entry
from exactness.checks.base import KERNEL_REFERENCE, Check, Context
from exactness.checks.outcome import Evidence
from exactness.claim import Variant
from exactness.inputs import Example
from exactness.inputs.patterns import FAMILIES, seed_of


def runs(check: Check, context: Context, evidence: Evidence) -> bool:
    """Whether the kernel runs on this machine; if not, the evidence says why."""
    reason = context.machine.refuses(check.claim)
    if reason:
        evidence.skip(KERNEL_REFERENCE, reason)
    return reason is None


class CaseCheck(Check):
    """Given sizes, filled with every family of patterns in turn."""

    kind = "case"

    def __init__(self, entry: Entry, case: Mapping[str, Any]) -> None:
        super().__init__(entry, "-".join(f"{name}={value}" for name, value in case.items()))
        self.case = case

    def gather(self, context: Context, evidence: Evidence) -> None:
        """One example a family."""
        if not runs(self, context, evidence):
            return
        for _, example in self.examples(context):
            context.compare_kernel(evidence, self.claim, example)
            if evidence.failed and not evidence.reproduction:
                evidence.reproduction = reproduction(self, example)

    def examples(self, context: Context) -> Iterator[tuple[str, Example]]:
        """The family and the example, one a family."""
        for family in FAMILIES:
            label = f"{self.node_id}/{family}/{context.seed}"
            yield family, self.claim.inputs.example(label, family=family, **self.case)


class PropertyCheck(Check):
    """Hypothesis searches sizes, values, layouts and parameters for a difference."""

    kind = "property"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "property")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Draw `context.examples` examples; keep the simplest that differs."""
        if runs(self, context, evidence):
            search(self, context, evidence, context.examples)


class VariantCheck(Check):
    """An opt-in variant equals its own reference and differs from the default."""

    kind = "variant"

    def __init__(self, entry: Entry, variant: Variant) -> None:
        super().__init__(entry, variant.name)
        self.variant = variant

    def gather(self, context: Context, evidence: Evidence) -> None:
        """A search against the variant's reference, then the control on the claim's cases."""
        if not runs(self, context, evidence):
            return
        search(self, context, evidence, max(context.examples // 2, 1), self.variant)
        if evidence.failed:
            return
        differing, compared = self._difference(context)
        evidence.note(f"differs from the default in {differing} of {compared} elements")
        if not differing:
            evidence.problem(
                f"variant {self.variant.name} gave the default's bits on all {compared} elements "
                "of the claim's cases: either it was not switched on or it is no variant"
            )

    def _difference(self, context: Context) -> tuple[int, int]:
        """Elements in which the kernel's two arithmetics differ on the claim's cases."""
        between = Evidence()
        for case in self.claim.cases:
            example = self.claim.inputs.example(f"{self.node_id}/{case}", **case)
            arguments = [example.arguments(context.machine.device) for _ in range(2)]
            default = context.machine.run(self.claim, arguments[0])
            opted = context.machine.run(self.claim, arguments[1], self.variant)
            for name in default:
                between.compare("variant = default", name, "", opted[name], default[name])
        differing = sum(mismatch.diff.mismatches for mismatch in between.mismatches)
        return differing, sum(between.edges.values())


class ExampleCheck(Check):
    """One example given as JSON: the replay of a printed failure."""

    kind = "example"

    def __init__(self, entry: Entry, example: Example, variant: Variant | None = None) -> None:
        super().__init__(entry, "example")
        self.example, self.variant = example, variant

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Compare on this example alone."""
        if runs(self, context, evidence):
            context.compare_kernel(evidence, self.claim, self.example, self.variant)


class _Differs(Exception):
    """Tells Hypothesis that an example fails; carries what was found."""

    def __init__(self, example: Example, found: Evidence) -> None:
        super().__init__(example.label)
        self.example, self.found = example, found


def search(
    check: Check,
    context: Context,
    evidence: Evidence,
    examples: int,
    variant: Variant | None = None,
) -> None:
    """Look for an example on which kernel and reference differ; shrink the first that does."""

    def differs(example: Example) -> None:
        found = Evidence()
        try:
            context.compare_kernel(found, check.claim, example, variant)
        except Exception:
            evidence.reproduction = reproduction(check, example, variant)
            raise
        if found.failed:
            raise _Differs(example, found)
        _merge(evidence, found)

    seed = seed_of(check.node_id) + context.seed
    try:
        _hypothesis(check.claim.inputs.strategy(), differs, examples, seed)
    except _Differs as failure:
        evidence.mismatches += failure.found.mismatches
        evidence.problems += failure.found.problems
        evidence.max_ulps = max(evidence.max_ulps, failure.found.max_ulps)
        evidence.note(f"simplest differing example: {failure.example.label}")
        evidence.reproduction = reproduction(check, failure.example, variant)


def _merge(evidence: Evidence, found: Evidence) -> None:
    evidence.cases += found.cases
    evidence.vacuous += found.vacuous
    for edge, elements in found.edges.items():
        evidence.edges[edge] = evidence.edges.get(edge, 0) + elements


def _hypothesis(strategy: Any, test: Callable[[Example], None], examples: int, seed: int) -> None:
    """Run `test` over examples from a seed, without a database: the run is a pure function."""
    import hypothesis

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def run(example: Example) -> None:
        test(example)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)
        run()


def drawn_examples(strategy: Any, count: int, seed: int) -> list[Example]:
    """The examples that a search with this seed goes through when it finds nothing."""
    found: list[Example] = []
    _hypothesis(strategy, found.append, count, seed)
    return found


def reproduction(check: Check, example: Example, variant: Variant | None = None) -> str:
    """A command line that shows the failure again."""
    option = f" --variant {variant.name}" if variant else ""
    return f"exactness verify {check.claim.name}{option} --example '{example.to_json()}'"
