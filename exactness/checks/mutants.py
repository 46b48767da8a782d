"""Every way to get the reference wrong at one site is noticed, or is proved equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exactness.arithmetic.mutants import Mutant, Survey, survey
from exactness.arithmetic.proofs import proved_equal
from exactness.bits import Bits
from exactness.catalogue import Entry
from exactness.checks import witnesses
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import CaseCheck, drawn_examples
from exactness.checks.golden import GoldenCheck
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import (
    OF_THE_KERNEL,
    Count,
    Fate,
    Judgement,
    Trial,
    runs_needed,
    try_mutant,
)
from exactness.inputs import Example
from exactness.inputs.patterns import generator, seed_of

SEARCHED_ELEMENTS = 1_000_000
"""A mutant survives only after a search over at least so many elements …"""

SEARCHED_EXAMPLES = 300
"""… and so many examples: parameters are drawn once an example."""

SAMPLE = 12
"""Mutants judged in a default run; `--exactness-mutants all` judges all."""

_SURVEYED = 24
"""Drawn examples on which sites are collected, besides the claim's cases."""


class MutantsCheck(Check):
    """Judges a sample of the mutants, or all of them."""

    kind = "mutants"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "mutants")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Judge mutants; a survivor that the claim does not explain is a failure."""
        program = context.catalogue.reference(self.claim.reference)
        surveyed = self._survey(context, program)
        mutants = surveyed.mutants()
        if not mutants:
            evidence.skip("mutants", "the reference has no arithmetic operation to get wrong")
            return
        chosen = self._sample(mutants, context)
        judge = Judge(self, context, surveyed)
        evidence.judgements = [judge.judge(mutant) for mutant in chosen]
        evidence.cases = len(chosen)
        compared = sum(judgement.compared for judgement in evidence.judgements)
        evidence.edges["mutant ≠ reference"] = compared
        proved = sum(j.fate is Fate.PROVED_EQUAL for j in evidence.judgements)
        evidence.note(f"{len(chosen)} of {len(mutants)} mutants judged, {proved} proved equal")
        self._complain(evidence, {mutant.name for mutant in mutants})

    def _complain(self, evidence: Evidence, known: set[str]) -> None:
        for name in self.claim.equivalent.keys() - known:
            if name.startswith(OF_THE_KERNEL):
                continue
            evidence.problem(f"equivalent: the reference has no mutant {name!r}")
        for judgement in evidence.judgements:
            listed = judgement.mutant in self.claim.equivalent
            if judgement.fate is Fate.SURVIVED:
                evidence.problem(
                    f"mutant survives: {judgement.mutant}: no difference in "
                    f"{judgement.compared:,} elements of {judgement.examples} examples"
                )
            elif listed and judgement.fate is not Fate.EQUIVALENT:
                evidence.problem(
                    f"equivalent: {judgement.mutant} is listed but was {judgement.fate.value} "
                    f"({judgement.by or judgement.reason}); take it off the list"
                )

    def _survey(self, context: Context, program: Any) -> Survey:
        """Sites and mutations met on the claim's cases and on drawn examples."""
        inputs = self.claim.inputs
        examples = [inputs.example(f"{self.node_id}/{case}", **case) for case in self.claim.cases]
        seed = seed_of(f"{self.node_id}/survey")
        examples += drawn_examples(inputs.strategy(), _SURVEYED, seed)
        return survey(program, [example.arguments("cpu") for example in examples])

    def _sample(self, mutants: list[Mutant], context: Context) -> list[Mutant]:
        if context.mutants is None or context.mutants >= len(mutants):
            return mutants
        rng = generator(seed_of(self.node_id) + context.seed)
        chosen = rng.choice(len(mutants), context.mutants, replace=False)
        return [mutants[index] for index in sorted(chosen)]


