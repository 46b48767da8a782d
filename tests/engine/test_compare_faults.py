"""Comparison: planted faults of every kind are seen, and nothing vacuous passes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
import torch

from exactness import tally
from exactness.bits import Bits, unsigned
from exactness.compare import Verdict, compare
from exactness.formats import FORMATS, Format, bf16, e4m3fn, f32, f64, tf32
from exactness.jsonable import jsonable

FLOATS = [fmt for fmt in FORMATS.values() if fmt is not tf32]


def numbers(value: Any) -> Iterator[float]:
    """Every number in a JSON value, those written as strings included."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, (int, float)) or value in ("nan", "inf", "-inf"):
        yield float(value)


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("where", [0, 40_000, 69_998, 69_999])
def test_one_ulp_in_one_element_is_seen_wherever_it_is(fmt: Format, where: int) -> None:
    patterns = np.resize(np.arange(3, 50), 70_000).astype(unsigned(fmt)).reshape(700, 100)
    changed = patterns.copy()
    changed.flat[where] += 1
    diff = compare(Bits(changed, fmt), Bits(patterns, fmt))
    place = (where // 100, where % 100)
    assert (diff.mismatches, diff.max_ulps) == (1, 1)
    assert diff.first == diff.maximum
    assert diff.first.index == place
    assert diff.rows.worst == ((place[0], 1),)
    assert diff.columns.worst == ((place[1], 1),)
    assert compare(Bits(patterns.copy(), fmt), Bits(patterns, fmt)).verdict is Verdict.EQUAL


@pytest.mark.parametrize("mutant", ["zeros", "constant", "row", "scale", "tail", "order"])
def test_what_passes_a_loose_gate_is_different(mutant: str) -> None:
    expected = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    actual = expected.copy()
    if mutant == "zeros":
        actual[:] = 0
    elif mutant == "constant":
        actual[:] = 0.75
    elif mutant == "row":
        actual[3] = 0
    elif mutant == "scale":
        actual *= np.float32(1.01)
    elif mutant == "tail":
        actual[:, -1] = 0
    else:
        actual[0, 0], expected[0, 0] = np.float32(1e8) + 1 - 1e8, 1.0
    assert compare(actual, expected).verdict is Verdict.DIFFERENT


def test_signs_of_zero_differ_unless_asked() -> None:
    pair = np.array([0.0, 1.0], np.float32), np.array([-0.0, 1.0], np.float32)
    diff = compare(*pair)
    assert (diff.verdict, diff.mismatches, diff.zero_sign_differences) == (Verdict.DIFFERENT, 1, 1)
    assert (diff.max_ulps, diff.buckets) == (0, (1, 0, 0, 0, 0, 0))
    relaxed = compare(*pair, zero_signs=False)
    assert (relaxed.verdict, relaxed.zero_sign_differences) == (Verdict.EQUAL, 1)


def test_nan_is_nan_unless_patterns_count() -> None:
    pair = (
        Bits(np.array([0x7FC0, 0x3F80], np.uint16), bf16),
        Bits(np.array([0xFFFF, 0x3F80], np.uint16), bf16),
    )
    assert compare(*pair).verdict is Verdict.EQUAL
    strict = compare(*pair, nan_payloads=True)
    assert (strict.mismatches, strict.payload_differences) == (1, 1)
    assert (strict.first.ulps, strict.first.difference) == (None, None)


def test_nan_against_a_number_is_never_small() -> None:
    for actual, expected in ((np.nan, 1.0), (1.0, np.nan)):
        diff = compare(np.array([actual, 2.0]), np.array([expected, 2.0]))
        assert (diff.mismatches, diff.nan_mismatches, diff.max_ulps) == (1, 1, math.inf)
        assert diff.maximum is None
        assert diff.first_nan.index == (0,)
    diff = compare(np.full(4, np.nan, np.float32), np.ones(4, np.float32))
    assert diff.verdict is Verdict.DIFFERENT
    assert (diff.median, diff.p99, diff.buckets) == (None, None, (0,) * 6)


def test_all_nan_is_equal_and_says_so() -> None:
    diff = compare(np.full(3, np.nan), np.full(3, np.nan))
    assert (diff.verdict, diff.all_nan, diff.all_finite) == (Verdict.EQUAL, True, False)
    assert not compare(np.array([np.nan, 1]), np.array([np.nan, 1])).all_nan


def test_infinities_are_compared_without_nan() -> None:
    same = compare(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]))
    assert (same.verdict, same.nonfinite, same.all_nan) == (Verdict.EQUAL, 1, False)
    diff = compare(np.array([-np.inf, 1.0]), np.array([np.inf, 1.0]))
    assert (diff.mismatches, diff.infinity_mismatches) == (1, 1)
    assert diff.largest_difference.difference == math.inf
    assert not any(math.isnan(number) for number in numbers(jsonable(diff)))


