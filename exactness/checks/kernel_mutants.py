"""The compiled kernel gone wrong: every fault is noticed, or is shown to change nothing.

Faults are edited into its PTX, one at a time, at every instruction compiled from one source
position: a truncating cast, a constant off by one ulp, a rounding toward zero, a bound off by one.
And it is compiled with other options: with contraction switched on, which must be noticed or change
nothing; with other warps, which must change nothing where the claim calls its order explicit.

A fault that no trial shows is *proved equal* if every difference ends within functions of 16 bits,
all of which are tried; it *never differed* if in a million executions the result of the faulty
instruction did not change by more than the last place of subnormals (2^-149). Otherwise it
survives, and the check fails: either no input of the claim can show it, or the outputs hide it, in
which case the claim should give a launcher that stores f32 (`unrounded`).

Faults are edited into PTX, so they run on the virtual Hopper, whatever runs the other checks.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.compile_options import FUSION, judge_fusion, judge_warps, other_warps
from exactness.checks.compiled import OtherHopper, Trial, why_not_compiled
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import OF_THE_KERNEL, Fate, Judgement
from exactness.checks.trials import Trials
from exactness.checks.workbench import PROVED, OutOfBudgetError, Tally, Workbench, search
from exactness.inputs.patterns import generator, seed_of
from exactness.virtual import ptx
from exactness.virtual.edited import Before, replaced
from exactness.virtual.editing import Editing
from exactness.virtual.exhaustion import (
    Effect,
    Sampler,
    f32_sample,
    proved_without_effect,
)
from exactness.virtual.faults import Fault, Kind, faults
from exactness.virtual.watching import Observation, watching

EDGE = "faulty kernel ≠ reference"

BUDGET = 500_000_000
"""Instructions executed by threads that a sample of faults may cost, and contraction again: some
four seconds."""

SAMPLING_COST = 20_000_000
"""What tabulating a program costs, in instructions."""


class KernelMutantsCheck(Check):
    """Judges faults of the compiled kernel."""

    kind = "kernel mutants"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "kernel_mutants")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Judge a sample of the faults, or all, then the compile options."""
        reason = why_not_compiled(self.claim)
        if reason is not None:
            evidence.skip(EDGE, reason)
            return
        bench = Workbench(Trials(self.entry, self.node_id, context), evidence, self.claim)
        if not bench.first:
            return
        known = list(dict.fromkeys(f for trial in bench.first for f in _listed(trial)))
        options = self._options(bench, context, evidence)
        judged = self._judged(bench, known, context)
        evidence.judgements = [*judged, *options]
        evidence.cases = len(evidence.judgements)
        evidence.edges[EDGE] = sum(judgement.compared for judgement in evidence.judgements)
        counted = f"{len(judged)} of {len(known)} faults of the kernel"
        evidence.note(f"{counted} and {len(options)} compile options judged")
        if bench.left_out:
            evidence.note(f"{bench.left_out} cases are too large for faults of the kernel")
        self._complain(evidence, {fault.name for fault in known} | {FUSION})

    def _options(self, bench: Workbench, context: Context, evidence: Evidence) -> list[Judgement]:
        """Contraction as far as the budget goes, and one other number of warps or all."""
        warps = other_warps(bench) if self.claim.order == "explicit" else []
        if warps and context.mutants is not None:
            warps = [warps[self._rng(context).integers(len(warps))]]
        judged = [j for each in warps if (j := judge_warps(bench, each, evidence))]
        bench.budget = _budget(context)
        with contextlib.suppress(OutOfBudgetError):
            judged = [*judge_fusion(bench), *judged]
        return judged

    def _judged(self, bench: Workbench, known: list[Fault], context: Context) -> list[Judgement]:
        """All, or a sample as far as the budget goes; in program order."""
        chosen = known
        if context.mutants is not None:
            chosen = list(_sample(known, context.mutants, self._rng(context)))
        bench.budget = _budget(context)
        sampler = Sampler(f32_sample(self._rng(context)))
        suspects = {fault: Suspect(fault, bench, sampler) for fault in chosen}
        found: dict[Fault, Judgement] = {}
        with contextlib.suppress(OutOfBudgetError):
            for look in (Suspect.first_look, Suspect.closer_look):
                for fault, suspect in suspects.items():
                    judgement = None if fault in found else look(suspect)
                    if judgement is not None:
                        found[fault] = judgement
        return [found[fault] for fault in known if fault in found]

    def _rng(self, context: Context) -> np.random.Generator:
        return generator(seed_of(self.node_id) + context.seed)

    def _complain(self, evidence: Evidence, known: set[str]) -> None:
        listed = {
            name.removeprefix(OF_THE_KERNEL)
            for name in self.claim.equivalent
            if name.startswith(OF_THE_KERNEL)
        }
        for name in sorted(listed - known):
            evidence.problem(f"equivalent: the kernel has no fault {name!r}")
        for judgement in evidence.judgements:
            if judgement.mutant in listed and judgement.fate is not Fate.EQUIVALENT:
                evidence.problem(
                    f"equivalent: {judgement.mutant} is listed but was {judgement.fate.value} "
                    f"({judgement.by or judgement.reason}); take it off the list"
                )
            if judgement.fate is Fate.SURVIVED:
                evidence.problem(
                    f"fault of the kernel survives: {judgement.mutant}: no difference in "
                    f"{judgement.compared:,} elements of {judgement.examples} examples; "
                    f"{judgement.reason}"
                )


