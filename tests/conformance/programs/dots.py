"""Matrix products: every operand type, tile shapes, transposed operands, epilogues, attention."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import Draw, integers, moderate, patterns
from ..program import Program, Tensors, empty


@triton.jit
def _dot(a_ptr, b_ptr, c_ptr, m, n, k, stride_am, stride_ak, stride_bk, stride_bn,
         M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr,
         PRECISION: tl.constexpr, PARTIAL: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=ACC)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak,
                    mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0)  # fmt: skip
        b = tl.load(b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn,
                    mask=(inner[:, None] < k) & (columns[None, :] < n), other=0.0)  # fmt: skip
        acc = tl.dot(a, b, acc, input_precision=PRECISION, max_num_imprecise_acc=PARTIAL,
                     out_dtype=ACC)  # fmt: skip
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c, mask=inside)


@triton.jit
def _epilogue(a_ptr, b_ptr, bias_ptr, residual_ptr, c_ptr, k, M: tl.constexpr, N: tl.constexpr,
              K: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows * k + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * N + columns)
        acc = tl.dot(a, b, acc)
    y = acc + tl.load(bias_ptr + columns).to(tl.float32)
    y = y * tl.sigmoid(y) + tl.load(residual_ptr + rows * N + columns).to(tl.float32)
    tl.store(c_ptr + rows * N + columns, y.to(c_ptr.dtype.element_ty))


@triton.jit
def _partial(a_ptr, b_ptr, part_ptr, k, PARTS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             K: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    part = tl.program_id(0)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(part * (k // PARTS), (part + 1) * (k // PARTS), K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows * k + inner[None, :])
        b = tl.load(b_ptr + inner[:, None] * N + columns)
        acc = tl.dot(a, b, acc)
    tl.store(part_ptr + (part * M + rows) * N + columns, acc)


@triton.jit
def _add_parts(part_ptr, c_ptr, PARTS: tl.constexpr, SIZE: tl.constexpr):
    lanes = tl.arange(0, SIZE)
    total = tl.load(part_ptr + lanes)
    for part in tl.static_range(1, PARTS):
        total += tl.load(part_ptr + part * SIZE + lanes)
    tl.store(c_ptr + lanes, total.to(c_ptr.dtype.element_ty))


@triton.jit
def _grouped(x_ptr, w_ptr, starts_ptr, c_ptr, k, M: tl.constexpr, N: tl.constexpr,
             K: tl.constexpr):  # fmt: skip
    expert = tl.program_id(0)
    first, last = tl.load(starts_ptr + expert), tl.load(starts_ptr + expert + 1)
    columns = tl.arange(0, N)[None, :]
    for top in range(first, last, M):
        rows = top + tl.arange(0, M)[:, None]
        acc = tl.zeros((M, N), dtype=tl.float32)
        for start in range(0, k, K):
            inner = start + tl.arange(0, K)
            x = tl.load(x_ptr + rows * k + inner[None, :], mask=rows < last, other=0.0)
            w = tl.load(w_ptr + (expert * k + inner[:, None]) * N + columns)
            acc = tl.dot(x, w, acc)
        tl.store(c_ptr + rows * N + columns, acc.to(c_ptr.dtype.element_ty), mask=rows < last)


@triton.jit
def _dequantized(x_ptr, w_ptr, scale_ptr, c_ptr, k, M: tl.constexpr, N: tl.constexpr,
                 K: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((N, M), dtype=tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        x = tl.load(x_ptr + rows * k + inner[None, :])
        w = tl.load(w_ptr + tl.trans(columns) * k + inner[None, :]).to(tl.bfloat16)
        acc = tl.dot(w, tl.trans(x), acc)
    scale = tl.load(scale_ptr + tl.trans(columns))
    tl.store(c_ptr + rows * N + columns, tl.trans(acc * scale).to(c_ptr.dtype.element_ty))


@triton.jit
def _chained(a_ptr, b_ptr, d_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
    d = tl.load(d_ptr + columns[:, None] * K + inner[None, :])
    c = tl.dot(tl.dot(a, b).to(a.dtype), d)
    tl.store(c_ptr + rows[:, None] * K + inner[None, :], c)


@triton.jit
def _batched(a_ptr, b_ptr, c_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             K: tl.constexpr):  # fmt: skip
    batch = tl.arange(0, B)[:, None, None]
    rows, columns = tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, None, :]
    a = tl.load(a_ptr + (batch * M + rows) * K + tl.arange(0, K)[None, None, :])
    b = tl.load(b_ptr + (batch * K + tl.arange(0, K)[None, :, None]) * N + columns)
    tl.store(c_ptr + (batch * M + rows) * N + columns, tl.dot(a, b))


@triton.jit
def _attention(q_ptr, k_ptr, v_ptr, sink_ptr, out_ptr, tokens, window, scale, HEADS: tl.constexpr,
               D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    head = tl.program_id(1)
    rows, inner = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    at = (rows[:, None] * HEADS + head) * D + inner[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < tokens, other=0.0)
    acc = tl.zeros((M, D), dtype=tl.float32)
    top, total = tl.full((M,), -1e20, tl.float32), tl.zeros((M,), tl.float32)
    for start in range(0, tokens, N):
        keys = start + tl.arange(0, N)
        inside = keys < tokens
        k = tl.load(k_ptr + keys[None, :] * D + inner[:, None], mask=inside[None, :], other=0.0)
        near = (keys[None, :] <= rows[:, None]) & (keys[None, :] + window >= rows[:, None])
        s = tl.where(near & inside[None, :], tl.dot(q, k) * scale, -float("inf"))
        better = tl.maximum(top, tl.max(s, axis=1))
        shrink, p = tl.exp(top - better), tl.exp(s - better[:, None])
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + keys[:, None] * D + inner[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = better
    total += tl.exp(tl.load(sink_ptr + head) - top)
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at, out, mask=rows[:, None] < tokens)


def _operand(shape: tuple[int, int], dtype: str, specials: bool) -> Draw:
    if dtype == "i8":
        return integers(shape, "i8", -128, 127)
    return patterns(shape, dtype) if specials else moderate(shape, dtype, -6, 4)


def _accumulator(dtype: str, out: str) -> tl.dtype:
    if dtype == "i8":
        return tl.int32
    return tl.float16 if out == "f16" and dtype == "f16" else tl.float32


def _product(
    dtype: str,
    size: tuple[int, int, int],
    tile: tuple[int, int, int],
    *,
    warps: int = 4,
    stages: int = 3,
    layout: str = "nn",
    out: str = "f32",
    precision: str = "tf32",
    partial: int | None = None,
    specials: bool = False,
    removed_in: tuple[int, int] | None = None,
) -> Program:
    """One tiled product; `layout` says for a and b whether they are stored transposed ("t")."""
    (m, n, k), (tile_m, tile_n, tile_k) = size, tile
    of_a = (k, 1) if layout[0] == "n" else (1, m)
    of_b = (n, 1) if layout[1] == "n" else (1, k)
    acc = _accumulator(dtype, out)
    out = "i32" if dtype == "i8" else out

    def launch(t: Tensors) -> None:
        grid = (triton.cdiv(m, tile_m), triton.cdiv(n, tile_n))
        _dot[grid](t["a"], t["b"], t["c"], m, n, k, *of_a, *of_b, tile_m, tile_n, tile_k, acc,
                   precision, partial, num_warps=warps, num_stages=stages)  # fmt: skip

    inputs = {
        "a": _operand((m, k) if layout[0] == "n" else (k, m), dtype, specials),
        "b": _operand((k, n) if layout[1] == "n" else (n, k), dtype, specials),
    }
    words = [f"dot_{dtype}", f"{m}x{n}x{k}", f"tile={tile_m}x{tile_n}x{tile_k}", f"warps={warps}"]
    words += [f"stages={stages}"] * (stages != 3) + [layout] * (layout != "nn")
    words += [precision] * (precision != "tf32") + [f"partial={partial}"] * (partial is not None)
    words += ["specials"] * specials + [out] * (out not in ("f32", "i32"))
    return Program("-".join(words), launch, inputs, {"c": empty((m, n), out)}, "", removed_in)


def _with_epilogue(warps: int, fusion: bool) -> Program:
    def launch(t: Tensors) -> None:
        _epilogue[(1,)](t["a"], t["b"], t["bias"], t["residual"], t["c"], 128, 64, 64, 64,
                        num_warps=warps, enable_fp_fusion=fusion)  # fmt: skip

    inputs = {"a": moderate((64, 128), "bf16", -4, 1), "b": moderate((128, 64), "bf16", -4, 1),
              "bias": moderate((64,), "bf16", -4, 2),
              "residual": moderate((64, 64), "bf16", -4, 4)}  # fmt: skip
    name = f"matmul_epilogue-warps={warps}-fusion={'on' if fusion else 'off'}"
    return Program(name, launch, inputs, {"c": empty((64, 64), "bf16")})


def _split_k(parts: int) -> Program:
    def launch(t: Tensors) -> None:
        _partial[(parts,)](t["a"], t["b"], t["part"], 512, parts, 16, 64, 64)
        _add_parts[(1,)](t["part"], t["c"], parts, 16 * 64)

    inputs = {"a": moderate((16, 512), "bf16", -6, 4), "b": moderate((512, 64), "bf16", -6, 4)}
    outputs = {"part": empty((parts, 16, 64), "f32"), "c": empty((16, 64), "bf16")}
    return Program(f"split_k-parts={parts}", launch, inputs, outputs)


def _experts(counts: tuple[int, ...], tile: int, warps: int) -> Program:
    tokens = sum(counts)
    edges = [sum(counts[:i]) for i in range(len(counts) + 1)]

    def launch(t: Tensors) -> None:
        import torch

        starts = torch.tensor(edges, dtype=torch.int32, device=t["x"].device)
        _grouped[(len(counts),)](t["x"], t["w"], starts, t["c"], 96, tile, 32, 32,
                                 num_warps=warps)  # fmt: skip

    inputs = {"x": moderate((tokens, 96), "bf16", -6, 4),
              "w": moderate((len(counts), 96, 32), "bf16", -6, 4)}  # fmt: skip
    name = f"grouped_matmul-experts={len(counts)}-tile={tile}-warps={warps}"
    return Program(name, launch, inputs, {"c": empty((tokens, 32), "bf16")})


def _int8_weights(warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _dequantized[(1,)](t["x"], t["w"], t["scale"], t["c"], 128, 16, 64, 64, num_warps=warps)

    inputs = {"x": moderate((16, 128), "bf16", -4, 4), "w": integers((64, 128), "i8", -127, 127),
              "scale": moderate((64,), "f32", -8, -4)}  # fmt: skip
    return Program(f"int8_weights-warps={warps}", launch, inputs, {"c": empty((16, 64), "bf16")})


def _two_products(dtype: str, m: int, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _chained[(1,)](t["a"], t["b"], t["d"], t["c"], m, 64, 32, num_warps=warps)

    inputs = {"a": moderate((m, 32), dtype, -4, 1), "b": moderate((32, 64), dtype, -4, 1),
              "d": moderate((64, 32), dtype, -4, 1)}  # fmt: skip
    name = f"chained_dots_{dtype}-m={m}-warps={warps}"
    return Program(name, launch, inputs, {"c": empty((m, 32), "f32")})


def _batch(dtype: str, warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _batched[(1,)](t["a"], t["b"], t["c"], 4, 16, 16, 32, num_warps=warps)

    inputs = {"a": moderate((4, 16, 32), dtype, -6, 4), "b": moderate((4, 32, 16), dtype, -6, 4)}
    name = f"batched_dot_{dtype}-warps={warps}"
    return Program(name, launch, inputs, {"c": empty((4, 16, 16), "f32")})


def _heads(dtype: str, tile: tuple[int, int], d: int, warps: int, window: int) -> Program:
    tokens, heads = 100, 2

    def launch(t: Tensors) -> None:
        _attention[(triton.cdiv(tokens, tile[0]), heads)](
            t["q"], t["k"], t["v"], t["sink"], t["out"], tokens, window, 0.125, heads, d, *tile,
            num_warps=warps, num_stages=2, enable_fp_fusion=False)  # fmt: skip

    inputs = {"q": moderate((tokens, heads, d), dtype, -4, 1), "k": moderate((tokens, d), dtype,
              -4, 1), "v": moderate((tokens, d), dtype, -4, 1),
              "sink": moderate((heads,), "f32", -2, 1)}  # fmt: skip
    name = f"attention_{dtype}-tile={tile[0]}x{tile[1]}-d={d}-warps={warps}-window={window}"
    return Program(name, launch, inputs, {"out": empty((tokens, heads, d), dtype)})


PROGRAMS = [
    *(_product("bf16", (64, 64, 160), (64, 64, 64), warps=4, layout=layout)
      for layout in ("nn", "nt", "tn", "tt")),
    _product("bf16", (16, 16, 96), (16, 16, 32), warps=1),
    _product("bf16", (33, 40, 100), (32, 32, 32), warps=2),
    _product("bf16", (128, 48, 64), (128, 64, 32), warps=8, stages=1),
    _product("bf16", (17, 256, 48), (64, 256, 16), warps=4, out="bf16"),
    _product("bf16", (64, 16, 64), (64, 16, 64), warps=4, specials=True),
    _product("bf16", (16, 16, 16), (16, 16, 16), warps=1, specials=True),
    *(_product("f16", (64, 32, 128), (64, 32, 64), warps=4, layout=layout)
      for layout in ("nn", "tt")),
    _product("f16", (32, 16, 64), (32, 16, 64), warps=2),
    _product("f16", (64, 16, 64), (64, 16, 64), warps=4, specials=True),
    _product("f16", (64, 32, 64), (64, 32, 32), warps=4, out="f16"),
    _product("f16", (16, 32, 64), (16, 32, 32), warps=2, out="f16"),
    *(_product("f32", (64, 32, 96), (64, 32, 32), warps=4, layout=layout)
      for layout in ("nn", "nt", "tn")),
    _product("f32", (16, 16, 40), (16, 16, 16), warps=1),
    _product("f32", (64, 16, 32), (64, 16, 32), warps=4, specials=True),
    _product("f32", (16, 16, 16), (16, 16, 16), warps=1, specials=True),
    _product("f32", (16, 16, 64), (16, 16, 32), warps=4, precision="ieee"),
    _product("f32", (64, 32, 64), (64, 32, 32), warps=4, precision="tf32x3"),
    *(_product(dtype, (64, 32, 128), (64, 32, 64), warps=4, layout=layout)
      for dtype in ("e4m3fn", "e5m2") for layout in ("nn", "nt")),
    *(_product(dtype, (16, 32, 96), (16, 32, 32), warps=4) for dtype in ("e4m3fn", "e5m2")),
    _product("e4m3fn", (64, 16, 256), (64, 16, 128), warps=4, partial=64),
    _product("e4m3fn", (64, 16, 64), (64, 16, 64), warps=4, specials=True),
    _product("e5m2", (64, 16, 64), (64, 16, 64), warps=4, specials=True),
    *(_product("i8", (64, 32, 128), (64, 32, 64), warps=4, layout=layout)
      for layout in ("nn", "nt")),
    _product("i8", (16, 16, 80), (16, 16, 32), warps=1),
    *(_with_epilogue(warps, fusion) for warps, fusion in ((4, True), (8, False), (1, True))),
    _split_k(2), _split_k(4),
    _experts((5, 0, 17, 10), 16, 4), _experts((70, 3), 64, 4),
    _int8_weights(4), _int8_weights(2),
    _two_products("bf16", 64, 4), _two_products("bf16", 16, 2), _two_products("f16", 64, 4),
    _two_products("f32", 64, 4),
    _batch("bf16", 4), _batch("f32", 2),
    _heads("bf16", (64, 32), 64, 4, 1000), _heads("bf16", (128, 64), 32, 8, 40),
    _heads("f16", (64, 64), 32, 4, 1000), _heads("bf16", (16, 32), 32, 1, 24),
]  # fmt: skip
