"""cvt between every pair of types."""

import math
from fractions import Fraction

import numpy as np
import pytest

from exactness.bits import decode
from exactness.formats import bf16, e4m3fn, e5m2, f16, f32, f64, tf32
from exactness.rounding import Rounding, round_fraction

FLOATS = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}
MODES = {
    "rn": Rounding.NEAREST_EVEN,
    "rz": Rounding.TOWARD_ZERO,
    "rm": Rounding.DOWN,
    "rp": Rounding.UP,
}


def f32_patterns(seed: int, count: int = 2000) -> np.ndarray:
    """Finite f32 patterns over all magnitudes, ties of 16-bit formats among them."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    f16_ties = ((bits & np.uint32(0x0FFFFFFF)) | np.uint32(0x30000000)) & np.uint32(0xFFFFE000)
    f16_ties |= np.uint32(0x1000)
    every = np.concatenate([bits, ties, f16_ties, np.array([0, 1 << 31, 1], np.uint32)])
    return every[(every & 0x7F800000) != 0x7F800000]


def pattern(value: float, fmt) -> int:
    if fmt is f64:
        return int(np.float64(value).view(np.uint64))
    single = int(np.float32(value).view(np.uint32))
    if fmt is f32:
        return single
    return single >> 16 if fmt is bf16 else int(np.float16(value).view(np.uint16))


def rounded(value: float, fmt, mode: Rounding) -> float:
    exact = Fraction(value)
    return round_fraction(exact, fmt, mode) if exact else value


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("out", "modes"), [("f16", "rn rz rm rp"), ("bf16", "rn rz rm rp")])
def test_f32_to_half(apply, out, modes, mode):
    x = f32_patterns(1)
    fmt = FLOATS[out]
    got = apply(f"cvt.{mode}.{out}.f32 {{d}}, {{0}};", x, out="u2")
    want = [rounded(float(v), fmt, MODES[mode]) for v in x.view(np.float32)]
    assert got.tolist() == [pattern(v, fmt) for v in want]
    assert mode in modes


@pytest.mark.parametrize("mode", MODES)
def test_f64_to_f32_rounds_once(apply, mode):
    rng = np.random.default_rng(2)
    x = (f32_patterns(3).view(np.float32).astype(np.float64)).view(np.uint64)
    x ^= rng.integers(0, 1 << 30, x.size, dtype=np.uint64)
    got = apply(f"cvt.{mode}.f32.f64 {{d}}, {{0}};", x)
    want = [rounded(float(v), f32, MODES[mode]) for v in x.view(np.float64)]
    assert got.tolist() == [pattern(v, f32) for v in want]


@pytest.mark.parametrize("out", ["f16", "bf16"])
def test_f64_to_half_in_one_rounding(apply, out):
    fmt = FLOATS[out]
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, -1e300, 3e-320], np.float64)
    got = apply(f"cvt.rn.{out}.f64 {{d}}, {{0}};", x.view(np.uint64), out="u2")
    want = [rounded(float(v), fmt, Rounding.NEAREST_EVEN) for v in x]
    assert got.tolist() == [pattern(v, fmt) for v in want]


@pytest.mark.parametrize(("into", "out"), [("f16", "f32"), ("bf16", "f32"), ("f16", "f64"),
                                           ("bf16", "f64"), ("f32", "f64")])  # fmt: skip
def test_widening_is_exact(apply, into, out):
    fmt = FLOATS[into]
    count = 1 << 16
    x = np.arange(count).astype(f"u{fmt.bits // 8}") << np.array(fmt.bits - 16, f"u{fmt.bits // 8}")
    got = apply(f"cvt.{out}.{into} {{d}}, {{0}};", x, out=f"u{FLOATS[out].bits // 8}")
    values, wide = decode(x, fmt), decode(got, FLOATS[out])
    nan = np.isnan(values)
    assert (np.isnan(wide) == nan).all()
    assert (values[~nan].astype(np.float64) == wide[~nan]).all()
    canonical = 0x7FFFFFFF if out == "f32" else 0xFFF8000000000000
    # bf16 to f32 is a shift, which keeps what a NaN carries.
    shifted = (out, into) == ("f32", "bf16")
    assert (got[nan] == (x[nan].astype(np.uint32) << 16 if shifted else canonical)).all()


@pytest.mark.parametrize("name", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_float_to_integer_saturates(apply, name, mode):
    special = [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 1e10, -1e10, 3e38, -3e38, math.inf, -math.inf]
    x = np.concatenate([
        np.array(special, np.float32),
        (np.random.default_rng(4).standard_normal(2000) * 10.0 ** np.arange(2000) ** 0.32
         ).astype(np.float32),
    ])  # fmt: skip
    bits = int(name[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
    step = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode]
    register = max(bits, 16)

    def model(v: float) -> int:
        if math.isinf(v):
            return high if v > 0 else low
        return min(max(step(v), low), high)

    got = apply(f"cvt.{mode}.{name}.f32 {{d}}, {{0}};", x.view(np.uint32), out=f"u{register // 8}")
    assert got.tolist() == [model(float(v)) % (1 << register) for v in x]


def test_nan_to_integer(apply):
    nan32, nan64 = np.array([0x7FC00000], np.uint32), np.array([0x7FF8 << 48], np.uint64)
    assert apply("cvt.rzi.s32.f32 {d}, {0};", nan32).tolist() == [0]
    assert apply("cvt.rzi.u16.f32 {d}, {0};", nan32, out="u2").tolist() == [0]
    assert apply("cvt.rzi.s64.f32 {d}, {0};", nan32, out="u8").tolist() == [1 << 63]
    assert apply("cvt.rzi.s32.f64 {d}, {0};", nan64).tolist() == [1 << 31]


@pytest.mark.parametrize("into", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("out", FLOATS)
def test_integer_to_float_rounds_once(apply, into, out):
    rng = np.random.default_rng(5)
    bits = int(into[1:])
    register = max(bits, 16)
    raw = rng.integers(0, 1 << 63, 3000, dtype=np.uint64) << np.uint64(1)
    raw |= rng.integers(0, 2, 3000, dtype=np.uint64)
    raw >>= rng.integers(0, 64, 3000).astype(np.uint64)
    raw[:4] = [(1 << 24) + 1, (1 << 25) + (1 << 1) + 1, 16842753, (1 << 64) - 1]
    x = raw.astype(f"u{register // 8}")

    def number(v: int) -> int:
        v %= 1 << bits
        return v - (1 << bits) if into[0] == "s" and v >> bits - 1 else v

    fmt = FLOATS[out]
    modes = ["rn"] if out == "f64" else list(MODES)
    for mode in modes:
        got = apply(f"cvt.{mode}.{out}.{into} {{d}}, {{0}};", x, out=f"u{fmt.bits // 8}")
        want = [round_fraction(Fraction(number(int(v))), fmt, MODES[mode]) for v in x]
        assert got.tolist() == [pattern(v, fmt) for v in want], mode


@pytest.mark.parametrize("out", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("into", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_to_integer(apply, out, into):
    rng = np.random.default_rng(6)
    narrow, wide = int(out[1:]), int(into[1:])
    register, target = max(wide, 16), max(narrow, 16)
    x = rng.integers(0, 1 << 63, 500, dtype=np.uint64).astype(f"u{register // 8}")
    x[:3] = [(1 << wide) - 1, 1 << wide - 1, 1]

    def number(v: int, kind: str, bits: int) -> int:
        v %= 1 << bits
        return v - (1 << bits) if kind == "s" and v >> bits - 1 else v

    low = -(1 << narrow - 1) if out[0] == "s" else 0
    high = (1 << narrow - 1) - 1 if out[0] == "s" else (1 << narrow) - 1
    got = apply(f"cvt.{out}.{into} {{d}}, {{0}};", x, out=f"u{target // 8}")
    values = [number(int(v), into[0], wide) for v in x]
    assert got.tolist() == [number(v, out[0], narrow) % (1 << target) for v in values]
    got = apply(f"cvt.sat.{out}.{into} {{d}}, {{0}};", x, out=f"u{target // 8}")
    assert got.tolist() == [min(max(v, low), high) % (1 << target) for v in values]


def test_integral_rounding_keeps_the_sign_of_zero(apply):
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 8388609.0, -0.25], np.float32).view(np.uint32)
    for mode, want in {
        "rni": [0.0, -0.0, 2.0, 2.0, -2.0, 8388609.0, -0.0],
        "rzi": [0.0, -0.0, 1.0, 2.0, -2.0, 8388609.0, -0.0],
        "rmi": [0.0, -1.0, 1.0, 2.0, -3.0, 8388609.0, -1.0],
        "rpi": [1.0, -0.0, 2.0, 3.0, -2.0, 8388609.0, -0.0],
    }.items():
        got = apply(f"cvt.{mode}.f32.f32 {{d}}, {{0}};", x)
        assert (got == np.array(want, np.float32).view(np.uint32)).all(), mode


def test_specials_and_clamps(apply):
    x = np.array([0x7FC00001, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x80000000], np.uint32)
    bf = apply("cvt.rn.bf16.f32 {d}, {0};", x, out="u2")
    assert [hex(v) for v in bf] == ["0x7fff", "0x7f80", "0xff80", "0x7f80", "0x8000"]
    half = apply("cvt.rn.f16.f32 {d}, {0};", x, out="u2")
    assert [hex(v) for v in half] == ["0x7fff", "0x7c00", "0xfc00", "0x7c00", "0x8000"]
    toward_zero = apply("cvt.rz.f16.f32 {d}, {0};", x, out="u2")
    assert [hex(v) for v in toward_zero] == ["0x7fff", "0x7c00", "0xfc00", "0x7bff", "0x8000"]
    finite = apply("cvt.rn.satfinite.bf16.f32 {d}, {0};", x, out="u2")
    assert [hex(v) for v in finite] == ["0x7fff", "0x7f7f", "0xff7f", "0x7f7f", "0x8000"]
    sat = apply("cvt.sat.f32.f32 {d}, {0};", x)
    assert [hex(v) for v in sat] == ["0x0", "0x3f800000", "0x0", "0x3f800000", "0x0"]
    relu = apply("cvt.rn.relu.f16.f32 {d}, {0};", x, out="u2")
    assert [hex(v) for v in relu] == ["0x7fff", "0x7c00", "0x0", "0x7c00", "0x0"]


def test_pairs_put_the_first_source_high(apply):
    x, y = np.array([0x3F800000], np.uint32), np.array([0x40000000], np.uint32)
    assert apply("cvt.rn.bf16x2.f32 {d}, {0}, {1};", x, y).tolist() == [0x3F804000]
    assert apply("cvt.rn.f16x2.f32 {d}, {0}, {1};", x, y).tolist() == [0x3C004000]


@pytest.mark.parametrize(("name", "fmt"), [("e4m3x2", e4m3fn), ("e5m2x2", e5m2)])
def test_fp8_saturates_and_returns(apply, name, fmt):
    x = f32_patterns(7)
    x = np.concatenate([x, (x & 0x83FFFFFF) | 0x3C000000, (x & 0x87FFFFFF) | 0x40000000])
    zero = np.zeros_like(x)
    got = apply(f"cvt.rn.satfinite.{name}.f32 {{d}}, {{0}}, {{1}};", x, zero, out="u2")

    def model(v: float) -> float:
        return max(-fmt.largest, min(fmt.largest, rounded(
            max(-fmt.largest, min(fmt.largest, v)), fmt, Rounding.NEAREST_EVEN)))  # fmt: skip

    want = [model(float(v)) for v in x.view(np.float32)]
    assert decode((got >> 8).astype(np.uint8), fmt).tolist() == want
    assert (got & 0xFF == 0).all()
    nan = np.array([0x7FC00000, 0x7F800000], np.uint32)
    special = apply(f"cvt.rn.satfinite.{name}.f32 {{d}}, {{0}}, {{0}};", nan, out="u2")
    top = 0x7E if fmt is e4m3fn else 0x7B
    assert special.tolist() == [0x7F7F, top << 8 | top]
    codes = np.arange(256, dtype=np.uint16) * np.uint16(257)
    back = apply(f"cvt.rn.f16x2.{name} {{d}}, {{0}};", codes)
    values = decode(np.arange(256, dtype=np.uint8), fmt)
    assert np.array_equal(decode((back >> 16).astype(np.uint16), f16), values, equal_nan=True)
    assert np.array_equal(decode((back & 0xFFFF).astype(np.uint16), f16), values, equal_nan=True)


def test_tf32_rounds_half_away(apply):
    x = f32_patterns(8)
    got = apply("cvt.rna.tf32.f32 {d}, {0};", x)
    want = [rounded(float(v), tf32, Rounding.NEAREST_AWAY) for v in x.view(np.float32)]
    assert got.tolist() == [pattern(v, f32) for v in want]
    assert (got & 0x1FFF == 0).all()
    special = np.array([0x3F801000, 0x7F7FFFFF, 0x7FC00001, 0xFF800000], np.uint32)
    plain = apply("cvt.rna.tf32.f32 {d}, {0};", special)
    assert [hex(v) for v in plain] == ["0x3f802000", "0x7f800000", "0x7fc00000", "0xff800000"]
    finite = apply("cvt.rna.satfinite.tf32.f32 {d}, {0};", special)
    assert [hex(v) for v in finite] == ["0x3f802000", "0x7f7fe000", "0x7fbfe000", "0xff7fe000"]


def test_moves_pack_and_unpack(apply):
    low, high = np.array([0x1234], np.uint16), np.array([0xABCD], np.uint16)
    assert apply("mov.b32 {d}, {{0}, {1}};", low, high).tolist() == [0xABCD1234]
    word = np.array([0xABCD1234], np.uint32)
    assert apply(".reg .b16 %x; mov.b32 {{d}, %x}, {0};", word, out="u2").tolist() == [0x1234]
    assert apply(".reg .b16 %x; mov.b32 {%x, {d}}, {0};", word, out="u2").tolist() == [0xABCD]
    pair = apply("mov.b64 {d}, {{0}, {0}};", word, out="u8")
    assert pair.tolist() == [0xABCD1234ABCD1234]


def test_selection(apply):
    x, y = np.array([1, 2], np.uint32), np.array([3, 4], np.uint32)
    p = np.array([True, False])
    assert apply("selp.b32 {d}, {0}, {1}, {2};", x, y, p).tolist() == [1, 4]
    assert apply("slct.b32.s32 {d}, {0}, 9, {1};", x, x - np.uint32(2)).tolist() == [9, 2]
    assert apply("selp.f32 {d}, 1.5, 0f40000000, {0};", p).tolist() == [0x3FC00000, 0x40000000]
    assert apply("set.lt.u32.f32 {d}, {0}, 1.0;", x).tolist() == [0xFFFFFFFF, 0xFFFFFFFF]