def test_flushed_subnormals_are_told_apart() -> None:
    expected = np.array([1e-40, -1e-40, 2.0**-149, 2.0**-126, 1.0], np.float32)
    actual = expected.copy()
    actual[:3] = 0
    actual[4] = np.nextafter(np.float32(1), np.float32(2))
    diff = compare(actual, expected)
    assert (diff.flushed, diff.mismatches) == (3, 4)
    assert diff.maximum.ulps == 71_362
    assert (diff.maximum_unflushed.index, diff.maximum_unflushed.ulps) == ((4,), 1)


def test_the_border_of_flushing_is_the_smallest_normal_number() -> None:
    tiny = np.array([0x007FFFFF, 0x00800000], np.uint32).view(np.float32)
    diff = compare(np.zeros(2, np.float32), tiny)
    assert (diff.flushed, diff.maximum_unflushed.index) == (1, (1,))


@pytest.mark.parametrize("block", [1, 1 << 15])
@pytest.mark.parametrize(
    ("actual", "expected"), [([3e38, 3.4e38], [-3e38, -3.4e38]), ([2.0**24] * 2, [0.0, -1.0])]
)
def test_the_largest_difference_is_found_where_f32_cannot_tell(
    actual: list[float], expected: list[float], block: int
) -> None:
    pair = np.array(actual, np.float32), np.array(expected, np.float32)
    with mock.patch.object(tally, "BLOCK", block):
        diff = compare(*pair)
    assert diff.largest_difference.index == (1,)
    assert diff.largest_difference.difference == float(pair[0][1]) - float(pair[1][1])


