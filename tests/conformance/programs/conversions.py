"""Conversions between all number formats, with every rounding that Triton and PTX offer."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import FLOATS, Draw, every_pattern, patterns
from ..program import Program, Tensors, elementwise, empty

N = 1019
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


@triton.jit
def _cast(x_ptr, out_ptrs, n, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    for i in tl.static_range(len(out_ptrs)):
        y = x.to(out_ptrs[i].dtype.element_ty, fp_downcast_rounding=ROUNDING)
        tl.store(out_ptrs[i] + offsets, y, mask=offsets < n)


@triton.jit
def _bitcast(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x.to(out_ptr.dtype.element_ty, bitcast=True), mask=offsets < n)


@triton.jit
def _from_bool(x_ptr, f32_ptr, bf16_ptr, i32_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    truth = tl.load(x_ptr + offsets, mask=offsets < n) != 0
    tl.store(f32_ptr + offsets, truth.to(tl.float32), mask=offsets < n)
    tl.store(bf16_ptr + offsets, truth.to(tl.bfloat16), mask=offsets < n)
    tl.store(i32_ptr + offsets, truth.to(tl.int32), mask=offsets < n)


@triton.jit
def _round_f32(x_ptr, floor_ptr, ceil_ptr, rint_ptr, trunc_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    rint = tl.inline_asm_elementwise("cvt.rni.f32.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    trunc = tl.inline_asm_elementwise("cvt.rzi.f32.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    tl.store(floor_ptr + offsets, tl.floor(x), mask=offsets < n)
    tl.store(ceil_ptr + offsets, tl.ceil(x), mask=offsets < n)
    tl.store(rint_ptr + offsets, rint, mask=offsets < n)
    tl.store(trunc_ptr + offsets, trunc, mask=offsets < n)


@triton.jit
def _ptx_to_int(x_ptr, rn_ptr, rm_ptr, rp_ptr, u64_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    rn = tl.inline_asm_elementwise("cvt.rni.s32.f32 $0, $1;", "=r,f", [x], tl.int32, True, 1)
    rm = tl.inline_asm_elementwise("cvt.rmi.s32.f32 $0, $1;", "=r,f", [x], tl.int32, True, 1)
    rp = tl.inline_asm_elementwise("cvt.rpi.u32.f32 $0, $1;", "=r,f", [x], tl.int32, True, 1)
    u64 = tl.inline_asm_elementwise("cvt.rni.u64.f32 $0, $1;", "=l,f", [x], tl.int64, True, 1)
    tl.store(rn_ptr + offsets, rn, mask=offsets < n)
    tl.store(rm_ptr + offsets, rm, mask=offsets < n)
    tl.store(rp_ptr + offsets, rp, mask=offsets < n)
    tl.store(u64_ptr + offsets, u64, mask=offsets < n)


@triton.jit
def _tf32(x_ptr, rna_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    rna = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], tl.float32, True, 1)
    tl.store(rna_ptr + offsets, rna, mask=offsets < n)


@triton.jit
def _ptx_narrow(
    x_ptr, y_ptr, ftz_ptr, sat_ptr, pair_ptr, relu_ptr, fp8_ptr, n, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    ftz = tl.inline_asm_elementwise("cvt.rn.ftz.f16.f32 $0, $1;", "=h,f", [x], tl.float16, True, 1)
    sat = tl.inline_asm_elementwise("cvt.sat.f32.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    pair = tl.inline_asm_elementwise(
        "cvt.rz.bf16x2.f32 $0, $1, $2;", "=r,f,f", [x, y], tl.int32, True, 1
    )
    relu = tl.inline_asm_elementwise(
        "cvt.rn.relu.f16x2.f32 $0, $1, $2;", "=r,f,f", [x, y], tl.int32, True, 1
    )
    fp8 = tl.inline_asm_elementwise(
        "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "=h,f,f", [x, y], tl.int16, True, 1
    )
    tl.store(ftz_ptr + offsets, ftz, mask=offsets < n)
    tl.store(sat_ptr + offsets, sat, mask=offsets < n)
    tl.store(pair_ptr + offsets, pair, mask=offsets < n)
    tl.store(relu_ptr + offsets, relu, mask=offsets < n)
    tl.store(fp8_ptr + offsets, fp8, mask=offsets < n)


def _casts(source: str, targets: tuple[str, ...], rounding: str | None = None) -> Program:
    x: Draw = every_pattern(source) if source in ("e4m3fn", "e5m2") else patterns((N,), source)

    def launch(t: Tensors) -> None:
        grid = (triton.cdiv(x.size, 512),)
        outs = tuple(t[target] for target in targets)
        _cast[grid](t["x"], outs, x.size, ROUNDING=rounding, BLOCK=512)

    suffix = f"-rounding={rounding}" if rounding else ""
    outputs = {target: empty(x.size, target) for target in targets}
    return Program(f"cast_{source}{suffix}", launch, {"x": x}, outputs)


def _programs() -> list[Program]:
    made = []
    for source in ("f64", "f32", "f16", "bf16"):
        floats = tuple(f for f in FLOATS if f != source and (source != "f64" or "e" not in f))
        made.append(_casts(source, floats))
        integers = _casts(source, INTEGERS)
        made.append(Program(f"cast_{source}_to_integers", *_body(integers)))
    made.append(_casts("f32", ("f16", "bf16"), "rtz"))
    made.append(_casts("e4m3fn", ("f32", "f16", "bf16")))
    made.append(_casts("e5m2", ("f32", "f16", "bf16")))
    for source in INTEGERS:
        others = tuple(i for i in INTEGERS if i != source)
        made.append(_casts(source, (*others, "f64", "f32", "f16", "bf16")))
    x = patterns((N,), "f32")
    made += [
        elementwise("bitcast_f32_i32", _bitcast, {"x": x}, {"out": "i32"}),
        elementwise("bitcast_i16_bf16", _bitcast, {"x": patterns((N,), "i16")}, {"out": "bf16"}),
        elementwise("from_bool", _from_bool, {"x": patterns((N,), "i8")},
                    {"f32": "f32", "bf16": "bf16", "i32": "i32"}),
        elementwise("round_to_integral_f32", _round_f32, {"x": x},
                    dict.fromkeys(("floor", "ceil", "rint", "trunc"), "f32")),
        elementwise("ptx_f32_to_integers", _ptx_to_int, {"x": x},
                    {"rn": "i32", "rm": "i32", "rp": "i32", "u64": "i64"}),
        elementwise("ptx_tf32_rna", _tf32, {"x": x}, {"rna": "f32"}),
        elementwise("ptx_narrow_f32", _ptx_narrow, {"x": x, "y": x},
                    {"ftz": "f16", "sat": "f32", "pair": "i32", "relu": "i32", "fp8": "i16"}),
    ]  # fmt: skip
    return made


def _body(program: Program) -> tuple[object, ...]:
    return program.launch, program.inputs, program.outputs


PROGRAMS = _programs()
