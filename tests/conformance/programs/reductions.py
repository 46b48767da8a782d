"""Reductions and scans along each axis, at 1, 2, 4 and 8 warps.

Within a thread Triton 3.6 and 3.7 add sequentially, 3.9 in pairs: float sums and products are
recorded with 3.6, so under 3.9 those programs may differ where the axis lies within a thread.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import FLOATS, integers, moderate, patterns
from ..program import Program, Tensors, empty

ROWS, COLUMNS = 32, 128


@triton.jit
def _reduce(x_ptr, sum_ptr, max_ptr, min_ptr, argmax_ptr, argmin_ptr,
            M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):  # fmt: skip
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    kept = tl.arange(0, M if AXIS == 1 else N)
    tl.store(sum_ptr + kept, tl.sum(x, axis=AXIS))
    tl.store(max_ptr + kept, tl.max(x, axis=AXIS))
    tl.store(min_ptr + kept, tl.min(x, axis=AXIS))
    tl.store(argmax_ptr + kept, tl.argmax(x, axis=AXIS))
    tl.store(argmin_ptr + kept, tl.argmin(x, axis=AXIS))


@triton.jit
def _extrema(x_ptr, max_ptr, min_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    kept = tl.arange(0, M if AXIS == 1 else N)
    tl.store(max_ptr + kept, tl.max(x, axis=AXIS))
    tl.store(min_ptr + kept, tl.min(x, axis=AXIS))


@triton.jit
def _reduce_all(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def _reduce_cube(
    x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr
):
    a = tl.arange(0, A)[:, None, None] * (B * C)
    x = tl.load(x_ptr + a + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :])
    y = tl.sum(x, axis=AXIS, keep_dims=True)
    tl.store(
        out_ptr + a + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :], x - y
    )


@triton.jit
def _bitwise(x_ptr, xor_ptr, or_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    kept = tl.arange(0, M if AXIS == 1 else N)
    tl.store(xor_ptr + kept, tl.xor_sum(x, axis=AXIS))
    tl.store(or_ptr + kept, tl.reduce_or(x & 0x11111, axis=AXIS))


@triton.jit
def _welford_combine(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, tl.div_rn(count_b, count))
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def _symmetric_combine(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    inverse = tl.where(count == 0.0, 0.0, tl.div_rn(1.0, count))
    delta = mean_b - mean_a
    mean = (mean_a * count_a + mean_b * count_b) * inverse
    return mean, m2_a + m2_b + delta * delta * (count_a * count_b * inverse), count


@triton.jit
def _welford(x_ptr, mean_ptr, m2_ptr, columns, M: tl.constexpr, N: tl.constexpr,
             SYMMETRIC: tl.constexpr):  # fmt: skip
    lanes = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + lanes, mask=lanes < columns, other=0.0)
    count = tl.where(lanes < columns, 1.0, 0.0) + tl.zeros_like(x)
    parts = (x, tl.zeros_like(x), count)
    if SYMMETRIC:
        mean, m2, _ = tl.reduce(parts, 1, _symmetric_combine)
    else:
        mean, m2, _ = tl.reduce(parts, 1, _welford_combine)
    tl.store(mean_ptr + tl.arange(0, M), mean)
    tl.store(m2_ptr + tl.arange(0, M), m2)


@triton.jit
def _accumulate(x_ptr, sum_ptr, product_ptr, M: tl.constexpr, N: tl.constexpr,
                AXIS: tl.constexpr, REVERSE: tl.constexpr):  # fmt: skip
    tile = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + tile)
    tl.store(sum_ptr + tile, tl.cumsum(x, axis=AXIS, reverse=REVERSE))
    tl.store(product_ptr + tile, tl.cumprod(x, axis=AXIS, reverse=REVERSE))


@triton.jit
def _maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def _running_maximum(x_ptr, out_ptr, N: tl.constexpr, REVERSE: tl.constexpr):
    row = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + row)
    tl.store(out_ptr + row, tl.associative_scan(x, 0, _maximum, reverse=REVERSE))


@triton.jit
def _recurrence_combine(a_left, b_left, a_right, b_right):
    return a_left * a_right, tl.fma(a_right, b_left, b_right)


@triton.jit
def _recurrence(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    tile = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tl.load(a_ptr + tile), tl.load(b_ptr + tile)
    _, y = tl.associative_scan((a, b), 1, _recurrence_combine)
    tl.store(out_ptr + tile, y)


def _tile(dtype: str, axis: int, warps: int) -> Program:
    shape, kept = (ROWS, COLUMNS), ROWS if axis == 1 else COLUMNS
    x = moderate(shape, dtype, -8, 4) if dtype in FLOATS else patterns(shape, dtype)
    total = {"bf16": "f32", "f16": "f32"}.get(dtype, dtype)
    outputs = {"sum": empty(kept, total), "max": empty(kept, dtype), "min": empty(kept, dtype),
               "argmax": empty(kept, "i32"), "argmin": empty(kept, "i32")}  # fmt: skip

    def launch(t: Tensors) -> None:
        _reduce[(1,)](t["x"], *(t[key] for key in outputs), M=ROWS, N=COLUMNS, AXIS=axis,
                      num_warps=warps, enable_fp_fusion=False)  # fmt: skip

    return Program(f"reduce_{dtype}-axis={axis}-warps={warps}", launch, {"x": x}, outputs)


def _specials(dtype: str, axis: int, warps: int) -> Program:
    kept = ROWS if axis == 1 else COLUMNS

    def launch(t: Tensors) -> None:
        _extrema[(1,)](t["x"], t["max"], t["min"], ROWS, COLUMNS, axis, num_warps=warps)

    outputs = {"max": empty(kept, dtype), "min": empty(kept, dtype)}
    x = patterns((ROWS, COLUMNS), dtype)
    return Program(f"extrema_any_{dtype}-axis={axis}-warps={warps}", launch, {"x": x}, outputs)


def _argument_of_nan() -> Program:
    """Which of two NaNs wins depends on the side, so lanes that hold one row disagree."""
    usual = _tile("f32", 1, 4)
    x = {"x": patterns((ROWS, COLUMNS), "f32")}
    return Program("refused_argmax_of_nan", usual.launch, x, usual.outputs, "shared-memory race")


def _bits(axis: int, warps: int) -> Program:
    kept = ROWS if axis == 1 else COLUMNS

    def launch(t: Tensors) -> None:
        _bitwise[(1,)](t["x"], t["xor"], t["or"], ROWS, COLUMNS, axis, num_warps=warps)

    outputs = {"xor": empty(kept, "i32"), "or": empty(kept, "i32")}
    x = patterns((ROWS, COLUMNS), "i32")
    return Program(f"reduce_bitwise-axis={axis}-warps={warps}", launch, {"x": x}, outputs)


def _row(n: int, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _reduce_all[(16,)](t["x"], t["out"], n, num_warps=warps, enable_fp_fusion=False)

    name = f"sum_row_f32-n={n}-warps={warps}"
    return Program(name, launch, {"x": moderate((16, n), "f32")}, {"out": empty(16, "f32")})


def _cube(axis: int, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _reduce_cube[(1,)](t["x"], t["out"], 4, 16, 32, axis, num_warps=warps,
                           enable_fp_fusion=False)  # fmt: skip

    x, out = moderate((4, 16, 32), "f32"), empty((4, 16, 32), "f32")
    return Program(f"sum_cube_f32-axis={axis}-warps={warps}", launch, {"x": x}, {"out": out})


def _variance(columns: int, warps: int, fusion: bool, *, symmetric: bool) -> Program:
    def launch(t: Tensors) -> None:
        _welford[(1,)](t["x"], t["mean"], t["m2"], columns, 16, 64, symmetric, num_warps=warps,
                       enable_fp_fusion=fusion)  # fmt: skip

    kind = "welford_symmetric" if symmetric else "refused_welford"
    name = f"{kind}-columns={columns}-warps={warps}-fusion={'on' if fusion else 'off'}"
    outputs = {"mean": empty(16, "f32"), "m2": empty(16, "f32")}
    # The usual combine is not commutative, bit by bit: lanes that hold one row get different
    # results and then write them to one shared address.
    refused = "" if symmetric else "shared-memory race"
    return Program(name, launch, {"x": moderate((16, 64), "f32", -3, 3)}, outputs, refused)


def _highest_so_far(dtype: str, n: int, warps: int, reverse: bool) -> Program:
    def launch(t: Tensors) -> None:
        _running_maximum[(2,)](t["x"], t["out"], n, reverse, num_warps=warps)

    x = patterns((2, n), dtype)
    name = f"scan_maximum_{dtype}-n={n}-warps={warps}-reverse={reverse}"
    return Program(name, launch, {"x": x}, {"out": empty((2, n), dtype)})


def _scan(dtype: str, axis: int, warps: int, reverse: bool) -> Program:
    def launch(t: Tensors) -> None:
        _accumulate[(1,)](t["x"], t["sum"], t["product"], 16, 64, axis, reverse,
                          num_warps=warps, enable_fp_fusion=False)  # fmt: skip

    x = moderate((16, 64), dtype, -1, 0) if dtype == "f32" else integers((16, 64), dtype, -9, 9)
    outputs = {"sum": empty((16, 64), dtype), "product": empty((16, 64), dtype)}
    name = f"scan_{dtype}-axis={axis}-warps={warps}-reverse={reverse}"
    return Program(name, launch, {"x": x}, outputs)


def _linear_recurrence(warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _recurrence[(1,)](t["a"], t["b"], t["out"], 8, 128, num_warps=warps, enable_fp_fusion=False)

    inputs = {"a": moderate((8, 128), "f32", -1, 0), "b": moderate((8, 128), "f32")}
    return Program(
        f"scan_recurrence-warps={warps}", launch, inputs, {"out": empty((8, 128), "f32")}
    )


PROGRAMS = [
    *(_tile("f32", axis, warps) for axis in (0, 1) for warps in (1, 2, 4, 8, 16)),
    *(_tile(dtype, axis, 4) for dtype in ("f64", "f16", "bf16", "i32", "i64", "i8", "u8", "u32")
      for axis in (0, 1)),
    *(_specials(dtype, axis, warps) for dtype in ("f32", "f16") for axis in (0, 1)
      for warps in (2, 4)),
    _argument_of_nan(),
    *(_bits(axis, warps) for axis in (0, 1) for warps in (1, 2, 4, 8)),
    *(_row(n, warps) for n, warps in ((64, 1), (256, 2), (1024, 4), (2048, 4), (2048, 8), (32, 8))),
    *(_cube(axis, warps) for axis in (0, 1, 2) for warps in (1, 4)),
    *(_variance(columns, warps, False, symmetric=True) for columns in (50, 64)
      for warps in (1, 2, 4, 8)),
    *(_variance(50, 4, fusion, symmetric=False) for fusion in (False, True)),
    *(_scan("f32", axis, warps, False) for axis in (0, 1) for warps in (1, 4)),
    *(_scan("i32", axis, 4, True) for axis in (0, 1)),
    *(_highest_so_far(dtype, 512, warps, reverse) for dtype, warps, reverse in
      (("f32", 4, False), ("i32", 8, False), ("f16", 2, True))),
    *(_linear_recurrence(warps) for warps in (1, 4)),
]  # fmt: skip
