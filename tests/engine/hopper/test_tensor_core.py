import itertools
import math
import sys
from dataclasses import replace
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.bits import decode
from exactness.formats import bf16, e4m3fn, e5m2, f16, f32, tf32
from exactness.hopper import tensor_core, tensor_core_arrays, tensor_core_cpu
from exactness.hopper.tensor_core import KINDS, fp8_mma_sync, integer_matmul, kind_of, matmul, step
from exactness.inputs.patterns import FAMILIES, generator
from exactness.rounding import Rounding, round_to

EVERY_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
BF16, TF32 = kind_of(bf16, bf16), kind_of(tf32, tf32)
NAN = 0x7FFFFFFF
FP8_FORMATS = list(itertools.product((e4m3fn, e5m2), (e4m3fn, e5m2), (f32, f16)))


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def words(x):
    return np.asarray(x, np.float32).view(np.uint32)


def assert_same_bits(actual, expected, what=""):
    actual, expected = words(actual), words(expected)
    wrong = np.argwhere(actual != expected)
    assert not wrong.size, f"{what}: {len(wrong)} of {actual.size} differ, first at {wrong[0]}"


def values(fmt, shape, seed, family):
    return decode(FAMILIES[family](generator(seed), fmt, shape), fmt)


def operands(kind, rows, depth, columns, seed):
    """Three different families for a, b and the accumulator, one seed after the other."""
    names = list(FAMILIES)
    first, second, third = (names[(seed // 14**i + 5 * i) % len(names)] for i in range(3))
    return (
        values(kind.a, (rows, depth), 3 * seed, first),
        values(kind.b, (columns, depth), 3 * seed + 1, second).T,
        values(kind.accumulator, (rows, columns), 3 * seed + 2, third),
    )


# An oracle that shares nothing with the module: one step in rational numbers.


def exponent_of(x, fmt):
    return max(math.frexp(x)[1] - 1, fmt.min_exponent)


def fused_sum(a, b, c, kind):
    pairs = list(zip(map(float, a), map(float, b), strict=True))
    ieee = sum((x * y for x, y in pairs), float(c))
    if not math.isfinite(ieee):
        return ieee
    products = [(x, y) for x, y in pairs if x != 0 and y != 0]
    exponents = [exponent_of(x, kind.a) + exponent_of(y, kind.b) for x, y in products]
    exponents.append(exponent_of(float(c), kind.accumulator) if c else kind.zero_exponent)
    quantum = Fraction(2) ** (max(exponents) - kind.fraction_bits)
    terms = [Fraction(x) * Fraction(y) for x, y in products] + [Fraction(float(c))]
    align = round if kind.alignment is Rounding.NEAREST_EVEN else math.trunc
    return rounded(sum(align(term / quantum) for term in terms) * quantum, kind)


def rounded(exact, kind):
    if exact == 0:
        return 0.0
    fmt = kind.result
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, fmt.min_exponent) - fmt.fraction_bits)
    to_nearest = kind.rounding is Rounding.NEAREST_EVEN
    result = (round(magnitude / unit) if to_nearest else magnitude // unit) * unit
    if result > Fraction(fmt.largest):
        return math.copysign(math.inf, exact)
    return math.copysign(float(result), exact) if result else 0.0


@EVERY_KIND
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 14**3 - 1), depth=st.integers(1, 32))
def test_a_step_is_the_truncated_sum_in_rational_numbers(kind, seed, depth):
    a, b, c = operands(kind, 2, min(depth, kind.step), 2, seed)
    expected = [[fused_sum(a[m], b[:, n], c[m, n], kind) for n in (0, 1)] for m in (0, 1)]
    actual = matmul(a, b, c, kind=kind)
    expected = tensor_core.canonical_nan(np.array(expected, np.float32))
    assert_same_bits(actual, expected)