class Judge:
    """Tries mutants on the recorded cases, the claim's cases, the drawn examples, then searches."""

    def __init__(self, check: MutantsCheck, context: Context, surveyed: Survey) -> None:
        self._check, self._context, self._surveyed = check, context, surveyed
        self._program = context.catalogue.reference(check.claim.reference)
        self._fixed = list(self._fixed_trials())
        self._drawn: list[Trial] | None = None

    def judge(self, mutant: Mutant) -> Judgement:
        """The fate of one mutant."""
        unrounded = self._check.claim.unrounded is not None
        fixed = try_mutant(mutant, self._fixed, unrounded=unrounded)
        if fixed.telling:
            return self._killed(mutant, fixed, runs=1, fixed=True)
        proof = proved_equal(self._surveyed, mutant)
        if proof:
            return _judgement(mutant, Fate.PROVED_EQUAL, fixed, reason=proof)
        drawn = try_mutant(mutant, self._drawn_trials(), unrounded=unrounded)
        if drawn.telling:
            return self._killed(mutant, drawn, runs=runs_needed(drawn, self._context.examples))
        listed = self._check.claim.equivalent.get(mutant.name)
        if listed is not None and listed.check():
            return _judgement(mutant, Fate.EQUIVALENT, drawn, reason=listed.reason)
        return self._search(mutant, drawn, unrounded)

    def _killed(
        self, mutant: Mutant, count: Count, runs: int | None, *, fixed: bool = False
    ) -> Judgement:
        assert count.first is not None
        by = count.first.label
        return _judgement(mutant, Fate.KILLED, count, by=by, runs=runs, fixed=fixed)

    def _search(self, mutant: Mutant, drawn: Count, unrounded: bool) -> Judgement:
        """Go on with large examples until it shows, or enough was searched."""
        total = Count(compared=drawn.compared, examples=drawn.examples)
        seed = seed_of(f"{self._check.node_id}/{mutant.name}") + self._context.seed
        for example in self._check.claim.inputs.large_examples(seed):
            count = try_mutant(mutant, [self._trial(example.label, example)], unrounded=unrounded)
            total.include(count)
            if total.telling:
                return self._killed(mutant, total, runs_needed(total, self._context.examples))
            if total.compared >= SEARCHED_ELEMENTS and total.examples >= SEARCHED_EXAMPLES:
                break
        return _judgement(mutant, Fate.SURVIVED, total)

    def _fixed_trials(self) -> Iterator[Trial]:
        """Recorded cases, witnesses, and the claim's cases in every family."""
        check, context = self._check, self._context
        for case in context.golden.cases(tuple(check.claim.golden)):
            golden = GoldenCheck(check.entry, case)
            yield Trial(golden.id, golden.arguments(case.load()), self._program)
        for witness in witnesses.load(context.catalogue.project, check.claim.name):
            yield self._trial(f"witness for {witness.mutant}", witness.example)
        for sizes in check.claim.cases:
            case_check = CaseCheck(check.entry, sizes)
            for family, example in case_check.examples(context):
                yield self._trial(f"{case_check.id} {family}", example)

    def _drawn_trials(self) -> list[Trial]:
        """The examples of the property check, once."""
        if self._drawn is None:
            seed = seed_of(self._check.node_id.replace("[mutants]", "[property]"))
            strategy = self._check.claim.inputs.strategy()
            found = drawn_examples(strategy, self._context.examples, seed + self._context.seed)
            self._drawn = list(self._trials(found))
        return self._drawn

    def _trials(self, examples: list[Example]) -> Iterator[Trial]:
        return (self._trial(example.label, example) for example in examples)

    def _trial(self, label: str, example: Example) -> Trial:
        arguments: Mapping[str, Any] = {
            name: Bits.of(value) if hasattr(value, "dtype") else value
            for name, value in example.arguments("cpu").items()
        }
        return Trial(label, arguments, self._program, example)


def _judgement(
    mutant: Mutant,
    fate: Fate,
    count: Count,
    *,
    by: str = "",
    runs: int | None = None,
    reason: str = "",
    fixed: bool = False,
) -> Judgement:
    example = count.first.example if count.first is not None else None
    return Judgement(
        mutant=mutant.name,
        fate=fate,
        by=by,
        before_last_rounding=fate is Fate.KILLED and count.unrounded_only,
        differing=count.differing,
        compared=count.compared,
        examples=count.examples,
        telling=count.telling,
        runs=runs,
        reason=reason,
        witness=example.to_json() if example is not None and not fixed else "",
    )
