"""Float arithmetic against rational arithmetic, and the hardware's rules for specials."""

import math
from fractions import Fraction

import numpy as np
import pytest

from exactness.bits import decode
from exactness.formats import bf16, f16, f32, f64
from exactness.hopper import division, special
from exactness.rounding import Rounding, fma_fraction, round_fraction

MODES = {
    "rn": Rounding.NEAREST_EVEN,
    "rz": Rounding.TOWARD_ZERO,
    "rm": Rounding.DOWN,
    "rp": Rounding.UP,
}
F32_SPECIALS = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000,
    0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x4B800000, 0x33800000,
]  # fmt: skip
NAN, INF = 0x7FFFFFFF, 0x7F800000


def finite(seed: int, count: int = 300) -> np.ndarray:
    """Finite f32 patterns: random bits, and numbers near each other that cancel and tie."""
    rng = np.random.default_rng(seed)
    random = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    near_one = (0x3F800000 + rng.integers(-64, 64, count)).astype(np.uint32)
    tiny = rng.integers(0, 1 << 26, count, dtype=np.uint32) | (
        rng.integers(0, 2, count, dtype=np.uint32) << 31
    )
    few_bits = random & np.uint32(0xFFFC0000)
    every = np.concatenate([random, near_one, tiny, few_bits, np.array(F32_SPECIALS, np.uint32)])
    every = every[(every & 0x7F800000) != 0x7F800000]
    return rng.permutation(every)


def values(patterns: np.ndarray, fmt=f32) -> list[float]:
    return [float(v) for v in decode(patterns, fmt)]


def to_pattern(value: float, fmt=f32) -> int:
    if fmt is f64:
        return int(np.float64(value).view(np.uint64))
    single = int(np.float32(value).view(np.uint32))
    if fmt is f32:
        return single
    return single >> 16 if fmt is bf16 else int(np.float16(value).view(np.uint16))


def exact_sum(a: float, b: float, fmt, mode: Rounding) -> float:
    return fma_fraction(a, 1.0, b, fmt, mode)


def exact_product(a: float, b: float, fmt, mode: Rounding) -> float:
    exact = Fraction(a) * Fraction(b)
    return round_fraction(exact, fmt, mode) if exact else math.copysign(1, a) * 0.0 * b


@pytest.mark.parametrize("mode", MODES)
def test_f32_add_sub_mul_fma_in_every_mode(apply, mode):
    x, y, z = finite(1), finite(2), finite(3)
    size = min(x.size, y.size, z.size)
    x, y, z = x[:size], y[:size], z[:size]
    a, b, c = values(x), values(y), values(z)
    rounding = MODES[mode]
    for name, model in {
        "add": exact_sum,
        "sub": lambda p, q, fmt, mode: exact_sum(p, -q, fmt, mode),
        "mul": exact_product,
    }.items():
        got = apply(f"{name}.{mode}.f32 {{d}}, {{0}}, {{1}};", x, y)
        want = [to_pattern(model(p, q, f32, rounding)) for p, q in zip(a, b, strict=True)]
        assert got.tolist() == want, name
    got = apply(f"fma.{mode}.f32 {{d}}, {{0}}, {{1}}, {{2}};", x, y, z)
    assert got.tolist() == [
        to_pattern(fma_fraction(p, q, r, f32, rounding)) for p, q, r in zip(a, b, c, strict=True)
    ]


def test_fma_ties_and_cancellation(apply):
    """Products that tie with the addend's last place, where f64 alone rounds twice."""
    rng = np.random.default_rng(4)
    x = np.float32(1) + np.float32(2.0**-12) * rng.integers(0, 4096, 4000).astype(np.float32)
    y = np.float32(2.0**-24) * rng.integers(1, 64, 4000).astype(np.float32)
    z = x * np.float32(2) ** rng.integers(-3, 30, 4000).astype(np.float32)
    bits = [v.astype(np.float32).view(np.uint32) for v in (x, y, z)]
    got = apply("fma.rn.f32 {d}, {0}, {1}, {2};", *bits)
    want = [to_pattern(fma_fraction(*map(float, t), f32)) for t in zip(x, y, z, strict=True)]
    assert got.tolist() == want