@pytest.fixture(scope="module")
def mmasim():
    """The instructions of the `mmasim` package, by the types in PTX."""
    pytest.importorskip("mmasim", reason="mmasim, a second opinion, is not installed")
    # Its f64 arithmetic, not used here, would build a C++ extension at import.
    sys.modules.setdefault("mmasim.arithmetic.fma", ModuleType("fma")).MMA_FMA = None
    from mmasim.nv_ptx import WGMMA

    def product(kind, a, b, c):
        types = kind.name.replace("e4m3fn", "e4m3")
        instruction = WGMMA("Hopper", f"m64n16k{kind.step}.{types}")
        dtypes = (instruction.a_type, instruction.b_type, instruction.c_type)
        tensors = (torch.tensor(x).to(d) for x, d in zip((a, b, c), dtypes, strict=True))
        return tensor_core.canonical_nan(instruction(*tensors).float().numpy())

    return product


@EVERY_KIND
def test_mmasim_has_the_same_bits(mmasim, kind):
    for seed in range(0, 14**3, 211):
        a, b, c = operands(kind, 64, kind.step, 16, seed)
        assert_same_bits(matmul(a, b, c, kind=kind), mmasim(kind, a, b, c), seed)


@EVERY_KIND
def test_tensors_have_the_same_bits_as_arrays(kind):
    for seed in range(0, 14**3, 311):
        a, b, c = operands(kind, 9, 2 * kind.step + 5, 11, seed)
        expected = matmul(a, b, c, kind=kind)
        actual = matmul(*(torch.tensor(x) for x in (a, b, c)), kind=kind)
        assert_same_bits(actual.numpy(), expected, seed)


def test_large_tensors_are_taken_in_pieces(monkeypatch):
    a, b, c = operands(BF16, 40, 48, 30, 7)
    expected = matmul(*(torch.tensor(x) for x in (a, b, c)), kind=BF16)
    monkeypatch.setattr(tensor_core_arrays, "_PRODUCTS", 1500)
    actual = matmul(*(torch.tensor(x) for x in (a, b, c)), kind=BF16)
    assert_same_bits(actual.numpy(), expected.numpy())


@pytest.mark.parametrize("shape", [(1, 7), (5, 3)], ids=["rows", "batches"])
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_threads_do_not_show(monkeypatch, shape, threads):
    a = values(bf16, (*shape, 40), 1, "log_spaced")
    b = values(bf16, (shape[0], 40, 6), 2, "log_spaced")
    expected = np.stack([matmul(x, y, kind=BF16) for x, y in zip(a, b, strict=True)])
    monkeypatch.setattr(tensor_core_cpu, "_PRODUCTS", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(threads))
    assert_same_bits(matmul(a, b, kind=BF16), expected)


@EVERY_KIND
def test_a_longer_product_chains_steps_in_ascending_k(kind):
    a, b, c = operands(kind, 5, 3 * kind.step + 3, 70, 2)
    expected = c
    for k in range(0, a.shape[1], kind.step):
        expected = matmul(a[:, k : k + kind.step], b[k : k + kind.step], expected, kind=kind)
    assert_same_bits(matmul(a, b, c, kind=kind), expected)


def test_step_is_one_sum_an_element():
    rows = [operands(BF16, 1, 16, 1, seed) for seed in range(60)]
    a, b, c = (np.stack([np.ravel(row[i]) for row in rows]) for i in range(3))
    expected = [matmul(*row, kind=BF16)[0, 0] for row in rows]
    assert_same_bits(step(a, b, c[:, 0], kind=BF16), expected)
    with pytest.raises(ValueError, match=r"a: 17 products; f32\.bf16\.bf16 fuses at most 16"):
        step(np.ones((1, 17), np.float32), np.ones((1, 17), np.float32), c[:1, 0], kind=BF16)


