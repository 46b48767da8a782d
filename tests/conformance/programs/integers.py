"""Integer arithmetic at every width, signed and unsigned."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import Draw, integers, patterns
from ..program import Program, elementwise

N = 1019
TYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


@triton.jit
def _basic(x_ptr, y_ptr, add_ptr, sub_ptr, mul_ptr, bits_ptr, least_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(add_ptr + offsets, x + y, mask=offsets < n)
    tl.store(sub_ptr + offsets, x - y, mask=offsets < n)
    tl.store(mul_ptr + offsets, x * y, mask=offsets < n)
    tl.store(bits_ptr + offsets, (x & y) ^ (~x | y), mask=offsets < n)
    tl.store(least_ptr + offsets, tl.minimum(x, y) - tl.maximum(x, y), mask=offsets < n)


@triton.jit
def _divide(x_ptr, d_ptr, quotient_ptr, remainder_ptr, sevenths_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    d = tl.load(d_ptr + offsets, mask=offsets < n, other=1)
    tl.store(quotient_ptr + offsets, x // d, mask=offsets < n)
    tl.store(remainder_ptr + offsets, x % d, mask=offsets < n)
    tl.store(sevenths_ptr + offsets, x // 7 + x % 7, mask=offsets < n)


@triton.jit
def _shift(x_ptr, s_ptr, left_ptr, right_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    s = tl.load(s_ptr + offsets, mask=offsets < n, other=0)
    tl.store(left_ptr + offsets, x << s, mask=offsets < n)
    tl.store(right_ptr + offsets, x >> s, mask=offsets < n)


@triton.jit
def _compare(x_ptr, y_ptr, flags_ptr, where_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    flags = (x < y).to(tl.int32) | (x <= y).to(tl.int32) << 1 | (x > y).to(tl.int32) << 2
    flags |= (x >= y).to(tl.int32) << 3 | (x == y).to(tl.int32) << 4 | (x != y).to(tl.int32) << 5
    tl.store(flags_ptr + offsets, flags.to(tl.int8), mask=offsets < n)
    tl.store(where_ptr + offsets, tl.where((x < y) ^ (x == 0), x, y), mask=offsets < n)


@triton.jit
def _high(x_ptr, y_ptr, high_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(high_ptr + offsets, tl.umulhi(x, y), mask=offsets < n)


@triton.jit
def _magnitude(x_ptr, abs_ptr, neg_ptr, clamp_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(abs_ptr + offsets, tl.abs(x), mask=offsets < n)
    tl.store(neg_ptr + offsets, -x, mask=offsets < n)
    tl.store(clamp_ptr + offsets, tl.minimum(tl.maximum(x, -100), 99), mask=offsets < n)


@triton.jit
def _mixed_widths(a_ptr, b_ptr, c_ptr, out_ptr, wide_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offsets, mask=offsets < n)
    b = tl.load(b_ptr + offsets, mask=offsets < n)
    c = tl.load(c_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, a * b + c, mask=offsets < n)
    tl.store(wide_ptr + offsets, a.to(tl.int64) * c.to(tl.int64) - b, mask=offsets < n)


@triton.jit
def _random(seed_ptr, bits_ptr, uniform_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    seed = tl.load(seed_ptr)
    tl.store(bits_ptr + offsets, tl.randint(seed, offsets), mask=offsets < n)
    tl.store(uniform_ptr + offsets, tl.rand(seed, offsets), mask=offsets < n)


def _divisors(dtype: str) -> Draw:
    """Positive, so that neither a zero nor the one quotient that overflows occurs."""
    return integers((N,), dtype, 1, min(2 ** (int(dtype[1:]) - 1) - 1, 2**40))


def _programs() -> list[Program]:
    made = []
    for dtype in TYPES:
        x = patterns((N,), dtype)
        pair = {"x": x, "y": x}
        names = ("add", "sub", "mul", "bits", "least")
        made += [
            elementwise(f"integer_{dtype}", _basic, pair, dict.fromkeys(names, dtype)),
            elementwise(f"integer_divide_{dtype}", _divide, {"x": x, "d": _divisors(dtype)},
                        dict.fromkeys(("quotient", "remainder", "sevenths"), dtype)),
            elementwise(f"integer_divide_small_{dtype}", _divide,
                        {"x": x, "d": integers((N,), dtype, 1, 12)},
                        dict.fromkeys(("quotient", "remainder", "sevenths"), dtype)),
            elementwise(f"integer_shift_{dtype}", _shift,
                        {"x": x, "s": integers((N,), dtype, 0, int(dtype[1:]) - 1)},
                        {"left": dtype, "right": dtype}),
            elementwise(f"integer_compare_{dtype}", _compare, pair,
                        {"flags": "i8", "where": dtype}),
        ]  # fmt: skip
        if dtype[0] == "i":
            made.append(elementwise(f"integer_magnitude_{dtype}", _magnitude, {"x": x},
                                    dict.fromkeys(("abs", "neg", "clamp"), dtype)))  # fmt: skip
        if dtype in ("i32", "u32", "i64", "u64"):
            made.append(elementwise(f"integer_high_{dtype}", _high, pair, {"high": dtype}))
    mixed = {"a": patterns((N,), "i8"), "b": patterns((N,), "i16"), "c": patterns((N,), "i32")}
    made += [
        elementwise("integer_mixed_widths", _mixed_widths, mixed, {"out": "i32", "wide": "i64"}),
        elementwise("random_philox", _random, {"seed": integers((N,), "i32", 0, 2**31 - 1)},
                    {"bits": "i32", "uniform": "f32"}, enable_fp_fusion=False),
    ]  # fmt: skip
    return made


PROGRAMS = _programs()
