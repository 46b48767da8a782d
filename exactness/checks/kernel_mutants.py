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
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator

from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.compile_options import FUSION, judge_fusion, judge_warps
from exactness.checks.compiled import OtherHopper, Trial
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import OF_THE_KERNEL, Fate, Judgement
from exactness.checks.trials import Trials
from exactness.checks.workbench import PROVED, Tally, Workbench, search
from exactness.claim import GPU
from exactness.inputs.patterns import generator, seed_of
from exactness.machines import VirtualHopper
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
from exactness.virtual.watching import watching

EDGE = "faulty kernel ≠ reference"

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
        bench = Workbench(Trials(self.entry, self.node_id, context), evidence, self.claim)
        if not bench.first:
            return
        known = list(dict.fromkeys(f for trial in bench.first for f in _listed(trial)))
        chosen = self._sample(known, context)
        judge = Judge(bench, seed_of(self.node_id) + context.seed)
        evidence.judgements = [judge.judge(fault) for fault in chosen]
        evidence.judgements += judge_fusion(bench)
        if self.claim.order == "explicit":
            evidence.judgements += judge_warps(bench, evidence)
        evidence.cases = len(evidence.judgements)
        evidence.edges[EDGE] = sum(judgement.compared for judgement in evidence.judgements)
        evidence.note(f"{len(chosen)} of {len(known)} faults of the kernel judged")
        self._complain(evidence, {fault.name for fault in known} | {FUSION})

    def _refuses(self, context: Context) -> str | None:
        """Why no fault can be judged here, or None."""
        if self.claim.runs_on != GPU:
            return f"the kernel runs on {self.claim.runs_on}: it is no Triton kernel"
        if importlib.util.find_spec("triton") is None:
            return "Triton is not installed (the extra `triton` brings it)"
        if not isinstance(context.machine, VirtualHopper):
            return "faults are edited into PTX, which runs on the virtual Hopper alone (device cpu)"
        return None

    def _sample(self, known: list[Fault], context: Context) -> list[Fault]:
        """A few of each kind, in program order."""
        if context.mutants is None:
            return known
        rng = generator(seed_of(self.node_id) + context.seed)
        chosen: set[Fault] = set()
        for kind in dict.fromkeys(fault.kind for fault in known):
            of_kind = [fault for fault in known if fault.kind is kind]
            picked = rng.choice(len(of_kind), min(SAMPLE, len(of_kind)), replace=False)
            chosen |= {of_kind[index] for index in picked}
        return [fault for fault in known if fault in chosen]

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


class Judge:
    """Finds the fate of faults: tried on the cases, then proved, then searched for."""

    def __init__(self, bench: Workbench, seed: int) -> None:
        self._bench = bench
        self._sampler = Sampler(f32_sample(generator(seed)))

    def judge(self, fault: Fault) -> Judgement:
        """The fate of one fault."""
        tally = Tally(fault.name)
        machine = OtherHopper(Editing(fault))
        trials = [trial for trial in self._bench.first if fault in faults_of(trial)]
        if tally.add_all(trials, machine):
            return tally.judgement(Fate.KILLED, runs=1)
        edited = list(_edited(fault, trials))
        if all(proved_without_effect(entry, before) for entry, before in edited):
            return tally.judgement(Fate.PROVED_EQUAL, reason=PROVED)
        others = (trial for trial in self._bench.others() if fault in faults_of(trial))
        if tally.add_all(others, machine):
            return tally.judgement(Fate.KILLED, runs=1)
        effect = Effect(complete=fault.kind is not Kind.SHIFTED_BOUND)
        if effect.complete:  # the sample is one of floats
            for entry, before in edited:
                effect.merge(self._sampler.effect(entry, before))
        if effect.is_nothing:
            reason = f"the same result for {self._sampler.sample.size:,} values that decide it"
            return tally.judgement(Fate.NEVER_DIFFERED, reason=reason)
        if tally.add_all(self._planted(effect, trials), machine):
            return tally.judgement(Fate.KILLED, runs=1)
        return search(
            tally,
            self._bench,
            trials,
            lambda observed: OtherHopper(Editing(fault, watching(observed))),
        )

    def _planted(self, effect: Effect, like: list[Trial]) -> Iterator[Trial]:
        """Cases with the values for which the fault counts in one of their tensors."""
        for trial in like if effect.patterns else ():
            planted = self._bench.trials.planted(trial, effect.patterns)
            yield from (each for each in planted if self._bench.is_right(each))


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