def test_the_worst_is_the_first_of_its_kind() -> None:
    diff = compare(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    assert diff.maximum.index == diff.largest_difference.index == (0,)
    tied = compare(np.array([0.0, 1.0, 1.0]), np.array([0.0, 2.0, 2.0]))
    assert tied.maximum.index == tied.first.index == (1,)


def test_integers_differ_by_their_distance() -> None:
    diff = compare(np.array([2**64 - 1, 7], np.uint64), np.array([0, 7], np.uint64))
    assert (diff.maximum.ulps, diff.largest_difference.difference) == (2**64 - 1, 2**64 - 1)
    assert (diff.magnitude, diff.zero_sign_differences) == (None, 0)


def test_shape_and_format_are_compared_first() -> None:
    for other in (np.zeros(5, np.float32), np.zeros((4, 1), np.float32), np.zeros(4, np.int32)):
        diff = compare(np.zeros(4, np.float32), other)
        assert (diff.verdict, diff.elements) == (Verdict.DIFFERENT, 0)
        assert diff.shape_differs or diff.format_differs


def test_nothing_compared_is_vacuous() -> None:
    for shape in ((0, 3), (3, 0), (0,)):
        diff = compare(np.zeros(shape), np.zeros(shape))
        assert (diff.verdict, diff.elements, diff.median) == (Verdict.VACUOUS, 0, None)
    assert compare(np.zeros((0, 3)), np.zeros((0, 4))).verdict is Verdict.DIFFERENT


def test_a_tensor_is_not_compared_with_itself() -> None:
    tensor, array = torch.zeros(4, 6), np.ones((4, 6))
    flags = torch.zeros(4, dtype=torch.bool)
    for actual, expected in (
        (array, array),
        (array, array[:]),
        (array[:2], array[1:3]),
        (tensor, tensor.view(4, 6)),
        (tensor, tensor.numpy()),
        (Bits.of(array), array),
        (flags, flags),
    ):
        diff = compare(actual, expected)
        assert (diff.verdict, diff.same_memory) == (Verdict.VACUOUS, True)
    assert compare(tensor[:, ::2], tensor[:, 1::2]).verdict is Verdict.EQUAL
    assert compare(tensor, tensor.clone()).verdict is Verdict.EQUAL
    array[0] = 2
    assert compare(array[:1], array[:1]).verdict is Verdict.VACUOUS
    assert compare(array[:2], array[1:3]).verdict is Verdict.DIFFERENT


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_and_ml_dtypes_tensors_mix(name: str) -> None:
    values = np.linspace(-3, 3, 50).astype(np.float32)
    tensor = torch.from_numpy(values).to(getattr(torch, name)).reshape(5, 10)
    array = tensor.float().numpy().astype(getattr(ml_dtypes, name))
    assert compare(tensor, array).verdict is Verdict.EQUAL
    assert compare(tensor.T, array.T).verdict is Verdict.EQUAL
    assert compare(tensor.requires_grad_(), array).verdict is Verdict.EQUAL


def test_strides_do_not_matter() -> None:
    base = np.random.default_rng(1).integers(0, 1 << 32, (60, 80), dtype=np.uint32)
    other = base.copy()
    other[7, 9] ^= 1
    for view in (lambda x: x.T, lambda x: x[::2, 1::2], lambda x: x[::-1], lambda x: x[:, None]):
        straight = compare(Bits(view(other).copy(), f32), Bits(view(base).copy(), f32))
        strided = compare(Bits(view(other), f32), Bits(view(base), f32))
        assert strided == straight


def test_unusable_arguments_are_named() -> None:
    good = np.zeros(2, np.float32)
    with pytest.raises(TypeError, match="actual: expected a NumPy array or a torch tensor, got li"):
        compare([1.0, 2.0], good)
    with pytest.raises(TypeError, match="expected: dtype complex128 has no format"):
        compare(good, np.zeros(2, complex))
    with pytest.raises(TypeError, match=r"actual: a torch.sparse_coo tensor"):
        compare(torch.eye(2).to_sparse(), torch.eye(2))
    with pytest.raises(TypeError, match=r"actual: .* on meta"):
        compare(torch.zeros(2, device="meta"), torch.zeros(2))
    with pytest.raises(TypeError, match="expected: a masked array"):
        compare(good, np.ma.array(good, mask=[True, False]))


def test_tf32_counts_in_its_own_ulps() -> None:
    patterns = np.array([0x3F800000, 0x3F802000], np.uint32)
    diff = compare(Bits(patterns[:1], tf32), Bits(patterns[1:], tf32))
    assert diff.maximum.ulps == 1
    with pytest.raises(ValueError, match="tf32 patterns with the low 13 bits set"):
        compare(Bits(patterns | 1, tf32), Bits(patterns, tf32))


def test_e4m3_has_one_nan_and_no_infinity() -> None:
    every = Bits(np.arange(256).astype(np.uint8), e4m3fn)
    diff = compare(every, Bits(every.patterns.copy(), e4m3fn))
    assert (diff.nan_pairs, diff.nonfinite, diff.magnitude) == (2, 2, 448.0)


def test_a_difference_beyond_f64_is_infinite() -> None:
    diff = compare(np.array([1.7e308]), np.array([-1.7e308]))
    assert diff.largest_difference.difference == math.inf
    assert diff.magnitude == 1.7e308
    assert diff.actual_format is f64
