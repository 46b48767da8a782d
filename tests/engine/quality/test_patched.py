"""A norm in every arithmetic of the legs."""

from dataclasses import replace

import pytest
import torch

from exactness.quality.legs import CHAIN, DEFAULT, EXACT, OWN, REORDERED, VARIANT
from exactness.quality.norm_error import Errors, errors
from exactness.quality.norms import Norm, Scale
from exactness.quality.patched import BLOCK, Patched


@pytest.fixture
def patched(catalogue, machine):
    """The claim `norm`, for a norm without a weight."""
    claim = catalogue.select(("norm",))[0].claim
    variant = claim.variants[0]
    references = (catalogue.reference(c.reference) for c in (claim, variant))
    default, opted = references
    return Patched(Norm("a.norm", 1e-6), claim, machine, default, variant, opted)


@pytest.fixture
def x():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(3, 5, 2, 48, generator=generator).to(torch.bfloat16)


def exact(x, factor=1.0):
    wide = x.double()
    return wide * (wide.square().mean(-1, keepdim=True) + 1e-6) ** -0.5 * factor


def test_kernel_and_reference_agree_in_the_shape_of_the_input(patched, x):
    kernel, chain = (patched.function(leg)(x) for leg in (DEFAULT, CHAIN))
    assert kernel.shape == x.shape
    assert kernel.dtype == x.dtype
    assert torch.equal(kernel, chain)
    assert patched.work == (2, 60, 60 * 48)


def test_the_variant_differs_from_the_default_and_is_its_own_reference(patched, x):
    variant = patched.function(VARIANT)(x)
    assert not torch.equal(variant, patched.function(DEFAULT)(x))
    by_reference = replace(patched, machine=None)
    assert torch.equal(variant, by_reference.function(VARIANT)(x))


def test_exact_arithmetic_rounds_once(patched, x):
    found = patched.function(EXACT)(x)
    error = (found.double() - exact(x)).abs() / exact(x).abs()
    assert float(error.max()) <= 2.0**-8


def test_another_order_has_the_same_terms(patched, x):
    found, chain = (patched.function(leg)(x) for leg in (REORDERED, CHAIN))
    assert not torch.equal(found, chain)
    assert float((found.double() - exact(x)).norm() / exact(x).norm()) < 0.05
    even = torch.ones_like(x)  # with equal terms no order can matter
    assert torch.equal(patched.function(REORDERED)(even), patched.function(CHAIN)(even))


def test_rows_beyond_a_block_are_like_those_before(patched):
    rows = torch.randn(BLOCK + 3, 8, generator=torch.Generator().manual_seed(1)).bfloat16()
    whole = patched.function(CHAIN)(rows)
    assert torch.equal(whole[-3:], patched.function(CHAIN)(rows[-3:]))


def test_no_rows(patched):
    empty = torch.zeros(0, 2, 8, dtype=torch.bfloat16)
    assert patched.function(CHAIN)(empty).shape == empty.shape


@pytest.mark.parametrize(("scale", "more"), [(Scale.WEIGHT, 0.0), (Scale.ONE_MORE, 1.0)])
def test_the_weight_is_applied_when_the_claim_does_not(patched, x, scale, more):
    weight = torch.linspace(-0.5, 0.5, 48).to(torch.bfloat16)
    weighted = replace(patched, norm=Norm("a.norm", 1e-6, weight, scale))
    expected = (patched.function(CHAIN)(x).float() * (more + weight.float())).to(torch.bfloat16)
    assert torch.equal(weighted.function(CHAIN)(x), expected)
    assert torch.equal(weighted.function(DEFAULT)(x), expected)
    error = weighted.function(EXACT)(x).double() - exact(x, more + weight.double())
    assert float(error.norm() / exact(x).norm()) < 2.0**-8


def test_errors_are_measured_on_rows_that_are_not_zero(patched, x):
    x[0, 0] = 0.0
    default_gain, default_error, variant_gain, variant_error = errors(patched, x).T
    assert default_gain.size == 28
    assert abs(variant_gain).max() < 2.0**-8
    # A sum of 48 squares in bf16 loses more than its roundings' last bits.
    assert abs(default_gain).max() > abs(variant_gain).max()
    assert all(default_error >= abs(default_gain))
    assert all(variant_error >= abs(variant_gain))


def test_a_gain_that_is_planted_is_found(patched, x):
    def longer(x, eps):
        out = patched.reference(x, eps)
        return out if x.arithmetic.name == "exact" else out * 1.125

    gain = errors(replace(patched, reference=longer), x)[:, 0]
    assert Errors.of(gain, gain).gain == pytest.approx(0.125, abs=0.02)


def test_figures_of_errors():
    found = Errors.of(torch.tensor([0.3, -0.4]).double().numpy(), torch.ones(2).double().numpy())
    assert found.gain == pytest.approx(-0.05)
    assert found.gain_size == pytest.approx(0.125**0.5)
    assert (found.gain_max, found.error) == (pytest.approx(0.4), 1.0)


def test_the_own_norm_is_nobody_elses():
    assert OWN.how not in {leg.how for leg in (DEFAULT, VARIANT, CHAIN, EXACT, REORDERED)}
