"""Values, host constants, mixed formats, launches and the trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from exactness.arithmetic import (
    IEEE,
    Launch,
    Value,
    cast,
    constant,
    equal,
    fma,
    launch,
    maximum,
    minimum,
    where,
)
from exactness.bits import Bits
from exactness.formats import bf16, f16, f32, f64


def f32s(*numbers: float, arithmetic: IEEE | None = None) -> Value:
    return (arithmetic or IEEE()).value(np.array(numbers, np.float32))


def bf16s(*numbers: float) -> Value:
    return Value(IEEE(), np.array(numbers, np.float32), bf16)


def test_python_numbers_become_host_constants() -> None:
    """C13: from f64 to the format in one rounding, on either side of every operator."""
    number = 1 + 2**-8 + 2**-40
    one = bf16s(1.0)
    assert (one * number).payload.tolist() == [1.0078125]
    assert (number * one).payload.tolist() == [1.0078125]
    assert (number - one).payload.tolist() == [0.0078125]
    assert (one - number).payload.tolist() == [-0.0078125]
    assert (number + one).payload.tolist() == [2.0]
    assert (one / 4).payload.tolist() == [0.25]
    assert (4 / one).payload.tolist() == [4.0]
    assert (f32s(1.0) * 0.1).payload[0] == np.float32(0.1)
    assert fma(one, number, 0).payload.tolist() == [1.0078125]
    assert minimum(one, number).payload.tolist() == [1.0]
    assert where(np.array([False]), one, number).payload.tolist() == [1.0078125]


def test_c14_integers_are_constants_too() -> None:
    """C14: 16842753 is rounded to bf16 once, whether int, float or a NumPy scalar."""
    for number in (16842753, 16842753.0, np.int64(16842753), np.float64(16842753)):
        assert (bf16s(1.0) * number).payload.tolist() == [16908288.0]
    assert (np.float32(0.5) * bf16s(3.0)).payload.tolist() == [1.5]


def test_a_constant_may_have_another_format_than_its_neighbour() -> None:
    like = bf16s(1.0, 2.0)
    made = constant(1e-6, f32, like)
    assert (made.format, made.shape, made.payload.dtype) == (f32, (), np.float32)
    assert made.payload == np.float32(1e-6)
    assert made.arithmetic is like.arithmetic
    assert constant(math.inf, f64, like).payload == math.inf


@pytest.mark.parametrize(
    "array", [np.float32([2.0]), np.float64([2.0, 3.0]), torch.ones(1), np.array(2.0)]
)
def test_arrays_are_no_constants(array: Any) -> None:
    """Read as host constants they would be rounded, or used where a tensor was meant."""
    for operation in (
        lambda: f32s(1.0) * array,
        lambda: array * f32s(1.0),
        lambda: maximum(f32s(1.0), array),
        lambda: f32s(1.0) < array,
    ):
        with pytest.raises(TypeError):
            operation()
    for other in ("1", None, 1j):
        with pytest.raises(TypeError, match="is neither a Value nor a number"):
            _ = f32s(1.0) + other


BINARY: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma factor": lambda x, y: fma(x, y, 1.0),
    "fma addend": lambda x, y: fma(x, 1.0, y),
    "minimum": minimum,
    "where": lambda x, y: where(np.array([True]), x, y),
    "less": lambda x, y: x < y,
    "equal": equal,
}


@pytest.mark.parametrize("name", BINARY)
def test_formats_do_not_mix(name: str) -> None:
    with pytest.raises(TypeError, match="formats bf16 and f32 mixed; cast one"):
        BINARY[name](f32s(1.0), bf16s(1.0))
    BINARY[name](f32s(1.0), cast(bf16s(1.0), f32))


def test_no_operand_is_a_value() -> None:
    with pytest.raises(TypeError, match="no operand is a Value"):
        fma(1.0, 2.0, 3.0)  # type: ignore[arg-type]


def test_comparisons_are_plain_arrays_and_false_for_nan() -> None:
    x = f32s(-1.0, 0.0, -0.0, math.nan, 2.0)
    assert (x < 0.0).tolist() == [True, False, False, False, False]
    assert (x <= 0.0).tolist() == [True, True, True, False, False]
    assert (x > 0.0).tolist() == [False, False, False, False, True]
    assert (x >= 0.0).tolist() == [False, True, True, False, True]
    assert equal(x, 0.0).tolist() == [False, True, True, False, False]
    assert (0.0 < x).tolist() == (x > 0.0).tolist()
    assert (np.float32(0) >= x).tolist() == (x <= 0.0).tolist()
    assert equal(x, x).tolist() == [True, True, True, False, True]


def test_python_equality_is_refused() -> None:
    """`x == 0` would be an identity test: False, and silent. So would `x != x` for NaN."""
    x = f32s(1.0)
    with pytest.raises(TypeError, match="use equal"):
        _ = x == 1.0
    with pytest.raises(TypeError, match="use equal"):
        _ = x != x
    assert hash(x) == hash(x)


def test_where_selects_bits() -> None:
    x, y = f32s(math.nan, -0.0, 1.0), f32s(2.0, 3.0, 0.1)
    chosen = where(np.array([True, True, False]), x, y).payload
    assert np.isnan(chosen[0])
    assert np.signbit(chosen[1])
    assert chosen[2] == np.float32(0.1)
    for condition in (True, [True] * 3, np.array([1, 1, 0]), torch.tensor([1, 1, 0])):
        with pytest.raises(TypeError, match="is no boolean array; compare to get one"):
            where(condition, x, y)


def test_plain_operations_keep_the_format() -> None:
    x = Value(IEEE(), np.arange(6, dtype=np.float32).reshape(2, 3), bf16)
    assert x[1].payload.tolist() == [3, 4, 5]
    assert x[:, None, ::2].shape == (2, 1, 2)
    assert x[np.array([1, 0]), np.array([0, 2])].payload.tolist() == [3, 2]
    assert x.reshape(3, 2).payload.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert x.swapaxes(0, 1).payload.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x[:, :1].broadcast_to(2, 4).payload.tolist() == [[0] * 4, [3] * 4]
    assert [row.shape for row in x] == [(3,), (3,)]
    for made in (x[0], x.reshape(6), x.swapaxes(0, 1), x.broadcast_to(4, 2, 3)):
        assert made.format is bf16
        assert made.arithmetic is x.arithmetic
    assert (x.ndim, x.shape) == (2, (2, 3))
    assert repr(x[0, :1]).startswith("Value(bf16, shape=(1,), array([0.]")


def test_tensors_of_every_kind_enter_as_values() -> None:
    x = torch.tensor([1.5, -0.0])
    for tensor, fmt in [
        (x, f32),
        (x.bfloat16(), bf16),
        (x.half(), f16),
        (x.double(), f64),
        (Bits(np.array([0x3FC0, 0x8000], np.uint16), bf16), bf16),
        (np.array([1.5, -0.0]), f64),
    ]:
        entered = IEEE().value(tensor)
        assert entered.format is fmt
        assert isinstance(entered.payload, np.ndarray)
        assert entered.payload.tolist() == [1.5, 0.0]
        assert np.signbit(entered.payload).tolist() == [False, True]


def test_a_program_gets_values_arrays_and_all_else_as_it_is() -> None:
    seen: dict[str, Any] = {}

    def program(**arguments: Any) -> None:
        seen.update(arguments)

    marker = object()
    ids = Bits(np.array([255, 0], np.uint8).astype(np.uint8), Bits.of(np.zeros(1, np.int8)).format)
    IEEE().run(
        program,
        {"x": torch.ones(2), "ids": torch.tensor([1, 2]), "mask": torch.tensor([True]),
         "own": np.arange(2), "bits": ids, "eps": 1e-6, "n": 3, "name": "a", "none": None,
         "marker": marker},
    )  # fmt: skip
    assert isinstance(seen["x"], Value)
    for name in ("ids", "mask", "own", "bits"):
        assert isinstance(seen[name], np.ndarray)
    assert seen["bits"].tolist() == [-1, 0]
    assert seen["mask"].dtype == bool
    assert (seen["eps"], seen["n"], seen["name"], seen["none"]) == (1e-6, 3, "a", None)
    assert seen["marker"] is marker


@launch
def double(x: Value) -> Value:
    return x + x


@launch
def split(x: Value) -> tuple[Value, Value | None]:
    return x[:1], None


@launch
def sqrt_(x: Value) -> Value:
    return x


def test_launches_make_the_trace() -> None:
    def program(x: Value, y: Value) -> Value:
        wide = double(x)
        head, _ = split(wide)
        double(x=head)
        return head + y

    arithmetic = IEEE()
    arguments = {"x": np.float32([1, 2]), "y": np.float32([5])}
    assert arithmetic.run(program, arguments).payload.tolist() == [7.0]
    found = [(made.name, made.target, made.label) for made in arithmetic.launches]
    assert found == [
        ("double", "wide", "wide"),
        ("split", "head, _", "head, _"),
        ("double", None, "double"),
    ]
    assert [[r.payload.tolist() for r in made.results] for made in arithmetic.launches] == [
        [[2, 4]],
        [[2]],
        [[4]],
    ]
    arithmetic.run(program, arguments)
    assert len(arithmetic.launches) == 3, "run starts a new trace"


def test_a_launch_answers_to_its_names() -> None:
    made = Launch("sqrt_", "inv_", ())
    for name, answer in [("sqrt", True), ("inv", True), ("sqrt_", False), ("other", False)]:
        assert made.answers_to(name) is answer
    assert not Launch("sqrt_", None, ()).answers_to("inv")
    assert Launch("sqrt_", None, ()).label == "sqrt_"


def test_launches_do_not_nest_and_recover_from_errors() -> None:
    @launch
    def outer(x: Value) -> Value:
        return double(x)

    x = f32s(1.0)
    with pytest.raises(RuntimeError, match="launch double is called within another launch"):
        outer(x)
    assert double(x).payload.tolist() == [2.0]
    assert [made.name for made in x.arithmetic.launches] == ["double"]


def test_a_launch_needs_a_value() -> None:
    with pytest.raises(TypeError, match="launch double: no argument is a Value"):
        double(1.0)  # type: ignore[arg-type]
    assert double.__name__ == "double"
