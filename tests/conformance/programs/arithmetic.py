"""Floating-point arithmetic in each format, with and without fusion; special functions."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import moderate, patterns
from ..program import Program, elementwise

N = 1024


@triton.jit
def _basic(x_ptr, y_ptr, add_ptr, sub_ptr, mul_ptr, neg_ptr, abs_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(add_ptr + offsets, x + y, mask=offsets < n)
    tl.store(sub_ptr + offsets, x - y, mask=offsets < n)
    tl.store(mul_ptr + offsets, x * y, mask=offsets < n)
    tl.store(neg_ptr + offsets, -x, mask=offsets < n)
    tl.store(abs_ptr + offsets, tl.abs(x), mask=offsets < n)


@triton.jit
def _three(x_ptr, y_ptr, z_ptr, fma_ptr, mad_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    z = tl.load(z_ptr + offsets, mask=offsets < n)
    tl.store(fma_ptr + offsets, tl.fma(x, y, z), mask=offsets < n)
    tl.store(mad_ptr + offsets, x * y + z, mask=offsets < n)


@triton.jit
def _polynomial(x_ptr, horner_ptr, mixed_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    horner = ((x * 0.3 + 0.7) * x - 1.1) * x + 2.0
    mixed = x * 1.7 - (x * x) * 0.2
    tl.store(horner_ptr + offsets, horner, mask=offsets < n)
    tl.store(mixed_ptr + offsets, mixed, mask=offsets < n)


@triton.jit
def _extrema(x_ptr, y_ptr, min_ptr, max_ptr, nan_ptr, clamp_ptr, all_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    low, high = tl.full(x.shape, -2.0, x.dtype), tl.full(x.shape, 1.5, x.dtype)
    kept = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    clamped = tl.clamp(x, low, high, propagate_nan=tl.PropagateNan.ALL)
    tl.store(min_ptr + offsets, tl.minimum(x, y), mask=offsets < n)
    tl.store(max_ptr + offsets, tl.maximum(x, y), mask=offsets < n)
    tl.store(nan_ptr + offsets, kept, mask=offsets < n)
    tl.store(clamp_ptr + offsets, tl.clamp(x, low, high), mask=offsets < n)
    tl.store(all_ptr + offsets, clamped, mask=offsets < n)


@triton.jit
def _compare(x_ptr, y_ptr, flags_ptr, where_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    flags = (x < y).to(tl.int32) | (x <= y).to(tl.int32) << 1 | (x > y).to(tl.int32) << 2
    flags |= (x >= y).to(tl.int32) << 3 | (x == y).to(tl.int32) << 4 | (x != y).to(tl.int32) << 5
    tl.store(flags_ptr + offsets, flags.to(tl.int8), mask=offsets < n)
    tl.store(where_ptr + offsets, tl.where((x < y) & (x != x - y), x, y), mask=offsets < n)


@triton.jit
def _divide_f32(x_ptr, y_ptr, div_ptr, rn_ptr, inverse_ptr, third_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(div_ptr + offsets, x / y, mask=offsets < n)
    tl.store(rn_ptr + offsets, tl.div_rn(x, y), mask=offsets < n)
    tl.store(inverse_ptr + offsets, 1.0 / x, mask=offsets < n)
    tl.store(third_ptr + offsets, tl.div_rn(x, tl.full(x.shape, 3.0, tl.float32)), mask=offsets < n)


@triton.jit
def _divide_by_constant(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x / 3.0, mask=offsets < n)


@triton.jit
def _roots_f32(x_ptr, sqrt_ptr, rn_ptr, rsqrt_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(sqrt_ptr + offsets, tl.sqrt(x), mask=offsets < n)
    tl.store(rn_ptr + offsets, tl.sqrt_rn(x), mask=offsets < n)
    tl.store(rsqrt_ptr + offsets, tl.rsqrt(x), mask=offsets < n)


@triton.jit
def _exponentials(x_ptr, exp_ptr, exp2_ptr, sigmoid_ptr, silu_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(exp_ptr + offsets, tl.exp(x), mask=offsets < n)
    tl.store(exp2_ptr + offsets, tl.exp2(x), mask=offsets < n)
    tl.store(sigmoid_ptr + offsets, tl.sigmoid(x), mask=offsets < n)
    tl.store(silu_ptr + offsets, x * tl.sigmoid(x), mask=offsets < n)


@triton.jit
def _erf(x_ptr, erf_ptr, gelu_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(erf_ptr + offsets, tl.erf(x), mask=offsets < n)
    tl.store(gelu_ptr + offsets, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=offsets < n)


@triton.jit
def _logarithms(x_ptr, log_ptr, log2_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(log_ptr + offsets, tl.log(x), mask=offsets < n)
    tl.store(log2_ptr + offsets, tl.log2(x), mask=offsets < n)


@triton.jit
def _circular(x_ptr, sin_ptr, cos_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(sin_ptr + offsets, tl.sin(x), mask=offsets < n)
    tl.store(cos_ptr + offsets, tl.cos(x), mask=offsets < n)


@triton.jit
def _f64(x_ptr, y_ptr, div_ptr, sqrt_ptr, fma_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(div_ptr + offsets, x / y, mask=offsets < n)
    tl.store(sqrt_ptr + offsets, tl.sqrt(x), mask=offsets < n)
    tl.store(fma_ptr + offsets, tl.fma(x, y, x - y), mask=offsets < n)


@triton.jit
def _exp_f64(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.exp(x), mask=offsets < n)


@triton.jit
def _mixed(x_ptr, y_ptr, z_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    z = tl.load(z_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * y + z, mask=offsets < n)


def _programs() -> list[Program]:
    made = []
    for fmt in ("f64", "f32", "f16", "bf16"):
        x = patterns((N,), fmt)
        pair, names = {"x": x, "y": x}, ("add", "sub", "mul", "neg", "abs")
        made.append(
            elementwise(
                f"basic_{fmt}", _basic, pair, dict.fromkeys(names, fmt), enable_fp_fusion=False
            )
        )
        names = ("min", "max", "nan", "clamp", "all")
        made.append(elementwise(f"extrema_{fmt}", _extrema, pair, dict.fromkeys(names, fmt)))
        made.append(elementwise(f"compare_{fmt}", _compare, pair, {"flags": "i8", "where": fmt}))
        for fusion in ("off", "on"):
            tail, on = f"{fmt}-fusion={fusion}", fusion == "on"
            triple = {"x": x, "y": x, "z": x}
            made.append(
                elementwise(
                    f"three_{tail}", _three, triple, {"fma": fmt, "mad": fmt}, enable_fp_fusion=on
                )
            )
            made.append(
                elementwise(
                    f"polynomial_{tail}",
                    _polynomial,
                    {"x": moderate((N,), fmt, -4, 3)},
                    {"horner": fmt, "mixed": fmt},
                    enable_fp_fusion=on,
                )
            )
    x = patterns((N,), "f32")
    divide = dict.fromkeys(("div", "rn", "inverse", "third"), "f32")
    for fusion in ("off", "on"):
        made.append(
            elementwise(
                f"exponentials_f32-fusion={fusion}",
                _exponentials,
                {"x": moderate((N,), "f32", -10, 7)},
                dict.fromkeys(("exp", "exp2", "sigmoid", "silu"), "f32"),
                enable_fp_fusion=fusion == "on",
            )
        )
        made.append(
            elementwise(
                f"logarithms_f32-fusion={fusion}",
                _logarithms,
                {"x": x},
                {"log": "f32", "log2": "f32"},
                enable_fp_fusion=fusion == "on",
            )
        )
        made.append(
            elementwise(
                f"circular_f32-fusion={fusion}",
                _circular,
                {"x": moderate((N,), "f32", -10, 20)},
                {"sin": "f32", "cos": "f32"},
                enable_fp_fusion=fusion == "on",
            )
        )
        made.append(
            elementwise(
                f"mixed_formats-fusion={fusion}",
                _mixed,
                {
                    "x": moderate((N,), "bf16"),
                    "y": moderate((N,), "f16"),
                    "z": moderate((N,), "f32"),
                },
                {"out": "f32"},
                enable_fp_fusion=fusion == "on",
            )
        )
        made.append(
            elementwise(
                f"erf_f32-fusion={fusion}",
                _erf,
                {"x": moderate((N,), "f32", -9, 3)},
                {"erf": "f32", "gelu": "f32"},
                enable_fp_fusion=fusion == "on",
            )
        )
    wide = patterns((N,), "f64")
    made += [
        elementwise("divide_f32", _divide_f32, {"x": x, "y": x}, divide, enable_fp_fusion=False),
        elementwise("divide_f32_moderate", _divide_f32,
                    {"x": moderate((N,), "f32"), "y": moderate((N,), "f32")}, divide,
                    enable_fp_fusion=False),
        elementwise("divide_by_constant-fusion=off", _divide_by_constant, {"x": x}, {"out": "f32"},
                    enable_fp_fusion=False),
        elementwise("divide_by_constant-fusion=on", _divide_by_constant, {"x": x}, {"out": "f32"}),
        elementwise("roots_f32", _roots_f32, {"x": x},
                    dict.fromkeys(("sqrt", "rn", "rsqrt"), "f32")),
        elementwise("exponentials_f32_any", _exponentials, {"x": x},
                    dict.fromkeys(("exp", "exp2", "sigmoid", "silu"), "f32"),
                    enable_fp_fusion=False),
        elementwise("f64_division_and_root", _f64, {"x": wide, "y": wide},
                    dict.fromkeys(("div", "sqrt", "fma"), "f64"), enable_fp_fusion=False),
        elementwise("exp_f64", _exp_f64, {"x": moderate((N,), "f64", -12, 9)}, {"out": "f64"}),
    ]  # fmt: skip
    return made


PROGRAMS = _programs()
