"""Values side by side: plain, in one format."""

import numpy as np
import pytest

from exactness.arithmetic import Hopper, concatenate
from exactness.arithmetic.value import Value
from exactness.formats import bf16, f32


def value(array, fmt=f32):
    return Value(Hopper(), np.asarray(array, np.float32), fmt)


def test_parts_follow_each_other_along_an_axis():
    left, right = value([[1, 2], [3, 4]]), value([[5], [-0.0]])
    joined = concatenate([left, right])
    assert joined.format is f32
    assert joined.payload.tolist() == [[1, 2, 5], [3, 4, 0]]
    assert np.signbit(joined.payload[1, 2])
    assert concatenate([left, left], axis=0).shape == (4, 2)


def test_formats_are_not_mixed():
    with pytest.raises(TypeError, match="concatenate: formats bf16 and f32 mixed"):
        concatenate([value([1.0]), value([1.0], bf16)])


def test_a_part_that_is_no_value_is_refused():
    with pytest.raises(TypeError, match="no operand is a Value"):
        concatenate([])
