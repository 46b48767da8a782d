"""Kernels of language models: norms, softmax, rotary embedding, gates, quantization."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import moderate
from ..program import Program, Tensors, empty


@triton.jit
def _rms_norm(x_ptr, weight_ptr, out_ptr, f32_ptr, n_cols, eps, N: tl.constexpr,
              COLUMNS: tl.constexpr):  # fmt: skip
    lanes = tl.arange(0, N)
    inside = lanes < n_cols
    row = tl.program_id(0) * n_cols
    x = tl.load(x_ptr + row + lanes, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + lanes, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x * x, axis=0) / COLUMNS
    y = x * tl.rsqrt(mean + eps) * weight
    tl.store(out_ptr + row + lanes, y.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(f32_ptr + row + lanes, y, mask=inside)


@triton.jit
def _rms_norm_runtime(x_ptr, out_ptr, n_cols, eps, N: tl.constexpr):
    lanes = tl.arange(0, N)
    row = tl.program_id(0) * n_cols
    x = tl.load(x_ptr + row + lanes, mask=lanes < n_cols, other=0.0)
    mean = tl.div_rn(tl.sum(x * x, axis=0), n_cols.to(tl.float32))
    tl.store(out_ptr + row + lanes, tl.div_rn(x, tl.sqrt_rn(mean + eps)), mask=lanes < n_cols)


@triton.jit
def _layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, n_cols, eps, N: tl.constexpr):
    lanes = tl.arange(0, N)
    inside = lanes < n_cols
    row = tl.program_id(0) * n_cols
    x = tl.load(x_ptr + row + lanes, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    weight = tl.load(weight_ptr + lanes, mask=inside)
    bias = tl.load(bias_ptr + lanes, mask=inside)
    y = centred * tl.rsqrt(variance + eps) * weight + bias
    tl.store(out_ptr + row + lanes, y, mask=inside)


@triton.jit
def _softmax(x_ptr, out_ptr, n_cols, N: tl.constexpr):
    lanes = tl.arange(0, N)
    row = tl.program_id(0) * n_cols
    x = tl.load(x_ptr + row + lanes, mask=lanes < n_cols, other=-float("inf"))
    p = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + lanes, p / tl.sum(p, axis=0), mask=lanes < n_cols)


@triton.jit
def _online_softmax(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n_cols
    top, total = tl.full((), -float("inf"), tl.float32), tl.zeros((), tl.float32)
    for start in range(0, n_cols, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + lanes, mask=lanes < n_cols, other=-float("inf"))
        better = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - better) + tl.sum(tl.exp(x - better), axis=0)
        top = better
    for start in range(0, n_cols, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + lanes, mask=lanes < n_cols)
        tl.store(out_ptr + row + lanes, tl.exp(x - top) / total, mask=lanes < n_cols)


@triton.jit
def _rope(x_ptr, cos_ptr, sin_ptr, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    head, lane = tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
    token = tl.program_id(0)
    cos = tl.load(cos_ptr + token * HALF + lane)
    sin = tl.load(sin_ptr + token * HALF + lane)
    at = (token * heads + head) * (2 * HALF) + lane
    first = tl.load(x_ptr + at, mask=head < heads).to(tl.float32)
    second = tl.load(x_ptr + at + HALF, mask=head < heads).to(tl.float32)
    tl.store(x_ptr + at, first * cos - second * sin, mask=head < heads)
    tl.store(x_ptr + at + HALF, second * cos + first * sin, mask=head < heads)


@triton.jit
def _gated(x_ptr, out_ptr, n_cols, limit, N: tl.constexpr):
    lanes = tl.arange(0, N)
    row = tl.program_id(0)
    gate = tl.load(x_ptr + row * 2 * n_cols + lanes, mask=lanes < n_cols).to(tl.float32)
    up = tl.load(x_ptr + (row * 2 + 1) * n_cols + lanes, mask=lanes < n_cols).to(tl.float32)
    gate = tl.minimum(gate, limit)
    up = tl.clamp(up, -limit, limit)
    y = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + row * n_cols + lanes, y.to(out_ptr.dtype.element_ty), mask=lanes < n_cols)


@triton.jit
def _quantize(x_ptr, out_ptr, scale_ptr, LIMIT: tl.constexpr, N: tl.constexpr):
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + lanes).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-10) / LIMIT
    y = tl.clamp(x / scale, -LIMIT, LIMIT)
    tl.store(out_ptr + lanes, y.to(out_ptr.dtype.element_ty))
    tl.store(scale_ptr + tl.program_id(0), scale)


def _tag(fusion: bool) -> str:
    return f"fusion={'on' if fusion else 'off'}"


def _rms(dtype: str, n: int, warps: int, fusion: bool) -> Program:
    block = triton.next_power_of_2(n)

    def launch(t: Tensors) -> None:
        _rms_norm[(4,)](t["x"], t["weight"], t["out"], t["f32"], n, 1e-5, N=block, COLUMNS=n,
                        num_warps=warps, enable_fp_fusion=fusion)  # fmt: skip

    inputs = {"x": moderate((4, n), dtype, -4, 4), "weight": moderate((n,), dtype, -1, 1)}
    outputs = {"out": empty((4, n), dtype), "f32": empty((4, n), "f32")}
    return Program(f"rms_norm_{dtype}-n={n}-warps={warps}-{_tag(fusion)}", launch, inputs, outputs)


def _rms_runtime(n: int) -> Program:
    def launch(t: Tensors) -> None:
        _rms_norm_runtime[(4,)](t["x"], t["out"], n, 1e-6, triton.next_power_of_2(n),
                                enable_fp_fusion=False)  # fmt: skip

    x = moderate((4, n), "f32", -4, 4)
    return Program(f"rms_norm_ieee-n={n}", launch, {"x": x}, {"out": empty((4, n), "f32")})


def _layer(n: int, fusion: bool) -> Program:
    def launch(t: Tensors) -> None:
        _layer_norm[(4,)](t["x"], t["weight"], t["bias"], t["out"], n, 1e-5,
                          triton.next_power_of_2(n), enable_fp_fusion=fusion)  # fmt: skip

    inputs = {"x": moderate((4, n), "f32", -4, 4), "weight": moderate((n,), "f32", -1, 1),
              "bias": moderate((n,), "f32", -3, 0)}  # fmt: skip
    # Two divisions by one run-time divisor: ptxas shares their reciprocal.
    refused = "div.full.f32" if fusion else ""
    outputs = {"out": empty((4, n), "f32")}
    return Program(f"layer_norm-n={n}-{_tag(fusion)}", launch, inputs, outputs, refused)


def _row_softmax(n: int, fusion: bool, online: bool) -> Program:
    def launch(t: Tensors) -> None:
        kernel, block = (_online_softmax, 64) if online else (_softmax, triton.next_power_of_2(n))
        kernel[(6,)](t["x"], t["out"], n, block, enable_fp_fusion=fusion)

    name = f"{'online_' if online else ''}softmax-n={n}-{_tag(fusion)}"
    return Program(
        name, launch, {"x": moderate((6, n), "f32", -6, 4)}, {"out": empty((6, n), "f32")}
    )


def _rotary(dtype: str, heads: int, fusion: bool) -> Program:
    def launch(t: Tensors) -> None:
        _rope[(5,)](t["x"], t["cos"], t["sin"], heads, 32, triton.next_power_of_2(heads),
                    enable_fp_fusion=fusion)  # fmt: skip

    inputs = {key: moderate((5, 32), "f32", -6, -1) for key in ("cos", "sin")}
    name = f"rope_{dtype}-heads={heads}-{_tag(fusion)}"
    return Program(name, launch, inputs, {"x": moderate((5, heads, 64), dtype)})


def _swiglu(dtype: str, fusion: bool) -> Program:
    def launch(t: Tensors) -> None:
        _gated[(4,)](t["x"], t["out"], 200, 7.0, 256, enable_fp_fusion=fusion)

    x = moderate((4, 2, 200), dtype, -6, 4)
    return Program(
        f"swiglu_{dtype}-{_tag(fusion)}", launch, {"x": x}, {"out": empty((4, 200), dtype)}
    )


def _quantized(source: str, target: str, limit: float, fusion: bool) -> Program:
    def launch(t: Tensors) -> None:
        _quantize[(8,)](t["x"], t["out"], t["scale"], limit, 128, enable_fp_fusion=fusion)

    outputs = {"out": empty((8, 128), target), "scale": empty(8, "f32")}
    name = f"quantize_{source}_{target}-{_tag(fusion)}"
    return Program(name, launch, {"x": moderate((8, 128), source)}, outputs)


BOTH = (False, True)
PROGRAMS = [
    *(_rms(dtype, n, warps, fusion) for dtype, n, warps in
      (("f32", 512, 4), ("f32", 96, 1), ("bf16", 320, 4), ("bf16", 512, 8)) for fusion in BOTH),
    _rms_runtime(256), _rms_runtime(300),
    *(_layer(n, fusion) for n in (128, 500) for fusion in BOTH),
    *(_row_softmax(n, fusion, online) for n in (100, 256) for fusion in BOTH for online in BOTH),
    *(_rotary(dtype, heads, fusion)
      for dtype, heads in (("f32", 3), ("bf16", 4)) for fusion in BOTH),
    *(_swiglu(dtype, fusion) for dtype in ("f32", "bf16") for fusion in BOTH),
    *(_quantized("bf16", "e4m3fn", 448.0, fusion) for fusion in BOTH),
    _quantized("f32", "e5m2", 57344.0, False), _quantized("f32", "i8", 127.0, False),
]  # fmt: skip
