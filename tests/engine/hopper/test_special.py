"""The array code against the recorded tables and a scalar model written from the same rules."""

import lzma
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exactness.hopper import special, tables

FUNCTIONS = {
    "ex2": special.ex2_approx,
    "rsqrt": special.rsqrt_approx,
    "sqrt": special.sqrt_approx,
    "rcp": special.rcp_approx,
}
CASES = [(name, ftz) for name in FUNCTIONS for ftz in (True, False)]
IDS = [f"function={name}-ftz={ftz}" for name, ftz in CASES]
TINY = 2.0**-126
inf, nan = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


def assert_same_bits(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype == np.float32
    assert actual.shape == expected.shape
    different = actual.view(np.int32) != expected.view(np.int32)
    different &= ~(np.isnan(actual) & np.isnan(expected))
    first = [
        (hex(a), hex(e))
        for a, e in zip(
            actual.view(np.uint32)[different][:4],
            expected.view(np.uint32)[different][:4],
            strict=True,
        )
    ]
    assert not different.any(), f"{different.sum()} differ, first (actual, expected): {first}"


def entry(table, index):
    return float(tables.patterns(table)[index].view(np.float32))


def scalar_ex2_ftz(x):
    if x >= 128 or x < -126:
        return inf if x >= 128 else 0.0
    units = math.trunc(x * 2.0**23)
    whole, fraction = abs(units) >> 23, abs(units) & 0x7FFFFF
    if units >= 0:
        return math.ldexp(entry(tables.EX2, fraction), whole - 1)
    if fraction == 0:
        return math.ldexp(1.0, -whole)
    return math.ldexp(entry(tables.EX2, 0x7FFFFF - fraction), -whole - 2)


def scalar_ex2(x, ftz):
    if ftz or x >= -126:
        return scalar_ex2_ftz(x)
    return scalar_ex2_ftz(float(np.float32(x / 2))) ** 2


def scalar_root(table, direction):
    def function(x, ftz):
        if x == 0 or (ftz and abs(x) < TINY):
            zero = math.copysign(0.0, x)
            return zero if direction > 0 else math.copysign(inf, x)
        if x < 0 or x == inf:
            return nan if x < 0 else (inf if direction > 0 else 0.0)
        _, exponent = math.frexp(x)
        half = (exponent - 1) // 2
        reduced = np.float32(math.ldexp(x, -2 * half))
        value = entry(table, int(reduced.view(np.int32)) - 0x3F800000)
        return math.ldexp(value, direction * half)

    return function


def scalar_rcp(x, ftz):
    if x == 0 or (ftz and abs(x) < TINY):
        return math.copysign(inf, x)
    if abs(x) == inf:
        return math.copysign(0.0, x)
    significand, exponent = math.frexp(abs(x))
    index = int((significand * 2 - 1) * 2**23)
    value = math.ldexp(entry(tables.RCP, index), 1 - exponent)
    return math.copysign(0.0 if ftz and value < TINY else value, x)


SCALAR = {
    "ex2": scalar_ex2,
    "rsqrt": scalar_root(tables.RSQ, -1),
    "sqrt": scalar_root(tables.SQRT, 1),
    "rcp": scalar_rcp,
}


def model(name, x, ftz):
    with np.errstate(over="ignore"):
        values = [nan if v != v else SCALAR[name](v, ftz) for v in x.tolist()]
        return np.array(values, np.float64).astype(np.float32)


def edge_patterns():
    """Every exponent, with significands at its ends and middle, both signs."""
    exponents = np.arange(256, dtype=np.uint32)[:, None] << 23
    fractions = np.array([0, 1, 2, 3, 0x2AAAAA, 0x400000, 0x7FFFFE, 0x7FFFFF], np.uint32)
    positive = (exponents | fractions).ravel()
    return np.concatenate([positive, positive | np.uint32(1 << 31)])


@pytest.mark.parametrize(("name", "ftz"), CASES, ids=IDS)
def test_edges_of_every_binade(name, ftz):
    x = edge_patterns().view(np.float32)
    assert_same_bits(FUNCTIONS[name](x, ftz=ftz), model(name, x, ftz))


@pytest.mark.parametrize(("name", "ftz"), CASES, ids=IDS)
@settings(deadline=None, max_examples=50)
@given(patterns=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64))
def test_any_bit_pattern(name, ftz, patterns):
    x = np.array(patterns, np.uint32).view(np.float32)
    assert_same_bits(FUNCTIONS[name](x, ftz=ftz), model(name, x, ftz))


@pytest.mark.parametrize("ftz", [True, False], ids=lambda ftz: f"ftz={ftz}")
@settings(deadline=None, max_examples=100)
@given(x=st.lists(st.floats(-151, 129, width=32), min_size=1, max_size=64))
@example(x=[-126.0, float(np.nextafter(f32(-126.0), f32(-127.0))[0])])
@example(x=[128.0, float(np.nextafter(f32(128.0), f32(0.0))[0])])
@example(x=[-1.0, -(1 + 2.0**-23), -(1 - 2.0**-24), -(2.0**-23), -(2.0**-24), -(2.0**-22)])
def test_ex2_where_results_are_finite(ftz, x):
    x = f32(*x)
    assert_same_bits(special.ex2_approx(x, ftz=ftz), model("ex2", x, ftz))


