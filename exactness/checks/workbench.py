"""Where faulty kernels are tried: trials that the right kernel passed, a tally, a search."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from exactness.checks.compiled import OtherHopper, Seen, Trial
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import OF_THE_KERNEL, Count, Fate, Judgement, runs_needed
from exactness.checks.trials import Trials
from exactness.claim import Claim

if TYPE_CHECKING:
    from exactness.virtual.watching import Observation

SEARCHED = 1_000_000
"""Executions of a faulty instruction before it *never differed*."""

SEARCHED_ELEMENTS = 16_000_000
"""Elements compared before a fault survives that changed its instruction's result."""

SEARCH_RUNS = 1_000
SEARCH_INSTRUCTIONS = 4_000_000_000
"""Runs, and instructions executed by threads, after which a search ends in any case."""

FIRST_INSTRUCTIONS = 200_000_000
"""Instructions executed by threads that the first trials may cost."""

RUN_COST = 2_000_000
"""What a run costs besides its instructions, in instructions: some 20 ms."""

PROVED = "the same for every 16-bit value that reaches it"
"""Why a fault changes nothing, where `proved_without_effect` says so."""


class OutOfBudgetError(Exception):
    """Judging a fault would cost more than is left."""


class Workbench:
    """Trials on which the kernel as it is has the reference's bits, prepared when needed.

    Attributes:
        trials: makes them.
        claim: whose kernel it is.
        first: every case once; all programs of the kernel run on them.
        left_out: cases that would have cost too much.
        budget: what faulty kernels may still cost, in instructions executed by threads.
    """

    def __init__(self, trials: Trials, evidence: Evidence, claim: Claim) -> None:
        self.trials, self.claim = trials, claim
        self.left_out = 0
        self.budget = math.inf
        self._evidence = evidence
        self._others = trials.others()
        self._known: list[Trial] = []
        self.first = list(self._affordable(trials.first()))

    def _affordable(self, trials: Iterator[Trial]) -> Iterator[Trial]:
        """Trials until the next would cost too much; at least one."""
        spent = 0
        for trial in trials:
            if spent > FIRST_INSTRUCTIONS:
                self.left_out += 1
                continue
            if self.is_right(trial):
                yield trial
            spent += trial.instructions

    def run(self, trial: Trial, machine: OtherHopper) -> Seen:
        """Run a faulty kernel on a trial.

        Raises:
            OutOfBudgetError: the budget is spent.
        """
        if self.budget <= 0:
            raise OutOfBudgetError
        before = machine.spent
        seen = trial.run(machine)
        self.budget -= RUN_COST + machine.spent - before
        return seen

    def others(self) -> Iterator[Trial]:
        """The other trials."""
        yield from self._known
        for trial in self._others:
            if self.is_right(trial):
                self._known.append(trial)
                yield trial

    def is_right(self, trial: Trial) -> bool:
        """Faults of a kernel that is wrong already cannot be judged."""
        seen = trial.prepare()
        if seen.is_different:
            self._evidence.problem(
                f"the kernel itself is not the reference on {trial.label} ({seen.what}): "
                "its faults cannot be judged there"
            )
        return not seen.is_different


class Tally:
    """Counts over the trials of one fault."""

    def __init__(self, name: str, bench: Workbench) -> None:
        self.name = name
        self.count = Count()
        self._bench = bench
        self._by = ""
        self._unrounded_only = False

    def add(self, trial: Trial, machine: OtherHopper) -> Seen:
        """Run a faulty kernel on a trial and count what it showed."""
        seen = self._bench.run(trial, machine)
        self.count.examples += 1
        self.count.compared += seen.compared
        self.count.differing += seen.differing
        if seen.is_different:
            self.count.telling += 1
            self._by = f"{trial.label}: {seen.error}" if seen.error else trial.label
            self._unrounded_only = seen.unrounded_only
        return seen

    def add_all(self, trials: Iterable[Trial], machine: OtherHopper) -> bool:
        """Run a faulty kernel on trials until one shows the fault; whether one did."""
        return any(self.add(trial, machine).is_different for trial in trials)

    def judgement(self, fate: Fate, *, runs: int | None = None, reason: str = "") -> Judgement:
        """What became of the fault."""
        return Judgement(
            mutant=self.name,
            fate=fate,
            by=self._by,
            before_last_rounding=self._unrounded_only,
            differing=self.count.differing,
            compared=self.count.compared,
            examples=self.count.examples,
            telling=self.count.telling,
            runs=runs,
            reason=reason,
        )


def search(
    tally: Tally,
    bench: Workbench,
    like: list[Trial],
    faulty: Callable[[Observation], OtherHopper],
) -> Judgement:
    """Try larger cases and new seeds, until the fault shows or enough was executed.

    Every second trial is near one in which the faulty instruction gave another result that the
    outputs did not show, since something else in the arguments hid it.

    A fault that the claim lists as equivalent is not searched for, if the check of the reason
    passes.

    Args:
        tally: the trials so far.
        bench: makes trials.
        like: trials that the fault's instructions ran on.
        faulty: the faulty kernel, watched.
    """
    from exactness.virtual.watching import Observation

    listed = bench.claim.equivalent.get(OF_THE_KERNEL + tally.name)
    if listed is not None and listed.check():
        return tally.judgement(Fate.EQUIVALENT, reason=listed.reason)
    observed = Observation()
    machine = faulty(observed)
    fixed = tally.count.examples
    fresh, near = bench.trials.search(_largest(like)), deque[Trial]()
    for number in range(SEARCH_RUNS):
        if _is_enough(observed, tally) or machine.spent > SEARCH_INSTRUCTIONS:
            break
        observed.places.clear()
        is_near = bool(near) and number % 2 == 1
        trial = near.popleft() if is_near else next(fresh)
        if tally.add(trial, machine).is_different and bench.is_right(trial):
            return tally.judgement(Fate.KILLED, runs=runs_needed(tally.count, fixed))
        if observed.places and not near and not is_near:
            near.extend(bench.trials.near(trial, np.concatenate(observed.places)))
    return _unseen(tally, observed)


def _is_enough(observed: Observation, tally: Tally) -> bool:
    """Whether a fault that has not shown will be given up."""
    if observed.telling:
        return tally.count.compared >= SEARCHED_ELEMENTS
    return observed.executed >= SEARCHED


def _unseen(tally: Tally, observed: Observation) -> Judgement:
    """What a fault is that no trial showed."""
    executions = f"{observed.executed:,} executions of the faulty instructions"
    if observed.executed >= SEARCHED and not observed.telling:
        aside = f", {observed.subnormal:,} subnormal ones aside" if observed.subnormal else ""
        reason = f"the same result in {executions}{aside}"
        return tally.judgement(Fate.NEVER_DIFFERED, reason=reason)
    reason = f"{observed.differing:,} of {executions} gave another result"
    return tally.judgement(Fate.SURVIVED, reason=reason)


def _largest(trials: list[Trial]) -> Trial:
    """The trial of a case that executes most."""
    cases = [trial for trial in trials if trial.like is not None] or trials
    return max(cases, key=lambda trial: trial.instructions)
