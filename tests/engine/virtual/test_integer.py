"""Integer arithmetic and bit operations, against Python's unbounded integers."""

import numpy as np
import pytest

EDGES = [0, 1, 2, 3, 5, 7, 31, 32, 33, 127, 128, 255, 256, 0x7FFF, 0x8000, 0x8001, 0xFFFF]


def patterns(bits: int, seed: int, count: int = 400) -> np.ndarray:
    """Random patterns of every magnitude, edges first."""
    rng = np.random.default_rng(seed)
    top = (1 << bits) - 1
    middle = 1 << (bits - 1)
    edges = [value & top for value in (*EDGES, middle, middle - 1, top, top - 1)]
    shifts = rng.integers(0, bits, count)
    values = [int(rng.integers(0, 1 << 62)) * 4 + int(rng.integers(0, 4)) for _ in range(count)]
    mixed = [(value & top) >> int(shift) for value, shift in zip(values, shifts, strict=True)]
    return rng.permutation(np.array(edges * 6 + mixed, dtype=f"u{bits // 8}"))


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def quotient(a: int, b: int) -> int:
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


BINARY = {
    "add.{t}": lambda a, b: a + b,
    "sub.{t}": lambda a, b: a - b,
    "mul.lo.{t}": lambda a, b: a * b,
    "min.{t}": min,
    "max.{t}": max,
}


@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("name", BINARY)
def test_binary_arithmetic_wraps(apply, name, bits, kind):
    x, y = patterns(bits, 1), patterns(bits, 2)
    got = apply(f"{name.format(t=f'{kind}{bits}')} {{d}}, {{0}}, {{1}};", x, y, out=f"u{bits // 8}")
    read = (lambda v: signed(v, bits)) if kind == "s" else int
    want = [
        BINARY[name](read(int(a)), read(int(b))) % (1 << bits) for a, b in zip(x, y, strict=True)
    ]
    assert got.tolist() == want


@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_high_half_of_a_product(apply, bits, kind):
    x, y = patterns(bits, 3), patterns(bits, 4)
    got = apply(f"mul.hi.{kind}{bits} {{d}}, {{0}}, {{1}};", x, y, out=f"u{bits // 8}")
    read = (lambda v: signed(v, bits)) if kind == "s" else int
    want = [(read(int(a)) * read(int(b)) >> bits) % (1 << bits) for a, b in zip(x, y, strict=True)]
    assert got.tolist() == want


@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("bits", [16, 32])
def test_wide_product_and_mad(apply, bits, kind):
    x, y = patterns(bits, 5), patterns(bits, 6)
    z = patterns(2 * bits, 7)
    read = (lambda v: signed(v, bits)) if kind == "s" else int
    got = apply(f"mad.wide.{kind}{bits} {{d}}, {{0}}, {{1}}, {{2}};", x, y, z, out=f"u{bits // 4}")
    want = [
        (read(int(a)) * read(int(b)) + int(c)) % (1 << 2 * bits)
        for a, b, c in zip(x, y, z, strict=True)
    ]
    assert got.tolist() == want


@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_division_truncates_toward_zero(apply, bits, kind):
    x, y = patterns(bits, 8), np.maximum(patterns(bits, 9), 1).astype(f"u{bits // 8}")
    read = (lambda v: signed(v, bits)) if kind == "s" else int
    pairs = [(read(int(a)), read(int(b))) for a, b in zip(x, y, strict=True)]
    top = 1 << bits
    div = apply(f"div.{kind}{bits} {{d}}, {{0}}, {{1}};", x, y, out=f"u{bits // 8}")
    rem = apply(f"rem.{kind}{bits} {{d}}, {{0}}, {{1}};", x, y, out=f"u{bits // 8}")
    assert div.tolist() == [quotient(a, b) % top for a, b in pairs]
    assert rem.tolist() == [(a - quotient(a, b) * b) % top for a, b in pairs]


def test_saturating_add(apply):
    x = np.array([0x7FFFFFFF, 0x80000000, 5], np.uint32)
    y = np.array([1, 0xFFFFFFFF, 7], np.uint32)
    assert apply("add.sat.s32 {d}, {0}, {1};", x, y).tolist() == [0x7FFFFFFF, 0x80000000, 12]


