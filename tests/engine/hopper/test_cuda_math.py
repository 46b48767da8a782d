"""Replays of the exhaustive bf16 recordings, and the f32 functions beyond bf16 inputs."""

import functools
import math
from pathlib import Path

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.formats import bf16, f32
from exactness.hopper.cuda_math import erff, expf, tanhf
from exactness.hopper.special import ex2_approx, rsqrt_approx
from exactness.rounding import Rounding, fma, round_to

GOLDEN = Path(__file__).parents[2] / "golden"
ALL_BF16 = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
SQRT_HALF = np.float32(math.sqrt(0.5))
HALF, ONE = np.float32(0.5), np.float32(1)
FUNCTIONS = {"expf": expf, "tanhf": tanhf, "erff": erff}


def to_bf16(x):
    return round_to(x, bf16)


def sigmoid(x):
    return ONE / (ONE + expf(-x))


def silu(x):
    return x / (ONE + expf(-x))


def gelu(x):
    return (x * HALF) * (ONE + erff(x * SQRT_HALF))


def candle_sigmoid(x):
    return to_bf16(ONE / to_bf16(ONE + to_bf16(expf(-x))))


def candle_silu(x):
    return to_bf16(x / to_bf16(ONE + to_bf16(expf(-x))))


COMMON = {
    "exp": expf,
    "sigmoid": sigmoid,
    "silu": silu,
    "gelu": gelu,
    "tanh": tanhf,
    "rsqrt": functools.partial(rsqrt_approx, ftz=False),
    "sqrt": np.sqrt,
    "reciprocal": lambda x: ONE / x,
    "recip": lambda x: ONE / x,
    "neg": np.negative,
    "sqr": np.square,
}
# candle's bf16 kernels round after every operation, torch's once at the end.
CANDLE_BF16 = {"sigmoid": candle_sigmoid, "silu": candle_silu}

RECORDINGS = [
    *(f"torch_unary_bf16/{n}" for n in ("exp", "gelu", "reciprocal", "rsqrt", "sigmoid", "silu")),
    *(f"torch_unary_bf16/{n}" for n in ("sqrt", "tanh")),
    *(f"torch_unary_f32_of_bf16/{n}" for n in ("exp", "reciprocal", "rsqrt", "sigmoid", "silu")),
    "torch_unary_f32_of_bf16/sqrt",
    *(f"unary_bf16/{n}" for n in ("exp", "neg", "recip", "sigmoid", "silu", "sqr", "sqrt")),
    *(f"unary_f32_of_bf16/{n}" for n in ("exp", "recip", "sigmoid", "silu", "sqrt")),
]


@functools.cache
def recordings(file):
    """Unary recordings of a file as f32."""
    result = {}
    for name, tensor in safetensors.deserialize((GOLDEN / file).read_bytes()):
        if "unary" in name and tensor["dtype"] == "BF16":
            wide = np.frombuffer(tensor["data"], np.uint16).astype(np.uint32) << 16
            result[name] = wide.view(np.float32)
        elif "unary" in name:
            result[name] = np.frombuffer(tensor["data"], np.float32)
    return result


def assert_same_bits(actual, expected):
    assert actual.dtype == expected.dtype == np.float32
    different = actual.view(np.int32) != expected.view(np.int32)
    different &= ~(np.isnan(actual) & np.isnan(expected))
    assert not different.any(), f"{different.sum()} differ: {actual[different][:4]}"


@pytest.mark.parametrize("name", RECORDINGS)
def test_recording_is_replayed(name):
    group, function = name.split("/")
    expected = recordings("welm.safetensors" if "torch" in group else "candle.safetensors")[name]
    table = COMMON | (CANDLE_BF16 if group == "unary_bf16" else {})
    with np.errstate(all="ignore"):
        actual = table[function](ALL_BF16)
    assert_same_bits(to_bf16(actual) if "f32" not in group else actual, expected)


def test_every_unary_recording_has_its_replay():
    names = {n for file in ("welm", "candle") for n in recordings(f"{file}.safetensors")}
    assert names == set(RECORDINGS)


def nvcc_expf(x):
    """The listing of nvcc, one instruction a line."""
    constants = [0x3BBB989D, 0x3F000000, 0x437C0000, 0x4B400001, 0xCB40007F, 0x3FB8AA3B, 0x32A57060]
    f3, f2, f7, f6, minus, f11, f13 = np.array(constants, np.uint32).view(np.float32)
    f4 = fma(x, f3, f2)
    f5 = np.where(np.isnan(f4), np.float32(0), np.clip(f4, 0, 1))
    f8 = fma(f5, f7, f6, f32, Rounding.DOWN)
    f10 = -(f8 + minus)
    f14 = fma(x, f13, fma(x, f11, f10))
    f15 = (f8.view(np.uint32) << np.uint32(23)).view(np.float32)
    with np.errstate(all="ignore"):
        return ex2_approx(f14, ftz=True) * f15


@settings(deadline=None, max_examples=200)
@given(x=st.lists(st.floats(-110, 100, width=32) | st.floats(width=32), min_size=1, max_size=64))
def test_expf_equals_the_listing_with_an_fma_rounded_down(x):
    x = np.array(x, np.float32)
    assert_same_bits(expf(x), nvcc_expf(x))


def reference(name, x):
    functions = {"expf": math.exp, "tanhf": math.tanh, "erff": math.erf}
    return np.array([functions[name](v) for v in x.tolist()])


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("expf", -87.0, 88.0), ("tanhf", -10.0, 10.0), ("erff", -5.0, 5.0)],
)
def test_within_2_ulp_of_the_correctly_rounded_result(name, low, high):
    x = np.random.default_rng(5).uniform(low, high, 40_000).astype(np.float32)
    rounded = reference(name, x).astype(np.float32)
    distance = FUNCTIONS[name](x).view(np.int32) - rounded.view(np.int32)
    assert np.abs(distance).max() <= 2


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("expf", [0.0, -0.0, 89.0, -104.0, math.inf, -math.inf], [1, 1, math.inf, 0, math.inf, 0]),
        ("tanhf", [0.0, -0.0, 20.0, -20.0, math.inf, -math.inf], [0.0, -0.0, 1, -1, 1, -1]),
        ("erff", [0.0, -0.0, 9.0, -9.0, math.inf, -math.inf], [0.0, -0.0, 1, -1, 1, -1]),
    ],
)
def test_special_values(name, values, expected):
    with np.errstate(all="raise"):
        actual = FUNCTIONS[name](np.array([*values, math.nan], np.float32))
    assert_same_bits(actual, np.array([*expected, math.nan], np.float32))


def test_expf_keeps_subnormal_results():
    assert 0 < float(expf(np.float32(-90.0))) < 2.0**-126


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_give_the_same_bits(name):
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(3).integers(0, 2**32, 4096, np.uint32)
    x = np.concatenate([bits.view(np.float32), np.linspace(-12, 12, 4096, dtype=np.float32)])
    actual = FUNCTIONS[name](torch.from_numpy(x.copy()))
    assert_same_bits(actual.numpy(), FUNCTIONS[name](x))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(), (0, 2), (3, 1)], ids=lambda s: f"shape={s}")
def test_shapes_are_kept(name, shape):
    assert np.shape(FUNCTIONS[name](np.full(shape, 0.7, np.float32))) == shape


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_dtypes_are_refused(name):
    with pytest.raises(TypeError, match="x: dtype float64; float32 is accepted"):
        FUNCTIONS[name](np.ones(2))
