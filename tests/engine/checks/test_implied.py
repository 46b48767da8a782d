"""Recorded cases whose inputs are implied, and outputs that a batch shares."""

import numpy as np
import pytest

from exactness.checks import Status
from exactness.project import Project
from exactness.session import Session


def outcome(project, check_id):
    session = Session.open(Project.find(project.root), device="cpu", examples=5)
    (entry,) = session.context.catalogue.entries
    (check,) = [check for check in session.checks(entry) if check.id == check_id]
    return check.run(session.context)


def imply(project, value):
    project.edit(
        "ours/halve.py",
        "    parameters=",
        f'    implied={{"2x3": lambda: {{"x": torch.full((2, 3), {value}).bfloat16()}}}},\n'
        "    parameters=",
    )


def test_implied_inputs_stand_in_for_recorded_ones(small_project):
    small_project.record(x=None, product=None, out=np.full((2, 3), 4.5, np.float32))
    imply(small_project, 7.0)
    assert outcome(small_project, "golden-2x3").status is Status.PASSED


def test_an_input_that_is_neither_is_an_error(small_project):
    small_project.record(x=None, product=None)
    missing = outcome(small_project, "golden-2x3")
    assert missing.status is Status.ERROR
    assert "halve/2x3 lacks the input 'x'" in missing.message


def test_other_implied_inputs_fail(small_project):
    small_project.record(x=None, product=None, out=np.full((2, 3), 4.5, np.float32))
    imply(small_project, 5.0)
    assert outcome(small_project, "golden-2x3").status is Status.FAILED


def test_recorded_inputs_come_before_implied_ones(small_project):
    imply(small_project, 5.0)
    assert outcome(small_project, "golden-2x3").status is Status.PASSED


IN_PLACE = '''
import torch
from exactness.claim import Claim
from exactness.formats import bf16
from exactness.inputs import Inputs, Tensor

def halve(x, seen):
    """Halves the rows of x and negates `seen`, which every batch shares."""
    x.mul_(0.5)
    seen.neg_()

CLAIM = Claim(
    kernel=halve,
    reference="halve:in_place",
    runs_on="cpu",
    inputs=Inputs(
        {"rows": (1, 300), "n": (1, 9)},
        {"x": Tensor(bf16, ("rows", 4)), "seen": Tensor(bf16, ("n",))},
    ),
    outputs=(),
    mutates={"x": "x_out", "seen": "seen_out"},
    cases=[{"rows": 3, "n": 5}],
)
'''


@pytest.mark.parametrize("fault", [False, True])
def test_invariance_compares_shared_outputs_whole(small_project, fault):
    small_project.write("ours/halve.py", IN_PLACE)
    small_project.write("chains/halve.py", "def in_place(x, seen):\n    return x * 0.5, -seen\n")
    if fault:
        small_project.edit("ours/halve.py", "seen.neg_()", "seen.mul_(len(x))")
    found = outcome(small_project, "invariance")
    assert found.status is (Status.FAILED if fault else Status.PASSED)
    assert {mismatch.tensor for mismatch in found.mismatches} == ({"seen_out"} if fault else set())
