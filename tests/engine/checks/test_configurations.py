"""Each configuration of an autotuned kernel is compared; one that is wrong is named."""

import pytest

from exactness.checks import Status
from exactness.project import Project
from exactness.session import Session

pytest.importorskip("triton")

KERNEL = """
import torch
import triton
import triton.language as tl
from exactness.claim import Claim
from exactness.formats import f32
from exactness.inputs import rows

@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def _double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + x, mask=MASK)

def double(x):
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    n = x.numel()
    if n:
        _double_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.contiguous(), out, n)
    return out

CLAIM = Claim(
    kernel=double, reference="double:double", inputs=rows(f32, n=(1, 64), rows=(0, 40)),
    cases=[{"rows": 5, "n": 13}],
)
"""

REFERENCE = """
from exactness.arithmetic import launch

@launch
def double(x):
    return x + x
"""


@pytest.fixture
def outcome(small_project):
    def run(mask):
        small_project.write("ours/double.py", KERNEL.replace("MASK", mask))
        small_project.write("chains/double.py", REFERENCE)
        session = Session.open(Project.find(small_project.root), device="cpu", examples=5)
        (entry,) = session.context.catalogue.select(("double",))
        checks = {check.id: check for check in session.checks(entry)}
        return checks["configurations"].run(session.context)

    return run


def test_every_configuration_is_compared(outcome):
    found = outcome("i < n")
    assert found.status is Status.PASSED, found.message
    assert found.cases == 2 * 3
    assert "2 configurations compared" in found.notes


def test_a_wrong_configuration_is_named(outcome):
    found = outcome("(i < n) & ((BLOCK == 32) | (i != 64))")
    assert found.status is Status.FAILED
    assert all("BLOCK=64" in mismatch.where for mismatch in found.mismatches)
    assert found.mismatches[0].diff.first.index == (4, 12)
