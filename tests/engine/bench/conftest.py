"""A claim with a benchmark case, on CPU tensors."""

import pytest

from exactness.bench.cases import Case
from exactness.catalogue import Catalogue
from exactness.project import Project

KERNEL = '''
import torch
from exactness.claim import Bench, Claim
from exactness.formats import INTEGERS, bf16, f32
from exactness.inputs import Inputs, IntegerTensor, Tensor

def scale(x, factor, index, times=2):
    """In place: x becomes factor · x; returns the sum of the chosen elements and their doubles."""
    x.mul_(factor)
    chosen = x.reshape(-1)[index].float()
    return chosen * times, index + 1

CLAIM = Claim(
    kernel=scale,
    reference="scale:scale",
    runs_on="cpu",
    inputs=Inputs(
        {"rows": (0, 9), "n": (1, 9)},
        {
            "x": Tensor("format", ("rows", "n")),
            "factor": Tensor("format", ("rows", "n"), ("constant", "log_spaced")),
            "index": IntegerTensor(INTEGERS["i64"], ("rows",), 0, "rows*n"),
        },
        {"times": (2, 4)},
        {"format": (f32, bf16)},
    ),
    outputs=("chosen", "next"),
    mutates={"x": "x_out"},
    bench=[
        Bench(
            name="scale_rows",
            sizes={"rows": "2*tokens", "n": 3, "format": "bf16", "times": 4},
            bytes="3*2*rows*n+8*rows+4*rows*times",
            flops=lambda known: known["rows"] * known["n"],
            tokens=(4, 5),
            against={"chain": "_torch:scale", "broken": "_torch:broken"},
        )
    ],
)
'''

REFERENCE = """
from exactness.arithmetic import cast, launch
from exactness.formats import f32

@launch
def scale(x, factor, index, times):
    scaled = x * factor
    chosen = cast(scaled.reshape(-1)[index], f32)
    return chosen * float(times), index + 1, scaled
"""

TORCH = """
def scale(x, factor, index, times):
    x.copy_((x.double() * factor.double()).to(x.dtype))
    return x.flatten()[index].float() * times, index + 1

def broken(x, factor, index, times):
    import liger_kernel_that_is_not_there
"""


@pytest.fixture
def scale_project(small_project):
    """A project with the claim `scale`, which mutates one argument and has integers."""
    (small_project.root / "ours" / "halve.py").unlink()
    small_project.write("ours/scale.py", KERNEL)
    small_project.write("chains/scale.py", REFERENCE)
    small_project.write("chains/_torch.py", TORCH)
    return small_project


@pytest.fixture
def catalogue(scale_project):
    """Its catalogue."""
    return Catalogue(Project.find(scale_project.root))


@pytest.fixture
def case(catalogue):
    """Its case with 4 tokens."""
    (entry,) = catalogue.entries
    return Case(entry, entry.claim.bench[0], 4)
