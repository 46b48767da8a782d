"""Undefined bytes: what an instruction drops does not matter, what it keeps does."""

import numpy as np
import pytest

from exactness.virtual.errors import UndefinedValueError

START = """
    .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .b16 %rs<8>;
    .shared .align 16 .b8 box[512];
    ld.param.b64 %rd1, [y]; mov.u32 %r1, %tid.x; mov.b32 %r2, box;
    mad.wide.u32 %rd2, %r1, 8, %rd1; mad.lo.u32 %r3, %r1, 4, %r2;
    mov.b16 %rs1, 0x3C00;
    st.shared.b16 [%r3], %rs1;
    ld.shared.b32 %r4, [%r3];
"""
"""%r4: 1.0 of f16 in the low half, an undefined high half."""


def run(run_kernel, body: str) -> int:
    y = np.zeros(64, np.uint64)
    run_kernel(f"{START} {body} ret;", {"y": y})
    return int(y[0])


KEPT = {
    "the low half of a move": "mov.b32 {%rs2, %rs3}, %r4; st.global.b16 [%rd2], %rs2;",
    "the sink takes the high half": "mov.b32 {%rs2, _}, %r4; st.global.b16 [%rd2], %rs2;",
    "narrowing": "cvt.u16.u32 %rs2, %r4; st.global.b16 [%rd2], %rs2;",
    "a mask": "and.b32 %r5, %r4, 0xFFFF; st.global.b32 [%rd2], %r5;",
    "ones": "or.b32 %r5, %r4, 0xFFFF0000; and.b32 %r5, %r5, 0xFFFF; st.global.b32 [%rd2], %r5;",
    "a shift": "shl.b32 %r5, %r4, 16; shr.u32 %r5, %r5, 16; st.global.b32 [%rd2], %r5;",
    "a permutation": "mov.b32 %r6, 0; prmt.b32 %r5, %r4, %r6, 0x7610; st.global.b32 [%rd2], %r5;",
    "a packed product": "mul.f16x2 %r5, %r4, %r4; mov.b32 {%rs2, _}, %r5; "
    "st.global.b16 [%rd2], %rs2;",
    "a byte of an fp8 pair": "ld.shared.b32 %r7, [%r3 + 256]; mov.b32 %r8, 0f3F800000; "
    "cvt.rn.satfinite.e5m2x2.f32 %rs2, %r7, %r8; st.global.b8 [%rd2 + 1], %rs2;",
    "a half of a packed conversion": "ld.shared.b32 %r7, [%r3 + 256]; mov.b32 %r8, 0f3F800000; "
    "cvt.rn.f16x2.f32 %r5, %r7, %r8; st.global.b16 [%rd2], %r5;",
    "a narrow store": "st.global.b16 [%rd2], %r4;",
    "a shuffle": "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1; st.global.b16 [%rd2], %r5;",
    "shared memory": "st.shared.b32 [%r3 + 128], %r4; ld.shared.b16 %rs2, [%r3 + 128]; "
    "st.global.b16 [%rd2], %rs2;",
    "a wider word": "mov.b64 %rd3, {%r1, %r4}; mov.b64 {%r5, %r6}, %rd3; "
    "st.global.b16 [%rd2], %r6;",
    "a comparison of halves": "setp.eq.f16x2 %p1|%p2, %r4, %r4; "
    "selp.b32 %r5, 0x3C00, 0, %p1; st.global.b32 [%rd2], %r5;",
    "a false conjunct": "setp.ne.b32 %p1, %r4, 0; setp.eq.and.u32 %p2, %r1, 99, %p3; "
    "setp.gt.u32 %p4, %r1, 50; and.pred %p2, %p1, %p4; selp.b32 %r5, 1, 0x3C00, %p2; "
    "st.global.b32 [%rd2], %r5;",
    "a selection": "setp.lt.u32 %p1, %r1, 99; mov.b32 %r5, 0x3C00; selp.b32 %r6, %r5, %r4, %p1; "
    "st.global.b32 [%rd2], %r6;",
}


@pytest.mark.parametrize("name", KEPT)
def test_defined_bytes_stay_defined(run_kernel, name):
    assert run(run_kernel, KEPT[name]) == 0x3C00


LOST = {
    "an fp8 pair": "cvt.rn.satfinite.e5m2x2.f32 %rs2, 0f3F800000, %r4; st.global.b16 [%rd2], %rs2;",
    "the high half of a move": "mov.b32 {%rs2, %rs3}, %r4; st.global.b16 [%rd2], %rs3;",
    "the whole word": "st.global.b32 [%rd2], %r4;",
    "a sum": "add.s32 %r5, %r4, 1; st.global.b16 [%rd2], %r5;",
    "a shift down": "shr.u32 %r5, %r4, 16; st.global.b16 [%rd2], %r5;",
    "a shift across the border": "shr.u32 %r5, %r4, 1; st.global.b16 [%rd2], %r5;",
    "a signed shift": "shl.b32 %r5, %r4, 0; shr.s32 %r5, %r5, 24; st.global.b16 [%rd2], %r5;",
    "a permutation": "prmt.b32 %r5, %r4, %r4, 0x0032; st.global.b16 [%rd2], %r5;",
    "a packed product": "mul.f16x2 %r5, %r4, %r4; mov.b32 {_, %rs2}, %r5; "
    "st.global.b16 [%rd2], %rs2;",
    "a mask that keeps it": "and.b32 %r5, %r4, 0xFF0000; st.global.b32 [%rd2], %r5;",
    "a comparison": "setp.eq.b32 %p1, %r4, 0; selp.b32 %r5, 1, 2, %p1; st.global.b32 [%rd2], %r5;",
    "the comparison of the other half": "setp.eq.f16x2 %p1|%p2, %r4, %r4; "
    "selp.b32 %r5, 1, 2, %p2; st.global.b32 [%rd2], %r5;",
    "sign extension": "mov.b32 {_, %rs2}, %r4; cvt.s32.s16 %r5, %rs2; st.global.b32 [%rd2], %r5;",
    "a vote": "setp.eq.b32 %p1, %r4, 0; vote.sync.any.pred %p2, %p1, -1; "
    "selp.b32 %r5, 1, 2, %p2; st.global.b32 [%rd2], %r5;",
}


@pytest.mark.parametrize("name", LOST)
def test_undefined_bytes_stay_undefined(run_kernel, name):
    with pytest.raises(UndefinedValueError, match="stored to global memory"):
        run(run_kernel, LOST[name])
