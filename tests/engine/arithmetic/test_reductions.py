"""Reductions of arrays along an axis: every addition rounded, in the order that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exactness.arithmetic import IEEE, Value, max_, orders, sum_
from exactness.arithmetic.ieee import _take, reduce_along
from exactness.formats import Format, bf16, f16, f32, tf32
from exactness.rounding import round_to

by_name = {"ids": lambda fmt: getattr(fmt, "name", None)}


@pytest.mark.parametrize("fmt", [bf16, f16, f32, tf32], **by_name)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_sum_rounds_every_addition(fmt: Format, axis: int) -> None:
    rng = np.random.default_rng(6)
    x = round_to(rng.standard_normal((9, 9)).astype(np.float32), fmt)
    summed = sum_(Value(IEEE(), x, fmt), order=orders.sequential(9), axis=axis).payload
    acc = np.zeros(9, np.float32)
    for i, part in enumerate(np.moveaxis(x, axis, 0)):
        acc = part if i == 0 else round_to(acc + part, fmt)
    assert summed.shape == ((1, 9) if axis == 0 else (9, 1))
    assert np.array_equal(summed.ravel(), acc)


def test_a_maximum_starts_from_minus_infinity_and_ignores_nan() -> None:
    """candle's fast_max: slots start at −inf, so a row of NaN gives −inf."""
    x = Value(IEEE(), np.float32([[np.nan, -3, np.nan], [np.nan] * 3, [-0.0, 0.0, -1]]), f32)
    order = orders.strided(3, 4).then(orders.halving(4))
    assert max_(x, order=order).payload.ravel().tolist() == [-3.0, -np.inf, 0.0]
    chain = max_(x, order=orders.sequential(3)).payload.ravel()
    assert np.array_equal(chain, np.float32([-3, np.nan, 0]), equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_maximum_runs_along_its_axis(axis: int) -> None:
    x = np.random.default_rng(7).standard_normal((5, 3)).astype(np.float32)
    found = max_(Value(IEEE(), x, f32), order=orders.halving(x.shape[axis]), axis=axis)
    assert np.array_equal(found.payload, x.max(axis, keepdims=True))


@pytest.mark.parametrize("shape", [(3, 5, 4), (0, 4), (2, 0)])
@pytest.mark.parametrize("buffer", [1, 250, 1 << 20])
def test_reductions_keep_the_axis_and_do_not_depend_on_chunks(
    shape: tuple[int, ...], buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exactness.arithmetic.ieee._BUFFER_BYTES", buffer)
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    for axis in range(x.ndim):
        order = orders.halving(x.shape[axis])
        found = reduce_along(x, order, axis, lambda a, b: a + b, 0.0)
        assert np.array_equal(found, x.sum(axis, keepdims=True))
        assert found.dtype == np.float32


def test_an_order_must_fit_the_axis() -> None:
    x = Value(IEEE(), np.float32([1, 2, 3]), f32)
    with pytest.raises(ValueError, match=r"'halving' takes 4 elements to 1 .* has 3 elements"):
        sum_(x, order=orders.halving(4))
    with pytest.raises(ValueError, match="to 2 results; dimension -1 has 3 elements and needs 1"):
        sum_(x, order=orders.strided(3, 2))


@settings(deadline=None, max_examples=200)
@given(
    ids=st.one_of(
        st.lists(st.integers(0, 29), max_size=8),
        st.tuples(st.integers(0, 9), st.integers(-3, 3), st.integers(1, 7)).map(
            lambda t: [abs(t[0] + 18 * (t[1] < 0) + t[1] * k) for k in range(t[2])]
        ),
    )
)
@example([0, 1, 5, 3])
@example([0, 2, 3, 6])
@example([2, 2, 2])
@example([3, 1])
@example([])
def test_rows_are_taken_as_a_gather_would(ids: list[int]) -> None:
    nodes = np.arange(60).reshape(30, 2)
    assert np.array_equal(_take(nodes, np.array(ids, np.int64)), nodes[np.array(ids, np.int64)])
