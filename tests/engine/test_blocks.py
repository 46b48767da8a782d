import numpy as np
import pytest

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


def test_the_signature_stays():
    assert difference.__name__ == "difference"
    with pytest.raises(TypeError, match="thrice"):
        difference(np.zeros(1, np.float32), np.zeros(1, np.float32), thrice=True)
