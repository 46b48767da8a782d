"""Hopper: every named operation reaches its own function, with its own rules for subnormals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from exactness import arithmetic as ops
from exactness.arithmetic import IEEE, Hopper, Value, cast, orders, sum_
from exactness.formats import bf16, f32, f64


def f32s(*numbers: float) -> Value:
    return Hopper().value(np.array(numbers, np.float32))


def pattern(x: Value) -> int:
    return int(x.payload.view(np.uint32)[0])


UNARY: dict[str, tuple[Callable[..., Value], Callable[[float], float]]] = {
    "ex2": (lambda x: ops.ex2_approx(x, ftz=True), lambda x: 2.0**x),
    "ex2 kept": (lambda x: ops.ex2_approx(x, ftz=False), lambda x: 2.0**x),
    "rsqrt": (lambda x: ops.rsqrt_approx(x, ftz=True), lambda x: 1 / math.sqrt(x)),
    "sqrt": (lambda x: ops.sqrt_approx(x, ftz=True), math.sqrt),
    "rcp": (lambda x: ops.rcp_approx(x, ftz=True), lambda x: 1 / x),
    "div": (lambda x: ops.div_full(x, 3.0), lambda x: x / 3),
    "reverse div": (lambda x: ops.div_full(2.0, x), lambda x: 2 / x),
    "exp": (ops.expf, math.exp),
    "tanh": (ops.tanhf, math.tanh),
    "erf": (ops.erff, math.erf),
}


@pytest.mark.parametrize("name", UNARY)
def test_each_function_is_the_one_it_is_called(name: str) -> None:
    """Near the true value, which no two of them share: a mixed-up table would show."""
    function, true = UNARY[name]
    numbers = np.linspace(0.1, 7.9, 200, dtype=np.float32)
    result = function(f32s(*numbers))
    assert result.format is f32
    assert result.payload.dtype == np.float32
    expected = [true(float(number)) for number in numbers]
    np.testing.assert_allclose(result.payload, expected, rtol=3e-7)


def test_results_that_only_the_hardware_gives() -> None:
    """C33: Triton's `/` of 4.6875 by 0.9375 is one ulp above 5; powers at integers are exact."""
    x, y = f32s(4.6875), f32s(0.9375)
    assert pattern(ops.div_full(x, y)) == 0x40A00001
    assert pattern(x / y) == 0x40A00000
    assert pattern(ops.ex2_approx(f32s(-7.0), ftz=True)) == (127 - 7) << 23
    assert pattern(ops.expf(f32s(0.0))) == 0x3F800000


@pytest.mark.parametrize(
    ("function", "x", "flushed", "kept"),
    [
        (ops.ex2_approx, -130.0, 0.0, 2.0**-130),
        (ops.rsqrt_approx, 2.0**-130, math.inf, 2.0**65),
        (ops.sqrt_approx, 2.0**-130, 0.0, 2.0**-65),
        (ops.rcp_approx, 2.0**-127, math.inf, 2.0**127),
        (ops.rcp_approx, 2.0**127, 0.0, 2.0**-127),
        (lambda x, ftz: ops.div_full(x, 2.0, ftz=ftz), 2.0**-126, 0.0, 2.0**-127),
    ],
)
def test_ftz_is_handed_on(function: Any, x: float, flushed: float, kept: float) -> None:
    """C39: subnormals are flushed exactly where the instruction says so."""
    assert function(f32s(x), ftz=True).payload.tolist() == [flushed]
    assert function(f32s(x), ftz=False).payload.tolist() == [kept]


def test_div_full_keeps_subnormals_unless_told() -> None:
    assert ops.div_full(f32s(2.0**-126), 2.0).payload.tolist() == [2.0**-127]


@pytest.mark.parametrize("fmt", [bf16, f64])
@pytest.mark.parametrize("name", UNARY)
def test_special_functions_take_f32_alone(name: str, fmt: Any) -> None:
    x = cast(f32s(1.0), fmt)
    with pytest.raises(TypeError, match=rf"operands are {fmt.name}; f32 is accepted"):
        UNARY[name][0](x)
    assert UNARY[name][0](cast(x, f32)).format is f32


def test_all_else_is_ieee() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 3, 64)).astype(np.float32)

    def program(a: Value, b: Value) -> list[Value]:
        narrow = cast(a, bf16)
        plain = [a + b, a - b, a * b, a / b, ops.sqrt(abs(a)), ops.fma(a, b, a), -a, narrow]
        return [*plain, narrow * narrow, sum_(narrow, order=orders.halving(64))]

    ours = program(Hopper().value(x), Hopper().value(y))
    theirs = program(IEEE().value(x), IEEE().value(y))
    for found, expected in zip(ours, theirs, strict=True):
        assert np.array_equal(found.payload, expected.payload)
    assert (Hopper.name, IEEE.name) == ("hopper", "ieee")


def test_no_floating_point_error_is_raised() -> None:
    x = np.array([0x7F800001, 0x7F7FFFFF, 1, 0xFF800000, 0], np.uint32).view(np.float32)
    with np.errstate(all="raise"):
        for function, _ in UNARY.values():
            function(Hopper().value(x))


def test_shapes_are_kept() -> None:
    x = Hopper().value(np.ones((2, 0, 3), np.float32))
    for function, _ in UNARY.values():
        assert function(x).shape == (2, 0, 3)
        assert function(x[..., 0].reshape(0)).shape == (0,)
        assert function(Hopper().value(np.float32([[1.0]]))).shape == (1, 1)
