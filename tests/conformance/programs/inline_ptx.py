"""Instructions that Triton reaches through inline assembly only."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import moderate, patterns
from ..program import Program, elementwise

N = 1024


@triton.jit
def _unary(x_ptr, out_ptr, n, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [x], out_ptr.dtype.element_ty, True, 1)
    tl.store(out_ptr + offsets, y, mask=offsets < n)


@triton.jit
def _ternary(x_ptr, y_ptr, z_ptr, out_ptr, n, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr,
             BLOCK: tl.constexpr):  # fmt: skip
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    z = tl.load(z_ptr + offsets, mask=offsets < n)
    w = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [x, y, z], out_ptr.dtype.element_ty, True, 1)
    tl.store(out_ptr + offsets, w, mask=offsets < n)


@triton.jit
def _packed(x_ptr, y_ptr, sum_ptr, product_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    total, product = tl.inline_asm_elementwise(
        """
        {
            .reg .b32 %one;
            mov.b32 %one, 0x3f803f80;
            fma.rn.bf16x2 $0, $2, %one, $3;
            mul.rn.bf16x2 $1, $2, $3;
        }
        """,
        "=r,=r,r,r", [x, y], (tl.bfloat16, tl.bfloat16), True, 2,
    )  # fmt: skip
    tl.store(sum_ptr + offsets, total, mask=offsets < n)
    tl.store(product_ptr + offsets, product, mask=offsets < n)


@triton.jit
def _bytes(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, 0, 0x0123;", "=r,r", [x], tl.int8, is_pure=True, pack=4
    )
    tl.store(out_ptr + offsets, y, mask=offsets < n)


@triton.jit
def _predicated(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.inline_asm_elementwise(
        """
        {
            .reg .pred p, q;
            .reg .b32 t;
            setp.gt.s32 p|q, $1, 100;
            add.s32 t, $1, 1;
            @p mul.lo.s32 t, t, 3;
            @q sub.s32 t, 0, t;
            mov.b32 $0, t;
        }
        """,
        "=r,r", [x], tl.int32, True, 1,
    )  # fmt: skip
    tl.store(out_ptr + offsets, y, mask=offsets < n)


def _one(
    name: str, asm: str, source: str, target: str, constraints: str, refused: str = ""
) -> Program:
    x = patterns((N,), source)
    return elementwise(f"ptx_{name}", _unary, {"x": x}, {"out": target}, refused=refused,
                       ASM=asm, CONSTRAINTS=constraints)  # fmt: skip


def _three(
    name: str, asm: str, dtype: str, constraints: str, *, tame: bool = False, refused: str = ""
) -> Program:
    x = moderate((N,), dtype, -3, 3) if tame else patterns((N,), dtype)
    inputs = {"x": x, "y": x, "z": x}
    return elementwise(f"ptx_{name}", _ternary, inputs, {"out": dtype}, refused=refused,
                       ASM=asm, CONSTRAINTS=constraints)  # fmt: skip


def _rounding_modes() -> list[Program]:
    made = []
    for mode in ("rn", "rz", "rm", "rp"):
        add, mul = f"add.{mode}.f32 $0, $1, $2;", f"mul.{mode}.f32 $0, $1, $2;"
        fma = f"fma.{mode}.f32 $0, $1, $2, $3;"
        made += [
            _three(f"add_{mode}_f32", add, "f32", "=f,f,f,f"),
            _three(f"mul_{mode}_f32", mul, "f32", "=f,f,f,f"),
            _three(f"fma_{mode}_f32", fma, "f32", "=f,f,f,f"),
            _three(f"fma_{mode}_f32_moderate", fma, "f32", "=f,f,f,f", tame=True),
            _three(
                f"fma_{mode}_f64",
                f"fma.{mode}.f64 $0, $1, $2, $3;",
                "f64",
                "=d,d,d,d",
                tame=True,
                refused="" if mode == "rn" else f"fma.{mode}.f64",
            ),
            _one(f"sqrt_{mode}_f32", f"sqrt.{mode}.f32 $0, $1;", "f32", "f32", "=f,f"),
            _one(f"rcp_{mode}_f32", f"rcp.{mode}.f32 $0, $1;", "f32", "f32", "=f,f"),
        ]
    return made  # fmt: skip


def _conversions() -> list[Program]:
    made = [
        _one(
            f"cvt_{mode}_{target}_{source}",
            f"cvt.{mode}.{target}.{source} $0, $1;",
            source.replace("s", "i"),
            target,
            constraints,
            f"cvt.{mode}.f64.s64" if target == "f64" else "",
        )
        for mode in ("rz", "rm", "rp")
        for target, source, constraints in (
            ("f32", "f64", "=f,d"),
            ("f32", "s32", "=f,r"),
            ("f32", "u64", "=f,l"),
            ("f64", "s64", "=d,l"),
            ("f16", "f32", "=h,f"),
        )
    ]
    return made  # fmt: skip


def _lanes() -> list[Program]:
    warp = "0xffffffff"
    return [
        _one("shfl_up", f"shfl.sync.up.b32 $0, $1, 3, 0, {warp};", "i32", "i32", "=r,r"),
        _one("shfl_down_segment", f"shfl.sync.down.b32 $0, $1, 2, 0x1807, {warp};",
             "i32", "i32", "=r,r"),
        _one("shfl_idx", f"shfl.sync.idx.b32 $0, $1, $1, 31, {warp};", "i32", "i32", "=r,r"),
        _one("vote_ballot", "{ .reg .pred p; setp.lt.s32 p, $1, 0; "
             f"vote.sync.ballot.b32 $0, p, {warp}; }}", "i32", "i32", "=r,r"),
        _one("match_any", "{ .reg .b32 t; and.b32 t, $1, 7; "
             f"match.any.sync.b32 $0, t, {warp}; }}", "i32", "i32", "=r,r"),
        _one("redux_min_u32", f"redux.sync.min.u32 $0, $1, {warp};", "i32", "i32", "=r,r"),
        _one("laneid", "{ .reg .b32 t; mov.u32 t, %laneid; xor.b32 $0, $1, t; }",
             "i32", "i32", "=r,r"),
    ]  # fmt: skip


def _flushing() -> list[Program]:
    return [
        _three("add_ftz_f32", "add.ftz.f32 $0, $1, $2;", "f32", "=f,f,f,f"),
        _three("fma_ftz_sat_f32", "fma.rn.ftz.sat.f32 $0, $1, $2, $3;", "f32", "=f,f,f,f"),
        _three("div_full_ftz_f32", "div.full.ftz.f32 $0, $1, $2;", "f32", "=f,f,f,f"),
        _three("div_full_f32", "div.full.f32 $0, $1, $2;", "f32", "=f,f,f,f", tame=True),
        _three("min_ftz_nan_f32", "min.ftz.NaN.f32 $0, $1, $2;", "f32", "=f,f,f,f"),
        _three("max_xorsign_abs_f32", "max.xorsign.abs.f32 $0, $1, $2;", "f32", "=f,f,f,f"),
        _three("fma_relu_bf16x2", "fma.rn.relu.bf16x2 $0, $1, $2, $3;", "i32", "=r,r,r,r"),
        _three("fma_ftz_f16x2", "fma.rn.ftz.f16x2 $0, $1, $2, $3;", "i32", "=r,r,r,r"),
        *(_one(f"{op}_approx{ftz.replace('.', '_')}_f32", f"{op}.approx{ftz}.f32 $0, $1;",
               "f32", "f32", "=f,f")
          for op in ("ex2", "rsqrt", "rcp", "sqrt") for ftz in ("", ".ftz")),
    ]  # fmt: skip


def _integer() -> list[Program]:
    i32, three = "=r,r", "=r,r,r,r"
    return [
        _one("popc", "popc.b32 $0, $1;", "i32", "i32", i32),
        _one("clz", "clz.b32 $0, $1;", "i32", "i32", i32),
        _one("brev", "brev.b32 $0, $1;", "i32", "i32", i32),
        _one("bfind", "bfind.s32 $0, $1;", "i32", "i32", i32),
        _one("popc_b64", "popc.b64 $0, $1;", "i64", "i32", "=r,l"),
        _one("bfe_s32", "bfe.s32 $0, $1, 5, 11;", "i32", "i32", i32),
        _one("shr_wide_amount", "shr.s32 $0, $1, 40;", "i32", "i32", i32),
        _three("bfi", "bfi.b32 $0, $1, $2, 7, 9;", "i32", three),
        _three("lop3", "lop3.b32 $0, $1, $2, $3, 0xb4;", "i32", three),
        _three("prmt", "prmt.b32 $0, $1, $2, $3;", "i32", three),
        _three("shf_wrap", "shf.l.wrap.b32 $0, $1, $2, $3;", "i32", three),
        _three("shf_clamp", "shf.r.clamp.b32 $0, $1, $2, $3;", "i32", three),
        _three("shl_clamp", "shl.b32 $0, $1, $2;", "i32", three),
        _three("shr_clamp", "shr.u32 $0, $1, $2;", "i32", three),
        _three("mad_hi_s32", "mad.hi.s32 $0, $1, $2, $3;", "i32", three),
        _three("mad_lo_s64", "mad.lo.s64 $0, $1, $2, $3;", "i64", "=l,l,l,l"),
        _three("sad", "sad.s32 $0, $1, $2, $3;", "i32", three),
        _three("add_sat", "add.sat.s32 $0, $1, $2;", "i32", three),
        _three("slct", "slct.s32.s32 $0, $1, $2, $3;", "i32", three),
    ]


PROGRAMS = [
    *_rounding_modes(), *_conversions(), *_flushing(), *_integer(), *_lanes(),
    elementwise("ptx_packed_bf16", _packed,
                {"x": patterns((N,), "bf16"), "y": patterns((N,), "bf16")},
                {"sum": "bf16", "product": "bf16"}),
    elementwise("ptx_byte_reversal", _bytes, {"x": patterns((N,), "i8")}, {"out": "i8"}),
    elementwise("ptx_predicated", _predicated, {"x": patterns((N,), "i32")}, {"out": "i32"}),
]  # fmt: skip