class Suspect:
    """A fault whose fate is looked for."""

    def __init__(self, fault: Fault, bench: Workbench, sampler: Sampler) -> None:
        self._fault, self._bench, self._sampler = fault, bench, sampler
        self._tally = Tally(fault.name, bench)
        self._machine = OtherHopper(Editing(fault))
        self._trials = [trial for trial in bench.first if fault in faults_of(trial)]

    @functools.cached_property
    def _edited(self) -> list[tuple[ptx.Entry, Before]]:
        return list(_edited(self._fault, self._trials))

    def first_look(self) -> Judgement | None:
        """Try it on the cases, and try to prove that it changes nothing."""
        if self._tally.add_all(self._trials, self._machine):
            return self._tally.judgement(Fate.KILLED, runs=1)
        if all(proved_without_effect(entry, before) for entry, before in self._edited):
            return self._tally.judgement(Fate.PROVED_EQUAL, reason=PROVED)
        return None

    def closer_look(self) -> Judgement:
        """Try the other trials, tabulate, plant, search."""
        others = (trial for trial in self._bench.others() if self._fault in faults_of(trial))
        if self._tally.add_all(others, self._machine):
            return self._tally.judgement(Fate.KILLED, runs=1)
        effect = self._effect()
        if effect.is_nothing:
            reason = f"the same result for {self._sampler.sample.size:,} values that decide it"
            return self._tally.judgement(Fate.NEVER_DIFFERED, reason=reason)
        if self._tally.add_all(self._planted(effect), self._machine):
            return self._tally.judgement(Fate.KILLED, runs=1)
        return search(self._tally, self._bench, self._trials, self._watched)

    def _effect(self) -> Effect:
        """For which values of a register that decides it the fault counts."""
        effect = Effect(complete=self._fault.kind is not Kind.SHIFTED_BOUND)
        if effect.complete:  # the sample is one of floats
            self._bench.budget -= SAMPLING_COST * len(self._edited)
            for entry, before in self._edited:
                effect.merge(self._sampler.effect(entry, before))
        return effect

    def _watched(self, observed: Observation) -> OtherHopper:
        return OtherHopper(Editing(self._fault, watching(observed)))

    def _planted(self, effect: Effect) -> Iterator[Trial]:
        """Cases with the values for which the fault counts in one of their tensors."""
        for trial in self._trials if effect.patterns else ():
            planted = self._bench.trials.planted(trial, effect.patterns)
            yield from (each for each in planted if self._bench.is_right(each))


def _budget(context: Context) -> float:
    """What a sample may cost; all mutants may cost anything."""
    return math.inf if context.mutants is None else BUDGET


def _sample(known: list[Fault], count: int, rng: np.random.Generator) -> Iterator[Fault]:
    """About `count` faults, shared out among the kinds, in no order."""
    share = -(-count // len(Kind))
    taken: Counter[Kind] = Counter()
    for index in rng.permutation(len(known)):
        fault = known[index]
        taken[fault.kind] += 1
        if taken[fault.kind] <= share:
            yield fault


def _edited(fault: Fault, trials: list[Trial]) -> Iterator[tuple[ptx.Entry, Before]]:
    """The faulty programs, and what their faulty instructions were."""
    for kernel, text in dict.fromkeys(program for trial in trials for program in trial.programs):
        edited = fault(text, kernel)
        if edited != text:
            original, entry = (ptx.parse(each).entries[kernel] for each in (text, edited))
            yield entry, replaced(original, entry)


def faults_of(trial: Trial) -> frozenset[Fault]:
    """The faults that the programs of a trial have room for."""
    return frozenset(_listed(trial))


def _listed(trial: Trial) -> list[Fault]:
    return [fault for program in trial.programs for fault in _faults_in(*program)]


@functools.lru_cache(maxsize=256)
def _faults_in(kernel: str, text: str) -> tuple[Fault, ...]:
    return tuple(faults(text, kernel))