def test_carry_chain_adds_96_bits(apply):
    low = np.array([0xFFFFFFFF, 1], np.uint32)
    text = """
        .reg .b32 %x, %y;
        add.cc.u32 %x, {0}, 1;
        addc.cc.u32 %y, {0}, 0;
        addc.u32 {d}, 0, 0;
    """
    assert apply(text, low).tolist() == [1, 0]
    borrow = ".reg .b32 %x; sub.cc.u32 %x, {0}, 2; subc.u32 {d}, 7, 0;"
    assert apply(borrow, np.array([1, 2], np.uint32)).tolist() == [6, 7]
    product = ".reg .b32 %x; mad.lo.cc.u32 %x, {0}, {0}, 5; madc.hi.u32 {d}, {0}, {0}, 0;"
    # (2^32 - 1)^2 + 5 = 0xFFFFFFFE_00000006
    assert apply(product, np.array([0xFFFFFFFF], np.uint32)).tolist() == [0xFFFFFFFE]
    assert apply(product, np.array([0xFFFFFFFD], np.uint32)).tolist() == [(0xFFFFFFFD**2 + 5) >> 32]


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp_at_the_width(apply, bits):
    x = patterns(bits, 10)
    n = np.random.default_rng(11).integers(0, 80, x.size).astype(np.uint32)
    n[:3] = [bits, 0xFFFFFFFF, bits - 1]
    top = 1 << bits
    out = f"u{bits // 8}"
    pairs = [(int(a), min(int(k), bits)) for a, k in zip(x, n, strict=True)]
    left = apply(f"shl.b{bits} {{d}}, {{0}}, {{1}};", x, n, out=out)
    assert left.tolist() == [(a << k) % top for a, k in pairs]
    right = apply(f"shr.u{bits} {{d}}, {{0}}, {{1}};", x, n, out=out)
    assert right.tolist() == [a >> k for a, k in pairs]
    arithmetic = apply(f"shr.s{bits} {{d}}, {{0}}, {{1}};", x, n, out=out)
    assert arithmetic.tolist() == [(signed(a, bits) >> k) % top for a, k in pairs]


def test_funnel_shifts(apply):
    low, high = patterns(32, 12), patterns(32, 13)
    n = np.random.default_rng(14).integers(0, 64, low.size).astype(np.uint32)
    wide = [(int(h) << 32) | int(x) for x, h in zip(low, high, strict=True)]
    top = 1 << 32
    got = apply("shf.l.wrap.b32 {d}, {0}, {1}, {2};", low, high, n)
    assert got.tolist() == [(w << (int(k) & 31) >> 32) % top for w, k in zip(wide, n, strict=True)]
    got = apply("shf.r.clamp.b32 {d}, {0}, {1}, {2};", low, high, n)
    assert got.tolist() == [(w >> min(int(k), 32)) % top for w, k in zip(wide, n, strict=True)]


def test_lop3_is_its_truth_table(apply):
    x, y, z = patterns(32, 15), patterns(32, 16), patterns(32, 17)
    majority = apply("lop3.b32 {d}, {0}, {1}, {2}, 0xE8;", x, y, z)
    assert (majority == (x & y | x & z | y & z)).all()
    parity = apply("lop3.b32 {d}, {0}, {1}, {2}, 0x96;", x, y, z)
    assert (parity == x ^ y ^ z).all()


@pytest.mark.parametrize("name", ["bfe.u32", "bfe.s32", "bfe.u64", "bfe.s64"])
def test_bit_field_extract(apply, name):
    bits = int(name[-2:])
    x = patterns(bits, 18)
    rng = np.random.default_rng(19)
    at, length = (rng.integers(0, bits + 4, x.size).astype(np.uint32) for _ in range(2))

    def model(a: int, p: int, n: int) -> int:
        n = min(n, bits)
        field = (a >> p) % (1 << n) if p < bits else 0
        if "s" in name and n:
            last = min(p + n - 1, bits - 1)
            if a >> last & 1:
                field |= (-1 << min(n, max(bits - p, 0) if p < bits else 0)) % (1 << bits)
        return field

    got = apply(f"{name} {{d}}, {{0}}, {{1}}, {{2}};", x, at, length, out=f"u{bits // 8}")
    assert got.tolist() == [
        model(int(a), int(p), int(n)) for a, p, n in zip(x, at, length, strict=True)
    ]


def test_bit_field_insert(apply):
    x, y = patterns(32, 20), patterns(32, 21)
    rng = np.random.default_rng(22)
    at, length = (rng.integers(0, 36, x.size).astype(np.uint32) for _ in range(2))
    got = apply("bfi.b32 {d}, {0}, {1}, {2}, {3};", x, y, at, length)

    def model(a: int, b: int, p: int, n: int) -> int:
        ones = ((1 << min(n, 32)) - 1 << p) % (1 << 32) if p < 32 else 0
        return (b & ~ones) | ((a << p) & ones)

    cases = zip(x, y, at, length, strict=True)
    assert got.tolist() == [model(*map(int, case)) for case in cases]


