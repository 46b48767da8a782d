"""Kernels of the catalogue called directly, on the virtual Hopper, beside their references."""

from pathlib import Path

import pytest
import torch

from exactness import compare, virtual
from exactness.arithmetic.hopper import Hopper
from exactness.bits import Bits
from exactness.catalogue import Catalogue
from exactness.checks.base import bits_of
from exactness.project import Project

ROOT = Path(__file__).parents[2]

VIEWS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1),
    "every_second_column": lambda x: x[:, ::2],
    "one_row_for_all": lambda x: x[:1].expand(7, 96),
    "one_column_for_all": lambda x: x[:, :1].expand(7, 96),
    "slice_of_rows": lambda x: x[:, 2:90],
    "misaligned": lambda x: x.reshape(-1)[4:],
    "three_dimensions": lambda x: x.reshape(7, 4, 24).transpose(0, 1),
    "size_1_between": lambda x: x.reshape(7, 1, 96)[:, 0],
    "huge_stride_of_size_1": lambda x: x.as_strided((1, 96), (2**31, 1)),
    "no_rows": lambda x: x[:0],
    "no_columns": lambda x: x[:, :0],
}
"""Views of a [7, 96] tensor; all have an even number of columns."""


@pytest.fixture(params=list(VIEWS.values()), ids=list(VIEWS))
def view(request):
    """A view of a [7, 96] tensor."""
    return request.param


@pytest.fixture(scope="session")
def catalogue():
    """This project's kernels and references."""
    return Catalogue(Project.find(ROOT))


@pytest.fixture(scope="session")
def kernel(catalogue):
    """The kernel of a claim, by name; launches go to the virtual Hopper."""

    def named(name):
        (entry,) = catalogue.select((name,))

        def call(**arguments):
            with virtual.hopper():
                return entry.claim.kernel(**arguments)

        return call

    return named


@pytest.fixture(scope="session")
def equals_reference(catalogue):
    """Run a claim's kernel and reference on the same arguments; assert equal bits.

    Returns what the kernel returned, or the arguments it wrote to.
    """

    def check(name, **arguments):
        (entry,) = catalogue.select((name,))
        claim = entry.claim
        program = catalogue.reference(claim.reference)
        copies = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
        result = Hopper().run(program, copies)
        results = result if isinstance(result, tuple) else (result,)
        with virtual.hopper():
            actual = claim.call(arguments)
        for output, expected in zip(claim.output_names, results, strict=True):
            diff = compare.compare(Bits.of(actual[output]), bits_of(expected))
            assert diff.verdict is not compare.Verdict.DIFFERENT, f"{name}, {output}: {diff}"
        return next(iter(actual.values())) if len(actual) == 1 else actual

    return check