@pytest.mark.parametrize(
    ("a_shape", "b_shape", "c_shape"),
    [
        ((3, 4, 20), (20, 6), (3, 4, 6)),
        ((4, 20), (3, 20, 6), (6,)),
        ((2, 1, 4, 20), (3, 20, 6), (2, 3, 4, 6)),
        ((5, 4, 20), (5, 20, 6), (1, 1, 1)),
    ],
)
@pytest.mark.parametrize("module", [np.asarray, torch.tensor], ids=["arrays", "tensors"])
def test_batches_broadcast(module, a_shape, b_shape, c_shape):
    a, b, c = (
        values(bf16, shape, i, "normal") for i, shape in enumerate((a_shape, b_shape, c_shape))
    )
    actual = np.asarray(matmul(module(a), module(b), module(c), kind=BF16))
    batch = actual.shape[:-2]
    a, b = np.broadcast_to(a, (*batch, 4, 20)), np.broadcast_to(b, (*batch, 20, 6))
    c = np.broadcast_to(c, actual.shape)
    for i in itertools.product(*map(range, batch)):
        assert_same_bits(actual[i], matmul(a[i], b[i], c[i], kind=BF16))


def test_operands_and_accumulator_are_not_written_to():
    a, b, c = operands(BF16, 4, 20, 6, 0)
    before = [x.copy() for x in (a, b, c)]
    matmul(a, b, c, kind=BF16)
    for x, y in zip((a, b, c), before, strict=True):
        assert_same_bits(x, y)


@pytest.mark.parametrize("module", [np.asarray, torch.tensor], ids=["arrays", "tensors"])
def test_empty_products(module):
    def product(m, k, n, acc=None):
        a, b = (module(np.zeros(shape, np.float32)) for shape in ((m, k), (k, n)))
        return np.asarray(matmul(a, b, acc, kind=BF16))

    assert product(0, 16, 4).shape == (0, 4)
    assert product(4, 16, 0).shape == (4, 0)
    assert_same_bits(product(2, 0, 3), np.zeros((2, 3)))


def dot(a, b, c=0.0, kind=BF16):
    a, b = np.array([a], np.float32), np.array([b], np.float32).T
    return int(words(matmul(a, b, np.array([[c]], np.float32), kind=kind))[0, 0])


def bits_of(x):
    return int(words(x))


def test_terms_lose_what_lies_below_25_fractional_bits():
    tiny = 2.0**-13
    assert dot([1.0, tiny], [1.0, 2.0**-12]) == bits_of(1.0)  # 2^-25 is kept, then rounded off.
    assert dot([1.0, tiny, -1.0], [1.0, 2.0**-12, 1.0]) == bits_of(2.0**-25)
    assert dot([1.0, tiny, -1.0], [1.0, 2.0**-13, 1.0]) == bits_of(0.0)
    # Products are not renormalised: 1.5 · 1.5 = 2.25 keeps the exponent 0.
    assert dot([1.5, tiny, -1.5], [1.5, 2.0**-12, 1.5]) == bits_of(2.0**-25)


def test_the_sum_is_rounded_toward_zero():
    almost = 1.0 + 255 / 256
    assert dot([almost, 2.0**-12], [1.0, 2.0**-12], 0.0, TF32) == bits_of(np.float32(almost))
    assert dot([1.0, -(2.0**-25)], [1.0, 1.0]) == bits_of(np.nextafter(np.float32(1), 0))


def test_fp8_keeps_13_fractional_bits():
    fp8 = kind_of(e4m3fn, e4m3fn)
    assert dot([1.0], [1.0], 2.0**-13, fp8) == bits_of(1.0 + 2.0**-13)
    assert dot([1.0], [1.0], 2.0**-14, fp8) == bits_of(1.0)
    assert dot([0.0], [1.0], 1.0 + 2.0**-23, fp8) == bits_of(1.0)


@EVERY_KIND
def test_zeros_are_positive_and_never_raise_the_exponent(kind):
    huge = float(min(kind.a.largest, kind.b.largest))
    assert dot([-0.0], [1.0], -0.0, kind) == 0
    assert dot([1.0, 1.0], [1.0, -1.0], -0.0, kind) == 0
    small = float(kind.result.smallest_normal)
    assert dot([0.0, huge], [huge, 0.0], small, kind) == bits_of(small)


