"""The compiled kernel gone wrong: every fault is noticed, or is shown to change nothing.

Faults edited into its PTX, one at a time, at every instruction compiled from one source position: a
truncating cast, a constant off by one ulp, a rounding toward zero, a bound off by one. And other
compile options: contraction switched on, which must be noticed or change nothing; other warps,
which must change nothing where the claim calls the order of summation explicit.

A fault that no trial shows is *proved equal* if every difference ends within functions of 16 bits,
all of which are tried; it *never differed* if a search over a million executions of the edited
instruction saw its result never change. Otherwise it survives, and the check fails.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.compiled import OtherHopper, Seen, Trial, Trials
from exactness.checks.options import judge_fusion, judge_warps
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import Count, Fate, Judgement, runs_needed
from exactness.claim import GPU
from exactness.inputs.patterns import generator, seed_of
from exactness.machines import VirtualHopper

if TYPE_CHECKING:
    from exactness.virtual.faults import Fault

EDGE = "faulty kernel ≠ reference"
SEARCHED = 1_000_000
"""Executions of an edited instruction, and elements compared, before a fault survives."""
SEARCH_RUNS = 200
"""Runs after which a search ends in any case."""
SAMPLE = 3
"""Faults of each kind that a default run judges; `--exactness-mutants all` judges all."""


class KernelMutantsCheck(Check):
    """Judges faults of the compiled kernel."""

    kind = "kernel mutants"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "kernel_mutants")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Judge a sample of the faults, or all, then the compile options."""
        reason = self._refuses(context)
        if reason is not None:
            evidence.skip(EDGE, reason)
            return
        trials = Trials(self.entry, self.node_id, context)
        judge = Judge(trials, evidence, context)
        if not judge.prepared:
            return
        faults = judge.faults()
        chosen = self._sample(faults, context)
        evidence.judgements = [judge.judge(fault) for fault in chosen]
        options = [judge_fusion(judge.prepared, self.claim)]
        if self.claim.order == "explicit":
            options += judge_warps(judge.prepared, evidence)
        evidence.judgements += [judgement for judgement in options if judgement is not None]
        evidence.cases = len(evidence.judgements)
        evidence.edges[EDGE] = sum(judgement.compared for judgement in evidence.judgements)
        evidence.note(f"{len(chosen)} of {len(faults)} faults of the kernel judged")
        for judgement in evidence.judgements:
            if judgement.fate is Fate.SURVIVED:
                evidence.problem(
                    f"fault of the kernel survives: {judgement.mutant}: no difference in "
                    f"{judgement.compared:,} elements of {judgement.examples} examples"
                    f"{'; ' * bool(judgement.reason)}{judgement.reason}"
                )

    def _refuses(self, context: Context) -> str | None:
        if self.claim.runs_on != GPU:
            return f"the kernel runs on {self.claim.runs_on}: it is no Triton kernel"
        if importlib.util.find_spec("triton") is None:
            return "Triton is not installed (the extra `triton` brings it)"
        if not isinstance(context.machine, VirtualHopper):
            return "faults are edited into PTX, which runs on the virtual Hopper only (device cpu)"
        return None

    def _sample(self, faults: list[Fault], context: Context) -> list[Fault]:
        """A few of each kind, in program order."""
        if context.mutants is None:
            return faults
        rng = generator(seed_of(self.node_id) + context.seed)
        chosen: set[Fault] = set()
        for kind in dict.fromkeys(fault.kind for fault in faults):
            of_kind = [fault for fault in faults if fault.kind is kind]
            picked = rng.choice(len(of_kind), min(SAMPLE, len(of_kind)), replace=False)
            chosen |= {of_kind[index] for index in picked}
        return [fault for fault in faults if fault in chosen]