def test_ex2_of_negative_arguments_equals_the_recording():
    path = Path(__file__).parent / "data" / "ex2_neg.i8.xz"
    distance = np.frombuffer(lzma.decompress(path.read_bytes()), np.int8)
    x = -np.arange(0x3F800000, 0x40000000, dtype=np.int32).view(np.float32)
    rounded = np.exp2(x.astype(np.float64)).astype(np.float32).view(np.int32)
    assert_same_bits(special.ex2_approx(x, ftz=True), (rounded + distance).view(np.float32))


SPECIAL_VALUES = [
    # PTX ISA 9.0: function, ftz, operands, results.
    ("ex2", True, [0.0, -0.0, 1e-40, inf, -inf], [1.0, 1.0, 1.0, inf, 0.0]),
    ("ex2", False, [0.0, -0.0, -1e-40, inf, -inf], [1.0, 1.0, 1.0, inf, 0.0]),
    ("ex2", True, [127.0, 128.0, -126.0, -127.0, -149.0], [2.0**127, inf, TINY, 0.0, 0.0]),
    ("ex2", False, [-128.0, -148.0, -150.0, -400.0], [2.0**-128, 2.0**-148, 0.0, 0.0]),
    ("rsqrt", True, [0.0, -0.0, 1e-40, -1e-40, inf, -1.0], [inf, -inf, inf, -inf, 0.0, nan]),
    ("rsqrt", False, [0.0, -0.0, 2.0**-148, -1e-40, inf], [inf, -inf, 2.0**74, nan, 0.0]),
    ("sqrt", True, [0.0, -0.0, 1e-40, -1e-40, inf, -1.0], [0.0, -0.0, 0.0, -0.0, inf, nan]),
    ("sqrt", False, [0.0, -0.0, 2.0**-148, -1e-40, inf], [0.0, -0.0, 2.0**-74, nan, inf]),
    ("rcp", True, [0.0, -0.0, 1e-40, -1e-40, inf, -inf], [inf, -inf, inf, -inf, 0.0, -0.0]),
    ("rcp", False, [0.0, -0.0, 2.0**-127, 2.0**-128, -inf], [inf, -inf, 2.0**127, inf, -0.0]),
    ("rcp", True, [2.0**126, 2.0**127, -(2.0**127)], [TINY, 0.0, -0.0]),
    ("rcp", False, [2.0**126, 2.0**127, -(2.0**127)], [TINY, 2.0**-127, -(2.0**-127)]),
]


@pytest.mark.parametrize(("name", "ftz", "x", "expected"), SPECIAL_VALUES)
def test_special_values(name, ftz, x, expected):
    assert_same_bits(FUNCTIONS[name](f32(*x), ftz=ftz), f32(*expected))


@pytest.mark.parametrize(("name", "ftz"), CASES, ids=IDS)
def test_nan_gives_the_canonical_nan(name, ftz):
    x = np.array([0x7F800001, 0x7FC00000, 0xFFC12345, 0x7FFFFFFF], np.uint32).view(np.float32)
    assert FUNCTIONS[name](x, ftz=ftz).view(np.uint32).tolist() == [0x7FFFFFFF] * 4


@pytest.mark.parametrize(("name", "ftz"), CASES, ids=IDS)
def test_tensors_give_the_same_bits(name, ftz):
    torch = pytest.importorskip("torch")
    x = edge_patterns().view(np.float32)
    tensor = torch.from_numpy(x.copy())
    actual = FUNCTIONS[name](tensor, ftz=ftz)
    assert actual.dtype == torch.float32
    assert_same_bits(actual.numpy(), FUNCTIONS[name](x, ftz=ftz))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4)], ids=lambda s: f"shape={s}")
@pytest.mark.parametrize(("name", "ftz"), CASES, ids=IDS)
def test_shapes_are_kept_and_inputs_are_not_written(name, ftz, shape):
    x = np.full(shape, 1.5, np.float32)
    x.flags.writeable = False
    result = FUNCTIONS[name](x, ftz=ftz)
    assert np.shape(result) == shape
    assert_same_bits(result, model(name, x.ravel(), ftz).reshape(shape))


@pytest.mark.parametrize(("name", "ftz"), CASES, ids=IDS)
def test_strided_input(name, ftz):
    x = np.linspace(0.1, 9.0, 60, dtype=np.float32).reshape(6, 10)
    assert_same_bits(FUNCTIONS[name](x.T[::2], ftz=ftz), FUNCTIONS[name](x, ftz=ftz).T[::2])


@pytest.mark.parametrize(("name", "ftz"), CASES, ids=IDS)
def test_floating_point_traps_do_not_fire(name, ftz):
    with np.errstate(all="raise"):
        FUNCTIONS[name](edge_patterns().view(np.float32), ftz=ftz)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_other_dtypes_are_refused(name, dtype):
    with pytest.raises(TypeError, match=f"x: dtype {dtype}; float32 is accepted"):
        FUNCTIONS[name](np.ones(3, dtype), ftz=True)
