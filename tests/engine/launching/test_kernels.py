"""The catalogue's kernels: a repeated call launches what the first one did."""

from pathlib import Path

import pytest
import torch

from exactness.catalogue import Catalogue
from exactness.claim import GPU
from exactness.launching import calls
from exactness.project import Project

CATALOGUE = Catalogue(Project.find(Path(__file__).parents[3]))
CASES = [
    pytest.param(entry.claim, case, id=f"{entry.claim.name}-{number}")
    for entry in CATALOGUE.entries
    if entry.claim.runs_on == GPU
    for number, case in enumerate(entry.claim.cases[:2])
]


@pytest.fixture
def plans(monkeypatch):
    """How many plans were made, as a list."""
    made = []
    original = calls._Calls._remember

    def remember(self, key, call):
        made.append(key)
        original(self, key, call)

    monkeypatch.setattr(calls._Calls, "_remember", remember)
    return made


def _named(launched, tensors):
    """A launch with names in place of addresses."""
    names = {tensor.data_ptr(): name for name, tensor in tensors.items() if tensor.numel()}
    spans = [(tensor.data_ptr(), tensor.nbytes, name) for name, tensor in tensors.items()]

    def name(value):
        if isinstance(value, tuple):
            return tuple(map(name, value))
        if type(value) is int and value not in names:
            for start, size, owner in spans:
                if start < value < start + size:
                    return owner, value - start
        return names.get(value, value) if type(value) is int else value

    return launched.grid, launched.function, name(launched.arguments)


@pytest.mark.parametrize(("claim", "case"), CASES)
def test_a_repeated_call_launches_what_the_first_one_did(gpu, plans, claim, case):
    seen = []
    for number in range(3):
        example = claim.inputs.example(f"{number}", **case)
        arguments = example.arguments("cpu")
        outputs = claim.call(arguments)
        tensors = {k: v for k, v in arguments.items() if isinstance(v, torch.Tensor)} | outputs
        seen.append(_named(gpu.launches[-1], tensors))
        made = len(plans)
    assert seen[0] == seen[1] == seen[2]
    assert made == 1
    assert len(gpu.launches) == 3
