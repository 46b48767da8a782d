"""Arguments made to show a given fault."""

import numpy as np
import pytest
import torch

from exactness.bits import Bits
from exactness.checks import planting
from exactness.formats import bf16, f32
from exactness.inputs import Example
from exactness.inputs.draws import TensorDraw

ROWS = 400


def example(fmt=f32):
    draw = TensorDraw(fmt.name, (ROWS, 64), "normal", 1)
    return Example({"x": draw, "weight": TensorDraw(fmt.name, (64,), "normal", 2)})


def rows_like(arguments, places, batched=("x",), seed="seed"):
    return planting.with_rows_like(arguments, batched, np.array(places), seed)


@pytest.fixture
def one_row_apart():
    """Row 7 is near 2^60, the others near 1."""
    x = torch.randn(ROWS, 64, generator=torch.Generator().manual_seed(0))
    x[7] *= 2.0**60
    return {"x": x, "weight": torch.randn(64), "eps": 1e-6}


def test_rows_of_a_place_are_most_of_the_rows(one_row_apart):
    made = rows_like(one_row_apart, [7.5 / ROWS])
    largest = made["x"].abs().amax(1)
    share = (largest > 2.0**50).float().mean()
    assert 0.65 < share < 0.85


def test_copied_rows_differ_by_magnitude_and_by_ulps(one_row_apart):
    made = rows_like(one_row_apart, [7.5 / ROWS])["x"]
    copies = made[made.abs().amax(1) > 2.0**50]
    ratios = (copies / one_row_apart["x"][7]).abs()
    exponents = torch.log2(ratios.median(1).values).round()
    assert set(range(-4, 5)) <= {int(each) for each in exponents}
    off = (ratios / 2.0 ** exponents[:, None] - 1).abs()
    assert ((off > 0) & (off <= 2.0**-21)).float().mean() > 0.2


def test_the_rest_of_the_arguments_stays(one_row_apart):
    before = one_row_apart["x"].clone()
    made = rows_like(one_row_apart, [0.5])
    assert made["weight"] is one_row_apart["weight"]
    assert made["eps"] == 1e-6
    assert made["x"].shape == before.shape
    assert torch.equal(one_row_apart["x"], before)


def test_rows_of_two_tensors_stay_together():
    x = torch.arange(ROWS, dtype=torch.float32)[:, None] + 1.0
    ids = torch.arange(ROWS)
    made = rows_like({"x": x, "ids": ids}, [0.1, 0.6], ("x", "ids"))
    significands = torch.frexp(made["x"][:, 0] / (made["ids"] + 1)).mantissa
    near_a_power_of_two = (significands - 0.5 < 1e-6) | (significands > 1 - 1e-6)
    assert near_a_power_of_two.all()
    assert len(set(made["ids"].tolist())) < ROWS / 2


def test_special_values_of_a_row_are_kept():
    x = torch.ones(8, 4, dtype=torch.bfloat16)
    x[3] = torch.tensor([float("nan"), float("inf"), -0.0, 0.0])
    made = rows_like({"x": x}, [3.5 / 8])["x"]
    copies = made[made.isnan().any(1)]
    assert len(copies) >= 4
    assert bool((copies.isinf().sum(1) == 1).any())


def test_the_same_seed_gives_the_same_rows(one_row_apart):
    first, again = (rows_like(one_row_apart, [0.3])["x"] for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, rows_like(one_row_apart, [0.3], seed="other")["x"])


@pytest.mark.parametrize("fmt", [bf16, f32])
def test_dominated_rows_reach_where_squares_underflow_and_overflow(fmt):
    made = planting.with_dominant_blocks(example(fmt), "seed")["x"].double()
    largest = torch.log2(made.abs().amax(1))
    assert 0.4 < (largest.abs() < 3).float().mean() < 0.65
    assert largest.min() < fmt.min_exponent / 2
    assert largest.max() > fmt.max_exponent / 2 - 8


def test_few_neighbours_dominate_a_row():
    made = planting.with_dominant_blocks(example(), "seed")["x"].double()
    near_the_largest = made.abs() > made.abs().amax(1, keepdim=True) * 2.0**-14
    assert int(near_the_largest.sum(1).max()) <= 2 * planting.BLOCK


def test_a_tensor_without_rows_is_as_drawn():
    made = planting.with_dominant_blocks(example(), "seed")
    assert torch.equal(made["weight"], example().arguments("cpu")["weight"])


def test_planted_values_and_zeros_fill_most_of_a_tensor():
    patterns = np.array([0x3F80FFFF], np.uint32)
    made = planting.with_values(example(), "x", patterns)["x"]
    found = Bits.of(made).patterns
    planted = (found == patterns[0]) | (found == 0)
    assert 0.7 < planted.mean() < 0.8


def test_values_that_a_format_lacks_are_not_planted():
    values = {32: np.array([0x3F80FFFF, 0x3F810000], np.uint32)}
    assert planting.fitting(values, bf16).tolist() == [0x3F81]
    assert planting.fitting(values, f32).tolist() == [0x3F80FFFF, 0x3F810000]