@EVERY_KIND
def test_infinities_and_nan_behave_as_in_ieee(kind):
    inf, nan = math.inf, math.nan
    assert dot([1.0], [1.0], inf, kind) == bits_of(inf)
    assert dot([1.0], [1.0], nan, kind) == NAN
    assert dot([nan], [0.0], 1.0, kind) == NAN
    if kind.a.infinities and kind.b.infinities:
        assert dot([-inf], [2.0], 1.0, kind) == bits_of(-inf)
        assert dot([inf], [0.0], 1.0, kind) == NAN
        assert dot([inf, -inf], [1.0, 1.0], 0.0, kind) == NAN
        assert dot([inf], [1.0], -inf, kind) == NAN
    largest = float(kind.accumulator.largest)
    doubled = dot([1.0], [1.0], largest, kind)
    assert doubled == bits_of(kind.result.largest)  # Rounded off.


def test_overflow_gives_infinity():
    assert dot([2.0**100, 2.0**27], [2.0**27, 2.0**100]) == bits_of(math.inf)
    assert dot([-(2.0**100)], [2.0**100]) == bits_of(-math.inf)
    half = kind_of(f16, f16, f16)
    assert dot([256.0], [256.0], 0.0, half) == bits_of(math.inf)
    assert dot([1.0], [15.0], 65504.0, half) == bits_of(65504.0)
    assert dot([1.0], [16.0], 65504.0, half) == bits_of(math.inf)  # A tie, to even.


def test_tf32_reads_the_upper_bits_of_a_register():
    patterns = np.array([0x3F801FFF, 0x7F800001, 0xFFC00001, 0x00001FFF, 0x80002000], np.uint32)
    expected = [0x3F800000, 0x7F800000, 0xFFC00000, 0, 0x80002000]
    read = tensor_core.tf32_operand(patterns.view(np.float32))
    assert words(read).tolist() == expected
    tensors = tensor_core.tf32_operand(torch.tensor(patterns.view(np.float32)))
    assert words(tensors).tolist() == expected
    with pytest.raises(ValueError, match=r"a: .* is not a value of tf32; round it first"):
        matmul(patterns[:1, None].view(np.float32), ONES[:1], kind=TF32)


def test_subnormal_results_and_operands():
    assert dot([2.0**-133], [2.0**-16]) == bits_of(2.0**-149)
    assert dot([2.0**-133], [-(2.0**-17)]) == bits_of(0.0)
    # 2^-133 has exponent −126 and significand 2^-7: the second product keeps 18 bits of its own.
    c = 2.0**-133 * 2.0**126
    assert dot([2.0**-133, 1.0], [2.0**126, 2.0**-32], -c) == bits_of(0.0)
    assert dot([1.0, 1.0], [c, 2.0**-32], -c) == bits_of(2.0**-32)


def test_kinds_can_be_varied():
    a, b = (values(bf16, shape, 5, "log_spaced") for shape in ((16, 64), (64, 16)))
    right = matmul(a, b, kind=BF16)
    for change in (
        {"step": 8},
        {"fraction_bits": 24},
        {"alignment": Rounding.NEAREST_EVEN},
        {"rounding": Rounding.NEAREST_EVEN},
    ):
        kind = replace(BF16, **change)
        wrong = matmul(a, b, kind=kind)
        assert (words(wrong) != words(right)).any(), change
        tensors = matmul(torch.tensor(a), torch.tensor(b), kind=kind)
        assert_same_bits(tensors.numpy(), wrong, change)
        first = [[fused_sum(x, y, 0.0, kind) for y in b[: kind.step].T] for x in a[:, : kind.step]]
        one = matmul(a[:, : kind.step], b[: kind.step], kind=kind)
        assert_same_bits(one, np.array(first, np.float32), change)


