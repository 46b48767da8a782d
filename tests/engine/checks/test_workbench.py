"""The search for inputs that show a fault, and what it costs."""

import itertools

import pytest

from exactness.checks import workbench
from exactness.checks.compiled import OtherHopper
from exactness.checks.kernel_mutants import KernelMutantsCheck, faults_of
from exactness.checks.outcome import Evidence
from exactness.checks.sensitivity import Fate
from exactness.checks.trials import Trials
from exactness.checks.workbench import OutOfBudgetError, Tally, Workbench, search
from exactness.virtual.editing import Editing
from exactness.virtual.watching import watching

BODY = "y = (x * 0.3).to(tl.bfloat16).to(tl.float32) * eps"
RESULT = "cast(cast(x * 0.3, bf16), f32) * eps"
WITH_EPS = {
    "rows(f32, n=(1, 64), rows=(0, 40))": "rows(f32, n=(1, 64), rows=(0, 40), eps=(0.0, 1.0))",
    "def k(x):": "def k(x, eps=0.0):",
    "def _small(x_ptr, out_ptr, n, BLOCK": "def _small(x_ptr, out_ptr, n, eps, BLOCK",
    "](x, out, x.shape[1], BLOCK": "](x, out, x.shape[1], eps, BLOCK",
}


@pytest.fixture
def bench(triton_project):
    """A claim whose default parameter hides a cast: it multiplies by zero."""
    session = triton_project.write(BODY, RESULT, edits=WITH_EPS, takes="x, eps").session()
    (entry,) = session.context.catalogue.entries
    trials = Trials(entry, KernelMutantsCheck(entry).node_id, session.context)
    evidence = Evidence()
    made = Workbench(trials, evidence, entry.claim)
    assert not evidence.problems
    return made


@pytest.fixture
def cast(bench):
    """The truncating cast."""
    (found,) = {
        fault
        for trial in bench.first
        for fault in faults_of(trial)
        if fault.name.startswith("truncating cast")
    }
    return found


def searched(bench, fault):
    def watched(observed):
        return OtherHopper(Editing(fault, watching(observed)))

    tally = Tally(fault.name, bench)
    assert not tally.add_all(bench.first, OtherHopper(Editing(fault)))
    return search(tally, bench, bench.first, watched)


def test_what_hides_a_changed_result_is_changed(bench, cast, monkeypatch):
    hidden = next(trial for trial in bench.first if trial.like is not None)
    monkeypatch.setattr(bench.trials, "search", lambda trial: itertools.repeat(hidden))
    found = searched(bench, cast)
    assert found.fate is Fate.KILLED
    assert found.by == f"{hidden.label}, rows like those it changed"
    assert found.examples <= len(bench.first) + 4


def test_a_fault_that_stays_hidden_survives(bench, cast, monkeypatch):
    monkeypatch.setattr(workbench, "SEARCHED_ELEMENTS", 10_000)
    hidden = next(trial for trial in bench.first if trial.like is not None)
    monkeypatch.setattr(bench.trials, "search", lambda trial: itertools.repeat(hidden))
    monkeypatch.setattr(bench.trials, "near", lambda trial, places: iter(()))
    found = searched(bench, cast)
    assert found.fate is Fate.SURVIVED
    assert found.compared >= 10_000
    assert "gave another result" in found.reason


def test_fresh_arguments_are_enough_where_nothing_hides(bench, cast):
    assert searched(bench, cast).fate is Fate.KILLED


def test_budget_is_spent_by_runs_and_their_instructions(bench, cast):
    trial = bench.first[0]
    bench.budget = workbench.RUN_COST + 1
    machine = OtherHopper(Editing(cast))
    bench.run(trial, machine)
    assert bench.budget == 1 - machine.spent
    with pytest.raises(OutOfBudgetError):
        bench.run(trial, machine)


def test_cases_that_cost_too_much_are_left_out(bench, monkeypatch):
    monkeypatch.setattr(workbench, "FIRST_INSTRUCTIONS", 0)
    small = Workbench(bench.trials, Evidence(), bench.claim)
    assert len(small.first) == 1
    assert small.left_out == len(bench.first) - 1
