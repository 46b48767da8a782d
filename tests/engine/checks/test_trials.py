"""Arguments that kernels are tried on, without end, and near those that nearly told."""

import itertools

import numpy as np
import pytest

from exactness.checks.kernel_mutants import KernelMutantsCheck
from exactness.checks.trials import OTHER_PARAMETERS, Trials

PARAMETERS = {
    "inputs=rows(f32, n=(1, 64), rows=(0, 40))": (
        "inputs=rows(f32, n=(1, 64), rows=(0, 40), eps=(1.0, 2.0, 3.0), mode=('a', 'b', 'c', 'd'))"
    ),
    "def k(x):": "def k(x, eps=1.0, mode='a'):",
}


@pytest.fixture
def trials(triton_project):
    """The trials of a claim with twelve choices of parameters."""
    session = triton_project.write("y = x", edits=PARAMETERS).session()
    (entry,) = session.context.catalogue.entries
    return Trials(entry, KernelMutantsCheck(entry).node_id, session.context)


def first_case(trials):
    return next(trial for trial in trials.first() if trial.like is not None)


def searched(trials, count):
    return list(itertools.islice(trials.search(first_case(trials)), count))


def test_near_a_trial_are_its_own_parameters_and_some_others(trials):
    (trial,) = searched(trials, 1)
    near = list(trials.near(trial, np.array([0.5])))
    chosen = [(each.arguments["eps"], each.arguments["mode"]) for each in near]
    assert chosen[0] == (trial.arguments["eps"], trial.arguments["mode"])
    assert len(chosen) == len(set(chosen)) == 1 + OTHER_PARAMETERS
    assert all("rows like those it changed" in each.label for each in near)


def test_near_a_trial_rows_are_those_of_the_place(trials):
    (trial,) = searched(trials, 1)
    trial.arguments["x"][:] = 1.0
    trial.arguments["x"][3] = 2.0**30
    place = 3.5 / len(trial.arguments["x"])
    for near in trials.near(trial, np.array([place])):
        assert (near.arguments["x"].amax(1) > 2.0**20).float().mean() > 0.4
        assert near.arguments["x"].shape == trial.arguments["x"].shape


def test_every_fourth_search_is_of_a_family_and_others_are_dominated(trials):
    labels = [trial.label for trial in searched(trials, 8)]
    dominated = [label.endswith("dominated rows") for label in labels]
    assert dominated == [True, True, True, False] * 2


def test_searches_have_ever_new_arguments(trials):
    found = searched(trials, 8)
    assert len({trial.arguments["x"].numpy().tobytes() for trial in found}) == 8


def test_arguments_are_made_once(trials):
    (trial,) = searched(trials, 1)
    assert trial.arguments is trial.arguments
