"""Figures of the paired comparison against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.quality.statistics import (
    Comparison,
    Divergence,
    LogRatio,
    block_error,
    perplexity,
)


def windows(count, size):
    return np.repeat(np.arange(count), size)


def test_perplexity_of_a_uniform_guess_is_the_number_of_choices():
    assert perplexity(np.full(10, math.log(7.0))) == pytest.approx(7.0, rel=1e-14)


def test_log_ratio_of_known_differences():
    difference = np.array([1.0, -1.0, 3.0, 1.0])
    ratio = LogRatio.of(difference, windows(2, 2))
    assert ratio.mean == 1.0
    assert ratio.by_token == pytest.approx(math.sqrt(8 / 3 / 4))
    assert ratio.tokens == 4


def test_paired_error_ignores_what_both_find_hard():
    hard = np.random.default_rng(1).exponential(5.0, 4000)
    ratio = LogRatio.of((hard + 0.25) - hard, windows(40, 100))
    assert ratio.by_token < 1e-15
    assert ratio.mean == pytest.approx(0.25)
    assert ratio.is_distinguishable


def test_block_error_of_independent_tokens_is_that_of_tokens():
    values = np.random.default_rng(2).normal(size=40_000)
    assert block_error(values, windows(400, 100)) == pytest.approx(1 / 200, rel=0.1)


def test_block_error_sees_dependence_within_a_window():
    each = np.random.default_rng(3).normal(size=400)
    values = np.repeat(each, 100)
    ratio = LogRatio.of(values, windows(400, 100))
    assert ratio.by_block == pytest.approx(each.std(ddof=1) / 20, rel=0.1)
    assert ratio.by_token == pytest.approx(ratio.by_block / 10, rel=0.15)
    assert ratio.error == ratio.by_block


def test_block_error_weighs_windows_of_unequal_size():
    window = np.r_[np.zeros(300, int), np.ones(100, int)]
    values = np.where(window == 0, 1.0, -3.0)
    # Means of two draws: (0,0), (0,1) and (1,1) with probability 1/4, 1/2, 1/4: 1, 0 and −3.
    expected = math.sqrt((1 + 9) / 4 - 0.25)
    assert block_error(values, window) == pytest.approx(expected, rel=0.05)


def test_block_error_of_one_window_is_unknown():
    assert block_error(np.arange(5.0), np.zeros(5, int)) is None


@pytest.mark.parametrize(("mean", "needed"), [(0.1, 1), (1.0, 100)])
def test_tokens_needed_fall_with_the_square_of_the_difference(mean, needed):
    few = LogRatio(0.01, 0.05, None, 1000).tokens_needed
    many = LogRatio(0.01 * mean, 0.05, None, 1000).tokens_needed
    assert many == pytest.approx(few / mean**2, rel=1e-3)
    assert few == pytest.approx(1000 * (2.8 * 5) ** 2, abs=1)


def test_no_number_of_tokens_tells_a_difference_of_zero():
    assert LogRatio(0.0, 0.05, None, 1000).tokens_needed == math.inf
    assert LogRatio(0.0, 0.0, None, 1000).tokens_needed == math.inf


@given(st.floats(-5, 5), st.floats(0.01, 5))
@settings(deadline=None)
def test_what_is_not_distinguishable_needs_more_tokens(mean, error):
    ratio = LogRatio(mean, error, error / 2, 1000)
    if not ratio.is_distinguishable and mean:
        assert ratio.tokens_needed > 1000


def test_divergence_quantiles():
    kl = Divergence.of(np.arange(1001.0))
    assert (kl.mean, kl.median, kl.p99, kl.p999, kl.max) == (500.0, 500.0, 990.0, 999.0, 1000.0)


def figures(**changed):
    loss = np.linspace(0.1, 2.0, 8)
    made = {
        "first": loss,
        "loss": loss,
        "divergence": np.zeros(8),
        "changed": np.zeros(8, bool),
        "largest": np.zeros(8, np.float32),
        "differing": np.zeros(8, np.int64),
        "window": windows(2, 4),
    }
    return Comparison.of(**(made | changed))


def test_a_leg_like_the_first_is_exactly_zero():
    assert figures().is_zero


@pytest.mark.parametrize(
    "changed",
    [
        {"loss": np.linspace(0.1, 2.0, 8) + np.eye(8)[3] * 1e-12},
        {"divergence": np.eye(8)[5] * 1e-300},
        {"changed": np.eye(8, dtype=bool)[7]},
        {"largest": np.eye(8, dtype=np.float32)[0]},
        {"differing": np.eye(8, dtype=np.int64)[1]},
    ],
    ids=["loss", "divergence", "changed", "largest", "differing"],
)
def test_one_token_that_differs_is_not_zero(changed):
    assert not figures(**changed).is_zero


def test_the_first_token_that_differs():
    found = figures(differing=np.array([0, 0, 0, 1, 0, 20, 0, 0]))
    assert (found.tokens_touched, found.first_touched, found.logits_differing) == (2, 3, 21)
    assert figures().first_touched is None


def test_differences_that_cancel_are_not_zero():
    loss = np.linspace(0.1, 2.0, 8)
    loss[0], loss[1] = loss[1], loss[0]
    assert not figures(loss=loss).is_zero
