"""Fingerprints of tensor-core products: what they cover, and that a changed bit changes them."""

import numpy as np
import pytest

from exactness.bits import decode, is_infinity, is_nan, is_subnormal, is_zero
from exactness.formats import f32, tf32
from exactness.hopper.tensor_core import KINDS, matmul
from exactness.hopper.tensor_core_fingerprint import fingerprint, operands
from exactness.inputs.patterns import FAMILIES

BF16 = KINDS["f32.bf16.bf16"]


def product(kind, spoiled=None):
    def multiply(a, b, c):
        with np.errstate(all="ignore"):
            out = matmul(*(decode(x.patterns, x.format) for x in (a, b, c)), kind=kind)
        if spoiled is not None:
            out.view(np.uint32)[spoiled] ^= 1
        return out

    return multiply


def test_one_ulp_in_a_corner_changes_the_fingerprint():
    right = fingerprint(BF16, product(BF16))
    assert right == fingerprint(BF16, product(BF16))
    assert right != fingerprint(BF16, product(BF16, spoiled=(63, 63)))


def test_nan_payloads_do_not_count():
    def other_nan(a, b, c):
        out = product(BF16)(a, b, c)
        out.view(np.uint32)[np.isnan(out)] = 0x7FC00000
        return out

    assert fingerprint(BF16, other_nan) == fingerprint(BF16, product(BF16))


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_operands_meet_every_class_of_value(kind):
    products = list(operands(kind))
    assert len(products) == 4 * len(FAMILIES)
    for place, fmt in enumerate((kind.a, kind.b, kind.accumulator)):
        drawn = [p[place] for p in products]
        assert {bits.format for bits in drawn} == {f32 if fmt is tf32 else fmt}
        patterns = np.concatenate([bits.patterns.ravel() for bits in drawn])
        for is_class in (is_nan, is_zero, is_subnormal):
            assert is_class(patterns, fmt).any()
        assert is_infinity(patterns, fmt).any() == fmt.infinities


def test_every_operand_is_drawn_anew():
    drawn = [bits.patterns for p in operands(KINDS["f16.f16.f16"]) for bits in p]
    starts = {patterns.tobytes()[:64] for patterns in drawn if (patterns != patterns[0, 0]).any()}
    assert len(starts) > 0.9 * len(drawn)
