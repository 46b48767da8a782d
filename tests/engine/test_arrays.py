"""Every function of `arrays` on NumPy and on torch: one meaning, two spellings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from exactness import arrays

NUMPY = np.array([[1.5, -2.0, np.nan], [0.0, -0.0, np.inf]], np.float32)
BOTH = [NUMPY, torch.from_numpy(NUMPY.copy())]
IDS = ["numpy", "torch"]
both = pytest.mark.parametrize("x", BOTH, ids=IDS)


def plain(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.numpy()


def test_what_is_numpys() -> None:
    assert arrays.is_numpy(NUMPY)
    assert arrays.is_numpy(np.float32(1))
    assert not arrays.is_numpy(BOTH[1])
    assert not arrays.is_numpy(1.0)
    assert arrays.namespace(NUMPY) is np
    assert arrays.namespace(BOTH[1]) is torch


@both
@pytest.mark.parametrize("name", ["float32", "float64", "int32", "int64", "bool"])
def test_dtypes_go_by_one_name(x: Any, name: str) -> None:
    with np.errstate(invalid="ignore"):
        converted = arrays.astype(x, name)
    assert arrays.dtype_name(converted) == name
    assert converted.dtype == arrays.dtype_of(x, name)
    assert type(converted) is type(x)
    assert converted.shape == x.shape


@both
def test_astype_converts_values_and_returns_the_same_array_when_it_can(x: Any) -> None:
    assert arrays.astype(x, "float32") is x
    assert plain(arrays.astype(x[:, :2], "int32")).tolist() == [[1, -2], [0, 0]]
    assert plain(arrays.astype(x[0, :1] == 1.5, "int64")).tolist() == [1]


@both
def test_view_reads_the_bits_of_any_layout(x: Any) -> None:
    bits = NUMPY.view(np.int32)
    assert np.array_equal(plain(arrays.view(x, "int32")), bits)
    assert np.array_equal(plain(arrays.view(x.swapaxes(0, 1), "int32")), bits.T)
    assert np.array_equal(plain(arrays.view(x[:, ::2], "int32")), bits[:, ::2])
    assert plain(arrays.view(x[1, 1], "int32")).tolist() == -(2**31)
    assert arrays.view(arrays.view(x, "int32"), "float32").shape == x.shape
    assert arrays.view(x[:0], "int32").shape == (0, 3)


@both
@pytest.mark.parametrize("scalar", [7, -(2**31)])
def test_where_gives_scalars_the_other_operands_dtype(x: Any, scalar: int) -> None:
    bits = arrays.view(x, "int32")
    chosen = arrays.where(x > 0, scalar, bits)
    assert arrays.dtype_name(chosen) == "int32"
    assert np.array_equal(plain(chosen), np.where(NUMPY > 0, scalar, NUMPY.view(np.int32)))
    assert arrays.dtype_name(arrays.where(x > 0, x, -0.0)) == "float32"
    wide = arrays.where(x > 0, arrays.astype(x, "float64"), np.inf)
    assert arrays.dtype_name(wide) == "float64"


@both
def test_where_of_two_scalars_follows_the_condition(x: Any) -> None:
    chosen = arrays.where(x > 0, 1, -1)
    assert plain(chosen).tolist() == [[1, -1, -1], [-1, -1, 1]]
    assert arrays.is_numpy(chosen) == arrays.is_numpy(x)


@both
def test_full_stands_beside_its_model(x: Any) -> None:
    made = arrays.full(x, (2, 0), -0.5, "float64")
    assert (made.shape, arrays.dtype_name(made)) == ((2, 0), "float64")
    scalar = arrays.full(x, (), -0.0, "float32")
    assert scalar.shape == ()
    assert np.signbit(plain(scalar))
    assert type(scalar) is type(x)
    scalar[...] = 2.0
    assert float(scalar) == 2.0


@both
def test_indices_gather_rows(x: Any) -> None:
    index = arrays.index_array(x, np.array([1, 0, 1]))
    assert np.array_equal(plain(x[index]), NUMPY[[1, 0, 1]], equal_nan=True)


@both
def test_broadcast_repeats_without_a_copy(x: Any) -> None:
    wide = arrays.broadcast_to(x[:, :1], (4, 2, 5))
    assert wide.shape == (4, 2, 5)
    assert np.array_equal(plain(wide), np.broadcast_to(NUMPY[:, :1], (4, 2, 5)))
    strides = wide.strides if arrays.is_numpy(x) else wide.stride()
    assert (strides[0], strides[2]) == (0, 0)


@pytest.mark.parametrize("of", [np.array, torch.tensor], ids=IDS)
def test_the_smallest_along_an_axis(of: Any) -> None:
    x = of([[3, -2, 5], [7, 8, -9]])
    assert plain(arrays.smallest(x, -1)).tolist() == [[-2], [-9]]
    assert plain(arrays.smallest(x, 0)).tolist() == [[3, -2, -9]]
    assert arrays.smallest(x[:0], -1).shape == (0, 1)
