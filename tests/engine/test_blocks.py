"""Blocks must not show in a result, whatever the operands' shapes and layouts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from exactness.blocks import BLOCK, in_blocks


@in_blocks
def difference(a, b, *, twice=False):
    assert max(a.size, b.size) <= BLOCK
    return (a - b) * np.float32(2 if twice else 1)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_every_element_is_computed_once(size):
    a = np.arange(size, dtype=np.float32)
    b = np.linspace(0, 1, size, dtype=np.float32)
    assert np.array_equal(difference(a, b), a - b)
    assert np.array_equal(difference(a, b, twice=True), 2 * (a - b))


def test_operands_broadcast_and_may_be_strided():
    a = np.arange(2 * BLOCK, dtype=np.float32).reshape(2, BLOCK).T
    b = np.arange(2, dtype=np.float32)
    assert np.array_equal(difference(a, b), a - b)
    assert np.array_equal(difference(a[::2], b), a[::2] - b)


@pytest.mark.parametrize("one", [np.float32(0.5), np.full((1, 1, 1), 0.5, np.float32)])
def test_a_single_element_goes_to_every_block(one):
    a = np.arange(2 * BLOCK, dtype=np.float32).reshape(2, BLOCK)
    shape = np.broadcast_shapes(a.shape, one.shape)
    assert np.array_equal(difference(a, one), (a - one).reshape(shape))
    assert np.array_equal(difference(one, a), (one - a).reshape(shape))
    assert difference(a, one).shape == shape


def test_small_operands_may_span_a_large_result():
    column, row = np.arange(3, dtype=np.float32)[:, None], np.arange(BLOCK, dtype=np.float32)
    assert np.array_equal(difference(column, row), column - row)


def test_the_dtype_is_the_functions():
    @in_blocks
    def positive(x):
        return x > 0

    x = np.arange(-BLOCK, BLOCK, dtype=np.float64)
    assert positive(x).dtype == bool
    assert np.array_equal(positive(x), x > 0)
    assert difference(x, x).dtype == np.float64


def test_tensors_go_through_whole():
    seen = []

    @in_blocks
    def halved(x):
        seen.append(tuple(x.shape))
        return x * 0.5

    assert halved(torch.ones(2, BLOCK)).shape == (2, BLOCK)
    assert seen == [(2, BLOCK)]


def test_the_signature_stays():
    assert difference.__name__ == "difference"
    with pytest.raises(TypeError, match="thrice"):
        difference(np.zeros(1, np.float32), np.zeros(1, np.float32), thrice=True)