@pytest.mark.parametrize("mode", MODES)
def test_f32_division_and_roots_in_every_mode(apply, mode):
    x, y = finite(5), finite(6)
    size = min(x.size, y.size)
    x, y = x[:size], np.where(y[:size] << 1 == 0, np.uint32(1), y[:size])
    a, b = values(x), values(y)
    got = apply(f"div.{mode}.f32 {{d}}, {{0}}, {{1}};", x, y)
    want = [
        round_fraction(Fraction(p) / Fraction(q), f32, MODES[mode]) if p else p / q
        for p, q in zip(a, b, strict=True)
    ]
    assert got.tolist() == [to_pattern(v) for v in want]
    got = apply(f"rcp.{mode}.f32 {{d}}, {{0}};", y)
    want = [round_fraction(1 / Fraction(q), f32, MODES[mode]) for q in b]
    assert got.tolist() == [to_pattern(v) for v in want]
    got = apply(f"sqrt.{mode}.f32 {{d}}, {{0}};", x & 0x7FFFFFFF)
    assert got.tolist() == [to_pattern(root(abs(p), MODES[mode])) for p in a]


def root(value: float, mode: Rounding) -> float:
    """sqrt rounded once, by integer square roots of scaled fractions."""
    if value == 0:
        return 0.0
    scaled = Fraction(value) * 4**200
    low = Fraction(math.isqrt(scaled.numerator // scaled.denominator), 2**200)
    exact = low * low == Fraction(value)
    return round_fraction(low if exact else low + Fraction(1, 2**201), f32, mode)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("fmt", [f16, bf16, f64], ids=lambda f: f.name)
def test_other_formats_round_once(apply, name, fmt):
    rng = np.random.default_rng(7)
    dtype = f"u{fmt.bits // 8}"
    arrays = []
    for _ in range(3):
        bits = rng.integers(0, 1 << 16, 3000).astype(dtype) << np.array(fmt.bits - 16, dtype)
        if fmt is f64:
            bits ^= rng.integers(0, 1 << 16, 3000).astype(dtype)
        arrays.append(bits)
    numbers = [values(bits, fmt) for bits in arrays]
    good = np.array([all(map(math.isfinite, t)) for t in zip(*numbers, strict=True)])
    arrays = [bits[good] for bits in arrays]
    numbers = [values(bits, fmt) for bits in arrays]
    count = 3 if name == "fma" else 2
    operands = ", ".join(f"{{{i}}}" for i in range(count))
    got = apply(f"{name}.rn.{fmt.name} {{d}}, {operands};", *arrays[:count], out=dtype)

    def model(a: float, b: float, c: float) -> float:
        match name:
            case "add":
                return exact_sum(a, b, fmt, Rounding.NEAREST_EVEN)
            case "sub":
                return exact_sum(a, -b, fmt, Rounding.NEAREST_EVEN)
            case "mul":
                return exact_product(a, b, fmt, Rounding.NEAREST_EVEN)
        return fma_fraction(a, b, c, fmt)

    assert got.tolist() == [to_pattern(model(*t), fmt) for t in zip(*numbers, strict=True)]


@pytest.mark.parametrize(
    ("text", "x", "y", "want"),
    [
        ("add.f32", INF, 0xFF800000, NAN),
        ("add.f32", 0xFFC00001, 0x3F800000, NAN),
        ("mul.f32", INF, 0, NAN),
        ("min.f32", 0x7FC00000, 0x3F800000, 0x3F800000),
        ("max.f32", 0x3F800000, 0x7FC00000, 0x3F800000),
        ("min.f32", 0xFFC00000, 0x7F800001, NAN),
        ("min.NaN.f32", 0x7FC00000, 0x3F800000, NAN),
        ("min.f32", 0, 0x80000000, 0x80000000),
        ("max.f32", 0x80000000, 0, 0),
        ("min.xorsign.abs.f32", 0xC0000000, 0x3F800000, 0xBF800000),
        ("max.xorsign.abs.f32", 0xC0000000, 0xBF800000, 0x40000000),
        ("add.sat.f32", 0x40000000, 0x40000000, 0x3F800000),
        ("add.sat.f32", 0xC0000000, 0, 0),
        ("add.sat.f32", NAN, 0, 0),
        ("add.ftz.f32", 0x80000001, 0x80000001, 0x80000000),
        ("mul.ftz.f32", 0x00800000, 0x3F000000, 0),
        ("mul.ftz.f32", 0x80800000, 0x3F000000, 0x80000000),
        # Below the normal range by 2^-24 and by 2^-25 relative: flushed, and not.
        ("mul.rn.ftz.f32", 0x00800000, 0x3F7FFFFF, 0),
        ("copysign.f32", 0x80000000, 0x3F800000, 0xBF800000),
    ],
)
def test_special_cases(apply, text, x, y, want):
    got = apply(f"{text} {{d}}, {{0}}, {{1}};", np.array([x], np.uint32), np.array([y], np.uint32))
    assert hex(got[0]) == hex(want)


def test_flush_of_a_product_that_rounds_up_to_normal(apply):
    # (1 - 2^-24)(1 + 2^-23) · 2^-126 is less than 2^-126 by 2^-24 relative minus more: both are
    # tiny before rounding; only the second is the smallest normal number with 24 bits.
    x = np.array([0x00FFFFFF, 0x00FFFFFF], np.uint32)
    y = np.array([0x3F000000, 0x3F000001], np.uint32)
    exact = [Fraction(a) * Fraction(b) for a, b in zip(values(x), values(y), strict=True)]
    limit = Fraction(2) ** -126 * (1 - Fraction(1, 2**25))
    got = apply("mul.rn.ftz.f32 {d}, {0}, {1};", x, y)
    assert got.tolist() == [0x00800000 if e >= limit else 0 for e in exact]
    got = apply("fma.rn.ftz.f32 {d}, {0}, {1}, 0f00000000;", x, y)
    assert got.tolist() == [0x00800000 if e >= limit else 0 for e in exact]


def test_abs_and_neg_touch_only_the_sign(apply):
    nan = np.array([0xFFC00001], np.uint32)
    assert apply("neg.f32 {d}, {0};", nan).tolist() == [NAN]
    x = np.array([0x80000001, 0x3F800000, 0xFF800000], np.uint32)
    assert (apply("abs.f32 {d}, {0};", x) == x & 0x7FFFFFFF).all()
    assert (apply("neg.f32 {d}, {0};", x) == x ^ 0x80000000).all()
    assert apply("abs.ftz.f32 {d}, {0};", x).tolist() == [0, 0x3F800000, 0x7F800000]
    half = np.array([0x8001, 0xBC00], np.uint16)
    assert (apply("neg.f16 {d}, {0};", half, out="u2") == half ^ 0x8000).all()


def test_packed_halves_are_independent(apply):
    # 1.0 | 2.0 plus 3.0 | NaN in f16.
    x, y = np.array([0x40003C00], np.uint32), np.array([0x7E004200], np.uint32)
    assert apply("add.f16x2 {d}, {0}, {1};", x, y).tolist() == [0x7FFF4400]
    # bf16: 1.0 | 2.0, fma by itself plus itself = 2.0 | 6.0
    z = np.array([0x40003F80], np.uint32)
    assert apply("fma.rn.bf16x2 {d}, {0}, {0}, {0};", z).tolist() == [0x40C04000]
    assert apply("fma.rn.relu.bf16x2 {d}, {0}, {1}, {1};", z, z ^ 0x80008000).tolist() == [0]


def test_bf16_sum_is_the_rounded_f32_sum(apply):
    x = np.array([0x3F80, 0x3F80, 0x3F81], np.uint16)
    y = np.array([0x3B80, 0x3B81, 0x3B80], np.uint16)
    # 1 + 2^-8 ties to even (1), just above goes up, 1 + 2^-7 + 2^-8 ties up.
    assert apply("add.rn.bf16 {d}, {0}, {1};", x, y, out="u2").tolist() == [0x3F80, 0x3F81, 0x3F82]


def test_special_functions_are_those_of_hopper(apply):
    x = np.random.default_rng(8).integers(0, 1 << 32, 4096, dtype=np.uint32)
    operand = x.view(np.float32)
    for name, function in {
        "ex2": special.ex2_approx,
        "rsqrt": special.rsqrt_approx,
        "rcp": special.rcp_approx,
        "sqrt": special.sqrt_approx,
    }.items():
        for ftz in (False, True):
            got = apply(f"{name}.approx{'.ftz' if ftz else ''}.f32 {{d}}, {{0}};", x)
            want = np.asarray(function(operand, ftz=ftz))
            nan = np.isnan(want)
            assert (got == np.where(nan, np.uint32(NAN), want.view(np.uint32))).all()
    got = apply("div.full.f32 {d}, {0}, {1};", x, x[::-1].copy())
    want = np.asarray(division.div_full(operand, operand[::-1].copy(), ftz=False))
    assert (got == np.where(np.isnan(want), np.uint32(NAN), want.view(np.uint32))).all()


def test_approximate_division_scales_only_subnormal_divisors(apply):
    x = np.random.default_rng(9).integers(0, 1 << 32, 4096, dtype=np.uint32)
    y = np.random.default_rng(10).integers(0, 1 << 32, 4096, dtype=np.uint32)
    y[:512] &= 0x807FFFFF  # subnormal
    y[512:1024] |= 0x7F000000  # beyond 2^126, NaN and infinity among them
    full = apply("div.full.f32 {d}, {0}, {1};", x, y)
    approx = apply("div.approx.f32 {d}, {0}, {1};", x, y)
    a, b = x.view(np.float32), y.view(np.float32)
    large = (np.abs(b) > 2.0**126) & np.isfinite(b)
    assert (approx[~large] == full[~large]).all()
    assert (approx[large & np.isfinite(a)] << 1 == 0).all()
    flushed = apply("div.approx.ftz.f32 {d}, {0}, {1};", x, y)
    assert (flushed & 0x7F800000 != 0).sum() + (flushed << 1 == 0).sum() == flushed.size


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("finite", [1, 1, 1, 0, 0]),
        ("infinite", [0, 0, 0, 1, 0]),
        ("number", [1, 1, 1, 1, 0]),
        ("notanumber", [0, 0, 0, 0, 1]),
        ("normal", [1, 0, 1, 0, 0]),
        ("subnormal", [0, 1, 0, 0, 0]),
    ],
)
def test_classes(apply, kind, want):
    x = np.array([0, 1, 0x3F800000, 0xFF800000, 0x7FC00000], np.uint32)
    assert apply(f"testp.{kind}.f32 {{d}}, {{0}};", x, out="?").astype(int).tolist() == want


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "f64"])
def test_float_comparisons(apply, name):
    fmt = {"f32": f32, "f16": f16, "bf16": bf16, "f64": f64}[name]
    numbers = [-0.0, 0.0, 1.0, -1.0, math.inf, -math.inf, fmt.smallest_subnormal]
    bits = [to_pattern(v, fmt) for v in numbers] + [fmt.nan_pattern]
    grid = np.array(bits, f"u{fmt.bits // 8}")
    x, y = np.repeat(grid, grid.size), np.tile(grid, grid.size)
    a, b = values(x, fmt), values(y, fmt)
    unordered = [math.isnan(p) or math.isnan(q) for p, q in zip(a, b, strict=True)]
    ordered = {
        "eq": lambda p, q: p == q,
        "ne": lambda p, q: p != q,
        "lt": lambda p, q: p < q,
        "le": lambda p, q: p <= q,
        "gt": lambda p, q: p > q,
        "ge": lambda p, q: p >= q,
    }
    for op, test in ordered.items():
        plain = [test(p, q) and not u for p, q, u in zip(a, b, unordered, strict=True)]
        loose = [test(p, q) or u for p, q, u in zip(a, b, unordered, strict=True)]
        got = apply(f"setp.{op}.{name} {{d}}, {{0}}, {{1}};", x, y, out="?")
        assert got.tolist() == plain, op
        got = apply(f"setp.{op}u.{name} {{d}}, {{0}}, {{1}};", x, y, out="?")
        assert got.tolist() == loose, op
    assert apply(f"setp.nan.{name} {{d}}, {{0}}, {{1}};", x, y, out="?").tolist() == unordered
    assert (~apply(f"setp.num.{name} {{d}}, {{0}}, {{1}};", x, y, out="?")).tolist() == unordered


