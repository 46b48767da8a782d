"""Tiles moved around: transposes, reshapes, gathers, sorts, histograms, strides, block pointers."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import integers, moderate, patterns
from ..program import Program, Tensors, empty


@triton.jit
def _transpose(x_ptr, out_ptr, M, N, stride_xm, stride_xn, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    x = tl.load(x_ptr + rows[:, None] * stride_xm + columns[None, :] * stride_xn, mask=inside)
    tl.store(out_ptr + columns[:, None] * M + rows[None, :], tl.trans(x), mask=tl.trans(inside))


@triton.jit
def _rearrange(x_ptr, permuted_ptr, reshaped_ptr, flipped_ptr, A: tl.constexpr, B: tl.constexpr,
               C: tl.constexpr):  # fmt: skip
    a = tl.arange(0, A)[:, None, None] * (B * C)
    x = tl.load(x_ptr + a + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :])
    c = tl.arange(0, C)[:, None, None] * (A * B)
    permuted = c + tl.arange(0, A)[None, :, None] * B + tl.arange(0, B)[None, None, :]
    tl.store(permuted_ptr + permuted, tl.permute(x, (2, 0, 1)))
    flat = tl.arange(0, B)[:, None] * (A * C) + tl.arange(0, A * C)[None, :]
    tl.store(reshaped_ptr + flat, tl.reshape(x, (B, A * C)))
    tl.store(flipped_ptr + tl.arange(0, A * B * C), tl.flip(tl.ravel(x), 0))


@triton.jit
def _join_split(x_ptr, y_ptr, joined_ptr, sum_ptr, both_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    tl.store(joined_ptr + tl.arange(0, 2 * N), tl.interleave(x, y))
    even, odd = tl.split(tl.reshape(x, (N // 2, 2)))
    tl.store(sum_ptr + tl.arange(0, N // 2), even - odd)
    tl.store(both_ptr + lanes[:, None] * 2 + tl.arange(0, 2)[None, :], tl.join(y, x))


@triton.jit
def _gather(x_ptr, index_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    tile = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x, index = tl.load(x_ptr + tile), tl.load(index_ptr + tile)
    tl.store(out_ptr + tile, tl.gather(x, index, AXIS))


@triton.jit
def _sort(x_ptr, up_ptr, down_ptr, top_ptr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    tile = rows * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + tile)
    tl.store(up_ptr + tile, tl.sort(x))
    tl.store(down_ptr + tile, tl.sort(x, descending=True))
    tl.store(top_ptr + rows * 8 + tl.arange(0, 8)[None, :], tl.topk(x, 8))


@triton.jit
def _histogram(x_ptr, out_ptr, n, N: tl.constexpr, BINS: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0)
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=lanes < n))


@triton.jit
def _strided(x_ptr, out_ptr, stride_xm, stride_xn, stride_om, stride_on,
             M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    inside = ((rows + columns) % 3 != 0) & (columns < N - 3)
    x = tl.load(x_ptr + rows * stride_xm + columns * stride_xn, mask=inside, other=-1.5)
    tl.store(out_ptr + rows * stride_om + columns * stride_on, x * 2.0, mask=rows < M - 1)


@triton.jit
def _blocks(x_ptr, out_ptr, M, N, stride_xm, BM: tl.constexpr, BN: tl.constexpr):
    x_block = tl.make_block_ptr(x_ptr, (M, N), (stride_xm, 1), (tl.program_id(0) * BM, 0),
                                (BM, BN), (1, 0))  # fmt: skip
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, N, BN):
        total += tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        x_block = tl.advance(x_block, (0, BN))
    out_block = tl.make_block_ptr(out_ptr, (M, BN), (BN, 1), (tl.program_id(0) * BM, 0),
                                  (BM, BN), (1, 0))  # fmt: skip
    tl.store(out_block, total, boundary_check=(0,))


@triton.jit
def _outer(
    x_ptr, y_ptr, out_ptr, stride_0, stride_1, N: tl.constexpr, M: tl.constexpr, K: tl.constexpr
):
    n, m, k = tl.arange(0, N), tl.arange(0, M), tl.arange(0, K)
    x, y = tl.load(x_ptr + n), tl.load(y_ptr + m)
    cube = x[:, None, None] * y[None, :, None] - k[None, None, :].to(tl.float32)
    where = n[:, None, None] * stride_0 + m[None, :, None] * stride_1 + k[None, None, :]
    tl.store(out_ptr + where, cube, mask=k[None, None, :] < K - 1)


def _transposed(dtype: str, m: int, n: int, warps: int, view: bool) -> Program:
    def launch(t: Tensors) -> None:
        x = t["x"][:, 1::2] if view else t["x"]
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
        _transpose[grid](x, t["out"], m, n, x.stride(0), x.stride(1), BLOCK=32, num_warps=warps)

    x = patterns((m, 2 * n if view else n), dtype)
    name = f"transpose_{dtype}-shape={m}x{n}-warps={warps}{'-view' if view else ''}"
    return Program(name, launch, {"x": x}, {"out": empty((n, m), dtype)})


def _rearranged(dtype: str, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _rearrange[(1,)](
            t["x"], t["permuted"], t["reshaped"], t["flipped"], 4, 8, 16, num_warps=warps
        )

    outputs = {key: empty(512, dtype) for key in ("permuted", "reshaped", "flipped")}
    return Program(
        f"rearrange_{dtype}-warps={warps}", launch, {"x": patterns((4, 8, 16), dtype)}, outputs
    )


def _joined(dtype: str) -> Program:
    def launch(t: Tensors) -> None:
        _join_split[(1,)](t["x"], t["y"], t["joined"], t["sum"], t["both"], 256)

    outputs = {"joined": empty(512, dtype), "sum": empty(128, dtype), "both": empty(512, dtype)}
    inputs = {"x": patterns((256,), dtype), "y": patterns((256,), dtype)}
    return Program(f"join_split_{dtype}", launch, inputs, outputs)


def _gathered(dtype: str, axis: int, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _gather[(1,)](t["x"], t["index"], t["out"], 16, 64, axis, num_warps=warps)

    index = integers((16, 64), "i32", 0, (16, 64)[axis] - 1)
    name = f"gather_{dtype}-axis={axis}-warps={warps}"
    outputs = {"out": empty((16, 64), dtype)}
    return Program(name, launch, {"x": patterns((16, 64), dtype), "index": index}, outputs)


def _sorted(dtype: str, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _sort[(1,)](t["x"], t["up"], t["down"], t["top"], 4, 64, num_warps=warps)

    x = moderate((4, 64), dtype) if dtype[0] == "f" else patterns((4, 64), dtype)
    outputs = {
        "up": empty((4, 64), dtype),
        "down": empty((4, 64), dtype),
        "top": empty((4, 8), dtype),
    }
    return Program(f"sort_{dtype}-warps={warps}", launch, {"x": x}, outputs)


def _counted(n: int, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _histogram[(1,)](t["x"], t["out"], n, 512, 64, num_warps=warps)

    x = integers((512,), "i32", 0, 63)
    return Program(f"histogram-n={n}-warps={warps}", launch, {"x": x}, {"out": empty(64, "i32")})


def _strides(dtype: str) -> Program:
    def launch(t: Tensors) -> None:
        x, out = t["x"][3:].t()[::2], t["out"].t()[1:]
        _strided[(1,)](x, out, *x.stride(), *out.stride(), 16, 32)

    inputs = {"x": moderate((35, 32), dtype)}
    return Program(f"strided_views_{dtype}", launch, inputs, {"out": empty((40, 17), dtype)})


def _block_pointers(m: int, n: int) -> Program:
    def launch(t: Tensors) -> None:
        x = t["x"]
        _blocks[(triton.cdiv(m, 16),)](
            x, t["out"], m, n, x.stride(0), 16, 32, enable_fp_fusion=False
        )

    inputs, outputs = {"x": moderate((m, n), "f32")}, {"out": empty((m, 32), "f32")}
    name = f"block_pointers-shape={m}x{n}"
    return Program(name, launch, inputs, outputs, removed_in=(3, 9))


def _outer_product(fusion: bool) -> Program:
    def launch(t: Tensors) -> None:
        out = t["out"]
        _outer[(1,)](t["x"], t["y"], out, out.stride(0), out.stride(1), 4, 16, 8,
                     enable_fp_fusion=fusion)  # fmt: skip

    inputs = {"x": moderate((4,), "f32"), "y": moderate((16,), "f32")}
    name = f"outer_product-fusion={'on' if fusion else 'off'}"
    return Program(name, launch, inputs, {"out": empty((4, 16, 8), "f32")})


PROGRAMS = [
    _transposed("f32", 33, 65, 4, False), _transposed("bf16", 64, 32, 8, False),
    _transposed("i8", 64, 64, 2, False), _transposed("f32", 31, 40, 4, True),
    _rearranged("f32", 4), _rearranged("i16", 1), _rearranged("i64", 8),
    _joined("f32"), _joined("bf16"), _joined("i8"),
    *(_gathered(dtype, axis, warps)
      for dtype, warps in (("f32", 4), ("i16", 1)) for axis in (0, 1)),
    _sorted("f32", 4), _sorted("i32", 1), _sorted("f16", 4), _sorted("i16", 8),
    _counted(512, 4), _counted(300, 2),
    _strides("f32"), _strides("f16"),
    _block_pointers(33, 100), _block_pointers(16, 64),
    _outer_product(False), _outer_product(True),
]  # fmt: skip