def test_counts_and_reversal(apply):
    x = patterns(32, 23)
    assert apply("popc.b32 {d}, {0};", x).tolist() == [int(a).bit_count() for a in x]
    assert apply("clz.b32 {d}, {0};", x).tolist() == [32 - int(a).bit_length() for a in x]
    reversed_bits = [int(f"{int(a):032b}"[::-1], 2) for a in x]
    assert apply("brev.b32 {d}, {0};", x).tolist() == reversed_bits
    found = [int(a).bit_length() - 1 if a else 0xFFFFFFFF for a in x]
    assert apply("bfind.u32 {d}, {0};", x).tolist() == found
    wide = patterns(64, 24)
    assert apply("clz.b64 {d}, {0};", wide).tolist() == [64 - int(a).bit_length() for a in wide]
    assert apply("popc.b64 {d}, {0};", wide).tolist() == [int(a).bit_count() for a in wide]


def test_prmt_picks_bytes(apply):
    x, y = np.array([0x33221100], np.uint32), np.array([0xF7665544], np.uint32)
    assert apply("prmt.b32 {d}, {0}, {1}, 0x7610;", x, y).tolist() == [0xF7661100]
    assert apply("prmt.b32 {d}, {0}, {1}, 0xF3C0;", x, y).tolist() == [0xFF330000]


def test_neg_abs_sad_and_24_bits(apply):
    x, y = patterns(32, 25), patterns(32, 26)
    assert apply("neg.s32 {d}, {0};", x).tolist() == [-int(a) % (1 << 32) for a in x]
    assert apply("abs.s32 {d}, {0};", x).tolist() == [abs(signed(int(a), 32)) for a in x]
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    assert apply("sad.u32 {d}, {0}, {1}, 0;", x, y).tolist() == [abs(a - b) for a, b in pairs]
    got = apply("mul24.lo.s32 {d}, {0}, {1};", x, y)
    low = [(signed(a % (1 << 24), 24), signed(b % (1 << 24), 24)) for a, b in pairs]
    assert got.tolist() == [a * b % (1 << 32) for a, b in low]


def test_logic_on_every_width(apply):
    for bits in (16, 32, 64):
        x, y = patterns(bits, 27), patterns(bits, 28)
        out = f"u{bits // 8}"
        assert (apply(f"and.b{bits} {{d}}, {{0}}, {{1}};", x, y, out=out) == x & y).all()
        assert (apply(f"or.b{bits} {{d}}, {{0}}, {{1}};", x, y, out=out) == x | y).all()
        assert (apply(f"xor.b{bits} {{d}}, {{0}}, {{1}};", x, y, out=out) == x ^ y).all()
        assert (apply(f"not.b{bits} {{d}}, {{0}};", x, out=out) == ~x).all()
        assert (apply(f"cnot.b{bits} {{d}}, {{0}};", x, out=out) == (x == 0)).all()


def test_dp4a(apply):
    x = np.array([0x01FF02FE], np.uint32)
    y = np.array([0x03030303], np.uint32)
    # bytes of x as s8: -2, 2, -1, 1, their sum is 0
    assert apply("dp4a.s32.s32 {d}, {0}, {1}, 10;", x, y).tolist() == [10]
    assert apply("dp4a.u32.u32 {d}, {0}, {1}, 0;", x, y).tolist() == [3 * (254 + 2 + 255 + 1)]


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("kind", ["u", "s"])
def test_integer_comparisons(apply, name, kind):
    import operator

    x, y = patterns(32, 29), patterns(32, 29)[::-1].copy()
    read = (lambda v: signed(int(v), 32)) if kind == "s" else int
    test = getattr(operator, name)
    got = apply(f"setp.{name}.{kind}32 {{d}}, {{0}}, {{1}};", x, y, out="?")
    assert got.tolist() == [test(read(a), read(b)) for a, b in zip(x, y, strict=True)]


def test_comparison_with_boolean_and_two_destinations(apply):
    x, p = np.array([1, 2, 3, 4], np.uint32), np.array([True, True, False, False])
    assert apply("setp.lt.and.u32 {d}, {0}, 2, {1};", x, p, out="?").tolist() == [
        True, False, False, False,
    ]  # fmt: skip
    second = ".reg .pred %x; setp.lt.or.u32 %x|{d}, {0}, 2, !{1};"
    # The second destination combines the opposite of the comparison.
    assert apply(second, x, p, out="?").tolist() == [False, True, True, True]