def test_packed_comparison_gives_two_predicates(apply):
    x, y = np.array([0x40003C00], np.uint32), np.array([0x3C003C00], np.uint32)
    text = ".reg .pred %other; setp.gt.f16x2 {lo}|{hi}, {0}, {1};"
    low = text.replace("{lo}", "{d}").replace("{hi}", "%other")
    high = text.replace("{hi}", "{d}").replace("{lo}", "%other")
    assert apply(low, x, y, out="?").tolist() == [False]
    assert apply(high, x, y, out="?").tolist() == [True]


@pytest.mark.parametrize("name", ["lg2.approx.f32", "sin.approx.ftz.f32", "tanh.approx.f32"])
def test_functions_without_a_bit_model_raise_by_name(apply, name):
    from exactness.virtual.errors import UnsupportedInstructionError

    with pytest.raises(UnsupportedInstructionError, match=name.replace(".", r"\.")):
        apply(f"{name} {{d}}, {{0}};", np.array([0x3F800000], np.uint32))


@pytest.mark.parametrize(
    "text",
    [
        "add.rn.wobble.f32 {d}, {0}, {0};",
        "frobnicate.f32 {d}, {0};",
        "add.rn.approx.f32 {d}, {0}, {0};",
        "add.rz.f64 {d}, {0}, {0};",
    ],
)
def test_unknown_opcodes_and_modifiers_raise_by_name(apply, text):
    from exactness.virtual.errors import UnsupportedInstructionError

    with pytest.raises(UnsupportedInstructionError, match=r"wobble|frobnicate|approx|rz"):
        apply(text, np.array([0], np.uint32))