class Judge:
    """Tries faults on fixed trials, then looks for a proof, then searches.

    Attributes:
        prepared: trials on which the kernel as it is has the reference's bits.
    """

    def __init__(self, trials: Trials, evidence: Evidence, context: Context) -> None:
        self._trials, self._context = trials, context
        self.prepared = list(self._prepare(trials.fixed(), evidence))

    def _prepare(self, trials: Iterator[Trial], evidence: Evidence) -> Iterator[Trial]:
        """Faults of a kernel that is wrong already cannot be judged."""
        for trial in trials:
            seen = trial.prepare()
            if seen.is_different:
                what = seen.error or f"{seen.differing} elements differ"
                evidence.problem(
                    f"the kernel itself is not the reference on {trial.label} ({what}): "
                    "its faults cannot be judged there"
                )
            else:
                yield trial

    def faults(self) -> list[Fault]:
        """All faults that the programs of the trials have room for."""
        found = (fault for trial in self.prepared for fault in _faults_of(trial))
        return list(dict.fromkeys(found))

    def judge(self, fault: Fault) -> Judgement:
        """The fate of one fault."""
        trials = [trial for trial in self.prepared if fault in _faults_of(trial)]
        count = Tally()
        for trial in trials:
            if count.add(trial, trial.run(OtherHopper(fault))):
                return count.judgement(fault.name, Fate.KILLED, runs=1)
        programs = {program for trial in trials for program in trial.programs}
        if all(_proved(fault, *program) for program in programs):
            return count.judgement(
                fault.name, Fate.PROVED_EQUAL, reason="tried on every 16-bit value that reaches it"
            )
        return self._search(fault, trials, count)

    def _search(self, fault: Fault, trials: list[Trial], count: Tally) -> Judgement:
        """Larger cases and new seeds, until it shows or enough was executed."""
        from exactness.virtual.editing import Editing
        from exactness.virtual.watching import Observation, watching

        observed = Observation()
        editing = Editing(fault, watching(observed))
        runs, fixed = 0, count.examples
        for trial in self._trials.search(_largest(trials).sizes):
            enough = observed.executed >= SEARCHED and count.compared >= SEARCHED
            if enough or runs >= SEARCH_RUNS:
                break
            runs += 1
            if not trial.prepare().is_different and count.add(
                trial, trial.run(OtherHopper(editing))
            ):
                needed = runs_needed(count.count, fixed)
                return count.judgement(fault.name, Fate.KILLED, runs=needed)
        executions = f"{observed.executed:,} executions of the edited instruction"
        if observed.executed >= SEARCHED and observed.without_effect:
            reason = f"the same result in {executions}"
            return count.judgement(fault.name, Fate.NEVER_DIFFERED, reason=reason)
        reason = f"{observed.differing:,} of {executions} gave another result"
        return count.judgement(fault.name, Fate.SURVIVED, reason=reason)


class Tally:
    """Counts over the trials of one fault."""

    def __init__(self) -> None:
        self.count = Count()
        self.by = ""
        self.unrounded_only = False

    @property
    def examples(self) -> int:
        """Trials so far."""
        return self.count.examples

    @property
    def compared(self) -> int:
        """Elements compared so far."""
        return self.count.compared

    def add(self, trial: Trial, seen: Seen) -> bool:
        """Count a trial; whether it shows the fault."""
        self.count.examples += 1
        self.count.compared += seen.compared
        self.count.differing += seen.differing
        if seen.is_different:
            self.count.telling += 1
            self.by = f"{trial.label}: {seen.error}" if seen.error else trial.label
            self.unrounded_only = seen.unrounded_only
        return seen.is_different

    def judgement(
        self, name: str, fate: Fate, *, runs: int | None = None, reason: str = ""
    ) -> Judgement:
        """What became of the fault."""
        return Judgement(
            mutant=name,
            fate=fate,
            by=self.by,
            before_last_rounding=self.unrounded_only,
            differing=self.count.differing,
            compared=self.count.compared,
            examples=self.count.examples,
            telling=self.count.telling,
            runs=runs,
            reason=reason,
        )


def _faults_of(trial: Trial) -> frozenset[Fault]:
    return frozenset().union(*(_faults_in(*program) for program in trial.programs))


@functools.lru_cache(maxsize=256)
def _faults_in(kernel: str, text: str) -> tuple[Fault, ...]:
    from exactness.virtual.faults import faults

    return tuple(faults(text, kernel))


def _proved(fault: Fault, kernel: str, text: str) -> bool:
    """Whether a fault changes nothing in a program, for any input."""
    from exactness.virtual import ptx
    from exactness.virtual.exhaustion import proved_without_effect

    edited = fault(text, kernel)
    if edited == text:
        return True
    return proved_without_effect(ptx.parse(text).entries[kernel], ptx.parse(edited).entries[kernel])


def _largest(trials: list[Trial]) -> Trial:
    """The trial of a case that executes most."""
    cases = [trial for trial in trials if trial.sizes is not None] or trials
    return max(cases, key=lambda trial: sum(sum(each.counts.values()) for each in trial.launches))
