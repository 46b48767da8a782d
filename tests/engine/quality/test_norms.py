"""What a norm multiplies by, found out from what it does."""

import pytest
import torch

from exactness.quality.norms import Scale, scales_of

N = 64
WEIGHT = 1.0 + 0.3 * torch.sin(torch.arange(N) * 1.7)


def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


CASES = {
    "none": (lambda x: rms(x.float()).to(x.dtype), None, Scale.NONE),
    "weight": (lambda x: WEIGHT.to(x.dtype) * rms(x.float()).to(x.dtype), WEIGHT, Scale.WEIGHT),
    "one more": (lambda x: (rms(x.float()) * (1 + WEIGHT)).to(x.dtype), WEIGHT, Scale.ONE_MORE),
    "unused weight": (lambda x: rms(x), WEIGHT, Scale.NONE),
    "layer norm": (lambda x: rms(x - x.mean(-1, keepdim=True)), None, None),
    "identity": (lambda x: x, None, None),
    "other weight": (lambda x: rms(x) * WEIGHT.flip(0).to(x.dtype), WEIGHT, None),
    "l2": (lambda x: torch.nn.functional.normalize(x, dim=-1), None, None),
}


@pytest.mark.parametrize("case", CASES)
def test_scale(case):
    function, weight, expected = CASES[case]
    found = scales_of(function, weight, torch.bfloat16, "cpu")
    assert found == (() if expected is None else (expected,))


def test_a_weight_of_ones_may_be_there_or_not():
    found = scales_of(rms, torch.ones(N), torch.bfloat16, "cpu")
    assert found == (Scale.WEIGHT, Scale.NONE)


def test_factor_keeps_the_precision_asked_for():
    weight = torch.tensor([2.0**-9], dtype=torch.bfloat16)
    assert float(Scale.ONE_MORE.factor(weight, torch.float32)) == 1 + 2.0**-9
    assert Scale.NONE.factor(weight, torch.float32) is None