@pytest.mark.parametrize(
    "formats", FP8_FORMATS, ids=lambda formats: ".".join(fmt.name for fmt in formats)
)
@pytest.mark.parametrize("depth", [16, 32])
def test_fp8_mma_sync_is_two_f16_products_and_an_addition(formats, depth):
    kind = kind_of(*formats)
    half = replace(kind_of(f16, f16, kind.accumulator), step=depth // 2)
    low = [k for k in range(depth) if k % 4 < 2]
    high = [k for k in range(depth) if k % 4 >= 2]
    for seed in range(0, 14**3, 401):
        a, b, c = operands(kind, 16, depth, 8, seed)
        partial = matmul(a[:, low], b[low], kind=half)
        partial = matmul(a[:, high], b[high], partial, kind=half)
        expected = tensor_core.canonical_nan(round_to(partial + c, kind.accumulator))
        assert_same_bits(fp8_mma_sync(a, b, c, kind=kind), expected, seed)
        tensors = fp8_mma_sync(*(torch.tensor(x) for x in (a, b, c)), kind=kind)
        assert_same_bits(tensors.numpy(), expected, seed)
    with pytest.raises(ValueError, match="a: 8 columns; one instruction takes 16 or 32"):
        fp8_mma_sync(a[:, :8], b[:8], c, kind=kind)


@pytest.mark.parametrize("dtypes", list(itertools.product(("int8", "uint8"), repeat=2)))
def test_integers_wrap_or_saturate(dtypes):
    rng = generator(3)
    a, b = (
        rng.integers(np.iinfo(d).min, np.iinfo(d).max, shape, d, endpoint=True)
        for d, shape in zip(dtypes, ((9, 200), (200, 7)), strict=True)
    )
    limits = np.iinfo(np.int32)
    c = rng.choice(np.array([0, 1, limits.min, limits.max], np.int32), (9, 7))
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    wrapped = (exact + 2**31) % 2**32 - 2**31
    assert (wrapped != exact).any()
    for module in (np.asarray, torch.tensor):
        actual = integer_matmul(module(a), module(b), module(c))
        assert np.array_equal(np.asarray(actual), wrapped)
        actual = integer_matmul(module(a), module(b), module(c), saturate=True)
        assert np.array_equal(np.asarray(actual), exact.clip(limits.min, limits.max))
    assert integer_matmul(a, b).dtype == np.int32


ONES = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: matmul(ONES.astype(float), ONES, kind=BF16),
            TypeError,
            "a: dtype float64; float32",
        ),
        (lambda: matmul(ONES, ONES + 2**-8, kind=BF16), ValueError, "b: .* is not a value of bf16"),
        (lambda: matmul(ONES, ONES[:3], kind=BF16), ValueError, "a has 4 columns and b 3 rows"),
        (lambda: matmul(ONES[0], ONES, kind=BF16), ValueError, r"a: shape \(4,\); at least two"),
        (
            lambda: matmul(ONES, ONES, np.ones((5, 1, 1), np.float32), kind=BF16),
            ValueError,
            r"acc: shape \(5, 1, 1\) does not broadcast to \(4, 4\)",
        ),
        (lambda: kind_of(f32, f32), TypeError, r"no tensor-core product f32\.f32\.f32; there are"),
        (lambda: kind_of(bf16, f16), TypeError, r"no tensor-core product f32\.bf16\.f16"),
        (lambda: replace(BF16, step=6), ValueError, "step: 6 is not accepted; a positive multiple"),
        (
            lambda: replace(BF16, rounding=Rounding.UP),
            ValueError,
            "rounding: Rounding.UP is not accepted",
        ),
        (lambda: integer_matmul(ONES, ONES), TypeError, "a: dtype float32; int8 or uint8"),
        (
            lambda: integer_matmul(ONES.astype("i1"), ONES.astype("u1"), ONES),
            TypeError,
            "acc: dtype float32; int32",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
