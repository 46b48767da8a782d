"""Tensor descriptors: copies of boxes by the copy engine, products on them, warp specialization."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import integers, moderate, patterns
from ..program import Program, Tensors, empty


@triton.jit
def _matmul(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
            ACC: tl.constexpr, SPECIALIZE: tl.constexpr):  # fmt: skip
    top, left = tl.program_id(0) * M, tl.program_id(1) * N
    a = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [M, K])
    b = tl.make_tensor_descriptor(b_ptr, [n, k], [k, 1], [N, K])
    c = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [M, N])
    acc = tl.zeros((M, N), dtype=ACC)
    for start in tl.range(0, k, K, warp_specialize=SPECIALIZE):
        acc = tl.dot(a.load([top, start]), b.load([left, start]).T, acc, out_dtype=ACC)
    c.store([top, left], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def _given(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    top, left = tl.program_id(0) * M, tl.program_id(1) * N
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        acc = tl.dot(a.load([top, start]), b.load([start, left]), acc)
    c.store([top, left], acc.to(c.dtype))


@triton.jit
def _shifted(x_ptr, out_ptr, rows, columns, by, M: tl.constexpr, N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [M, N])
    out = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [M, N])
    top, left = tl.program_id(0) * M, tl.program_id(1) * N
    out.store([top, left], x.load([top - by, left + by]))


@triton.jit
def _cube(x_ptr, out_ptr, planes, rows, columns, A: tl.constexpr, B: tl.constexpr,
          C: tl.constexpr):  # fmt: skip
    x = tl.make_tensor_descriptor(x_ptr, [planes, rows, columns], [rows * columns, columns, 1],
                                  [A, B, C])  # fmt: skip
    out = tl.make_tensor_descriptor(out_ptr, [planes, rows, columns], [rows * columns, columns, 1],
                                    [A, B, C])  # fmt: skip
    i, j, k = tl.program_id(0) * A, tl.program_id(1) * B, tl.program_id(2) * C
    tile = x.load([i, j, k])
    out.store([i, j, k], tile * tile)


@triton.jit
def _attention(q_ptr, k_ptr, v_ptr, out_ptr, tokens, scale, D: tl.constexpr, M: tl.constexpr,
               N: tl.constexpr, SPECIALIZE: tl.constexpr):  # fmt: skip
    q_map = tl.make_tensor_descriptor(q_ptr, [tokens, D], [D, 1], [M, D])
    k_map = tl.make_tensor_descriptor(k_ptr, [tokens, D], [D, 1], [N, D])
    v_map = tl.make_tensor_descriptor(v_ptr, [tokens, D], [D, 1], [N, D])
    first = tl.program_id(0) * M
    q, rows = q_map.load([first, 0]), first + tl.arange(0, M)
    acc = tl.zeros((M, D), dtype=tl.float32)
    top, total = tl.full((M,), -1e20, tl.float32), tl.zeros((M,), tl.float32)
    for start in tl.range(0, tokens, N, warp_specialize=SPECIALIZE):
        s = tl.dot(q, k_map.load([start, 0]).T) * scale
        s = tl.where(start + tl.arange(0, N)[None, :] <= rows[:, None], s, -float("inf"))
        better = tl.maximum(top, tl.max(s, axis=1))
        shrink, p = tl.exp(top - better), tl.exp(s - better[:, None])
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p.to(q.dtype), v_map.load([start, 0]), acc * shrink[:, None])
        top = better
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptr + at, out, mask=rows[:, None] < tokens)


def _reserve(device: object) -> None:
    """Tensor maps that a kernel builds lie in memory that the launcher asks the host for."""
    import torch

    def allocate(size: int, alignment: int, stream: object) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device=device)

    triton.set_allocator(allocate)


def _product(
    dtype: str,
    size: tuple[int, int, int],
    tile: tuple[int, int, int],
    *,
    warps: int = 4,
    stages: int = 3,
    specialize: bool = False,
) -> Program:
    m, n, k = size
    whole = dtype == "i8"
    out = {"i8": "i32", "f32": "f32"}.get(dtype, "bf16")

    def launch(t: Tensors) -> None:
        _reserve(t["a"].device)
        grid = (triton.cdiv(m, tile[0]), triton.cdiv(n, tile[1]))
        _matmul[grid](t["a"], t["b"], t["c"], m, n, k, *tile, tl.int32 if whole else tl.float32,
                      specialize, num_warps=warps, num_stages=stages)  # fmt: skip

    inputs = {
        key: integers(shape, dtype, -128, 127) if whole else moderate(shape, dtype, -6, 4)
        for key, shape in (("a", (m, k)), ("b", (n, k)))
    }
    words = [f"tensor_map_dot_{dtype}", f"{m}x{n}x{k}", "tile=" + "x".join(map(str, tile))]
    words += [f"warps={warps}", f"stages={stages}"] + ["specialized"] * specialize
    return Program("-".join(words), launch, inputs, {"c": empty((m, n), out)})


def _from_host(warps: int, stages: int) -> Program:
    m, n, k = 96, 40, 136

    def launch(t: Tensors) -> None:
        from triton.tools.tensor_descriptor import TensorDescriptor

        a = TensorDescriptor.from_tensor(t["a"], [64, 64])
        b = TensorDescriptor.from_tensor(t["b"], [64, 32])
        c = TensorDescriptor.from_tensor(t["c"], [64, 32])
        _given[(2, 2)](a, b, c, k, 64, 32, 64, num_warps=warps, num_stages=stages)

    inputs = {"a": moderate((m, k), "bf16", -6, 4), "b": moderate((k, n), "bf16", -6, 4)}
    name = f"tensor_map_of_the_host-warps={warps}-stages={stages}"
    return Program(name, launch, inputs, {"c": empty((m, n), "bf16")})


def _copy(dtype: str, shape: tuple[int, int], tile: tuple[int, int], by: int) -> Program:
    def launch(t: Tensors) -> None:
        _reserve(t["x"].device)
        grid = (triton.cdiv(shape[0], tile[0]), triton.cdiv(shape[1], tile[1]))
        _shifted[grid](t["x"], t["out"], *shape, by, *tile)

    name = f"tensor_map_copy_{dtype}-{shape[0]}x{shape[1]}-tile={tile[0]}x{tile[1]}-by={by}"
    return Program(name, launch, {"x": patterns(shape, dtype)}, {"out": empty(shape, dtype)})


def _cubes() -> Program:
    def launch(t: Tensors) -> None:
        _reserve(t["x"].device)
        _cube[(2, 2, 2)](t["x"], t["out"], 5, 7, 24, 4, 4, 16)

    shape = (5, 7, 24)
    inputs = {"x": moderate(shape, "f32", -6, 4)}
    return Program("tensor_map_cube", launch, inputs, {"out": empty(shape, "f32")})


def _heads(warps: int, tile: tuple[int, int], specialize: bool) -> Program:
    tokens, d = 72, 64

    def launch(t: Tensors) -> None:
        _reserve(t["q"].device)
        _attention[(triton.cdiv(tokens, tile[0]),)](
            t["q"], t["k"], t["v"], t["out"], tokens, 0.125, d, *tile, specialize,
            num_warps=warps, num_stages=2, enable_fp_fusion=False)  # fmt: skip

    inputs = {key: moderate((tokens, d), "bf16", -4, 1) for key in "qkv"}
    name = f"tensor_map_attention-tile={tile[0]}x{tile[1]}-warps={warps}"
    name += "-specialized" * specialize
    return Program(name, launch, inputs, {"out": empty((tokens, d), "bf16")})


PROGRAMS = [
    _product("bf16", (70, 40, 136), (64, 32, 64)),
    _product("bf16", (70, 40, 136), (64, 64, 32), stages=1),
    _product("bf16", (130, 24, 72), (128, 32, 16), warps=8, stages=2),
    _product("bf16", (16, 48, 64), (16, 16, 32), warps=1),
    _product("f16", (64, 32, 96), (64, 32, 32)),
    _product("f32", (64, 20, 68), (64, 32, 32)),
    _product("e4m3fn", (64, 16, 144), (64, 16, 64)),
    _product("i8", (64, 16, 80), (64, 16, 32)),
    _product("bf16", (70, 40, 200), (64, 32, 64), specialize=True),
    _product("bf16", (130, 40, 128), (128, 64, 32), stages=2, specialize=True),
    _from_host(4, 3), _from_host(8, 1),
    _copy("bf16", (20, 72), (16, 64), 0), _copy("f16", (10, 24), (4, 16), 8),
    _copy("i64", (6, 10), (4, 4), 2),
    _cubes(),
    _heads(4, (64, 32), False), _heads(4, (64, 64), True),
]  # fmt: skip
