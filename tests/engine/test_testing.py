"""`assert_equal_bits` as a user meets it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import exactness
from exactness.testing import assert_equal_bits

pytest_plugins = ["pytester"]


def test_equal_bits_pass_in_silence() -> None:
    x = torch.randn(3, 5).bfloat16()
    assert_equal_bits(x, x.clone())
    exactness.assert_equal_bits(x.float().numpy(), x.float())


def test_one_ulp_fails_with_the_report() -> None:
    x = torch.ones(4, 4, dtype=torch.bfloat16)
    y = x.clone()
    y.view(torch.int16)[2, 1] += 1
    with pytest.raises(AssertionError, match=r"gate: 1 of 16 elements differ, largest 1 ulp") as e:
        assert_equal_bits(y, x, name="gate")
    assert "[2, 1]: actual 0x3f81 (1.0078125), expected 0x3f80 (1.0)" in str(e.value)


def test_options_are_passed_on() -> None:
    zeros = np.array([0.0]), np.array([-0.0])
    assert_equal_bits(*zeros, zero_signs=False)
    with pytest.raises(AssertionError, match="sign of zero"):
        assert_equal_bits(*zeros)
    nans = [np.array([p], np.uint32).view(np.float32) for p in (0x7FC00000, 0x7FC00001)]
    assert_equal_bits(*nans)
    with pytest.raises(AssertionError, match="NaN patterns differ"):
        assert_equal_bits(*nans, nan_payloads=True)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_nothing_to_compare_is_no_pass(shape: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="vacuous, no elements"):
        assert_equal_bits(np.zeros(shape), np.zeros(shape))
    x = np.ones(3)
    with pytest.raises(AssertionError, match="vacuous, actual and expected share memory"):
        assert_equal_bits(x, x)


def test_options_are_keyword_only_and_arguments_typed() -> None:
    with pytest.raises(TypeError, match="positional"):
        assert_equal_bits(np.ones(1), np.ones(1), "name")
    with pytest.raises(TypeError, match=r"expected: .* got float"):
        assert_equal_bits(np.ones(1), 1.0)


def test_the_traceback_ends_at_the_users_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import numpy as np
        from exactness import assert_equal_bits

        def test_mine():
            assert_equal_bits(np.array([1.0]), np.array([2.0]))
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert_equal_bits(np.array(?1.0?), np.array(?2.0?))*"])
    result.stdout.fnmatch_lines(["E*1 of 1 elements differ*"])
    result.stdout.no_fnmatch_line("*__tracebackhide__*")
