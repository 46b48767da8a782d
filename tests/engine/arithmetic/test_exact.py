"""The unrounded arithmetic: the true value, and how far a baseline is from it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from exactness import arithmetic as ops
from exactness.arithmetic import IEEE, Exact, Hopper, Value, cast, constant, fma, orders, sum_
from exactness.arithmetic import exact as exact_module
from exactness.arithmetic import hopper as hopper_module
from exactness.formats import bf16, f32, f64
from exactness.rounding import round_to


def given(*numbers: float) -> Value:
    """f32 numbers, entered as inputs are."""
    return Exact().value(np.array(numbers, np.float32))


def test_inputs_and_constants_are_widened_and_nothing_is_rounded() -> None:
    x = given(1.0, 3.0)
    assert x.payload.dtype == np.float64
    assert x.format is f32
    assert (x / 3.0).payload.tolist() == [1 / 3, 1.0]
    assert (x * 0.1).payload.tolist() == [0.1, 3 * 0.1]
    assert (1.0 - x * 1e-12).payload[0] == 1 - 1e-12
    assert constant(1 + 2**-40, bf16, x).payload == 1 + 2**-40
    assert ops.sqrt(x).payload.tolist() == [1.0, math.sqrt(3.0)]
    assert fma(x, 0.1, 1e-10).payload[0] == 0.1 + 1e-10


def test_casts_change_the_label_alone() -> None:
    x = given(1.0) * 0.1
    narrow = cast(x, bf16)
    assert narrow.format is bf16
    assert narrow.payload.tolist() == [0.1]
    assert cast(narrow, f64).payload.tolist() == [0.1]


def test_bf16_sums_are_unrounded() -> None:
    """C27: what bf16 makes 256, 4096 ones really are 4096; the distance is measured, not known."""
    ones = np.ones(4096, np.float32)
    order = orders.sequential(4096)
    true = sum_(Value(Exact(), ones.astype(np.float64), bf16), order=order)
    narrow = sum_(Value(IEEE(), ones, bf16), order=order)
    assert (true.payload.item(), narrow.payload.item()) == (4096.0, 256.0)


FUNCTIONS: list[tuple[Callable[[Value], Value], Callable[[float], float]]] = [
    (lambda x: ops.ex2_approx(x, ftz=True), lambda x: 2.0**x),
    (lambda x: ops.rsqrt_approx(x, ftz=True), lambda x: 1 / math.sqrt(x)),
    (lambda x: ops.sqrt_approx(x, ftz=False), math.sqrt),
    (lambda x: ops.rcp_approx(x, ftz=False), lambda x: 1 / x),
    (lambda x: ops.div_full(1.0, x), lambda x: 1 / x),
    (lambda x: ops.div_full(x, 3.0, ftz=True), lambda x: x / 3),
    (ops.expf, math.exp),
    (ops.tanhf, math.tanh),
    (ops.erff, math.erf),
]


@pytest.mark.parametrize(("function", "true"), FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_special_functions_are_the_true_ones(
    function: Callable[[Value], Value], true: Callable[[float], float]
) -> None:
    numbers = np.array([0.3, 1.0, 2.7, 9.0], np.float32)
    expected = [true(float(number)) for number in numbers]
    np.testing.assert_allclose(function(given(*numbers)).payload, expected, rtol=4e-16)
    on_torch = Value(Exact(), torch.from_numpy(numbers.astype(np.float64)), f32)
    np.testing.assert_allclose(function(on_torch).payload.numpy(), expected, rtol=4e-16)
    assert function(given()).shape == (0,)


def test_every_approximation_of_the_hardware_has_a_true_function() -> None:
    assert exact_module._FUNCTIONS.keys() == hopper_module.SPECIAL.keys()


def test_the_same_program_gives_bits_and_truth() -> None:
    """An RMS norm in bf16, its bits within its own roundings of the truth, but not equal to it."""

    def norm(x: Value) -> Value:
        mean = sum_(x * x, order=orders.halving(x.shape[-1])) * (1.0 / x.shape[-1])
        return x / ops.sqrt(mean + 1e-6)

    drawn = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    x = Value(Hopper(), round_to(drawn, bf16), bf16)
    bits = norm(x).payload.astype(np.float64)
    wide = x.payload.astype(np.float64)
    truth = norm(Value(Exact(), wide, bf16)).payload
    by_hand = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(truth, by_hand, rtol=1e-14)
    error = np.abs(bits / truth - 1).max()
    assert 2.0**-9 < error < 12 * 2.0**-9


def test_no_floating_point_error_is_raised() -> None:
    signalling = np.array([0x7F800001, 0, 0xFF800000], np.uint32).view(np.float32)
    with np.errstate(all="raise"):
        x = Exact().value(signalling)
        ops.rsqrt_approx(x, ftz=True)
        ops.div_full(x, x)
        ops.expf(x * 1e30)
