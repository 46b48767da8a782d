"""Which instructions are IEEE 754's, what the others are called, what machine code may add."""

import pytest

from exactness.virtual import census, ptx, sass
from exactness.virtual.sass import Arithmetic, Operation

HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"


def instruction(name):
    """An instruction of that name, whatever its operands."""
    module = ptx.parse(f"{HEAD}.reg .b32 %r<9>;\n{name} %r1, %r2;\nret;\n}}\n")
    return module.entries["k"].body[0]


@pytest.mark.parametrize(
    "name",
    [
        "add.rn.f32", "sub.rn.f64", "mul.rn.bf16x2", "div.rn.f32", "sqrt.rn.f32", "rcp.rn.f64",
        "min.f32", "max.NaN.f32", "abs.f32", "neg.bf16x2", "setp.lt.f32", "setp.num.f32",
        "setp.gtu.and.f32", "testp.notanumber.f32", "copysign.f32",
        "cvt.rn.bf16.f32", "cvt.rn.bf16x2.f32", "cvt.f32.bf16", "cvt.rzi.s32.f32",
        "cvt.rn.f32.s64", "cvt.rni.f32.f32", "cvt.f64.f32", "cvt.rn.f16x2.e4m3x2",
        "ld.global.f32", "mov.f32", "selp.f32", "shfl.sync.bfly.b32", "add.s32", "mul.wide.u32",
        "atom.global.add.u32", "cvt.u64.u32", "wgmma.fence.sync.aligned",
    ],
)  # fmt: skip
def test_needs_no_permission(name):
    assert census.permission(instruction(name)) is None


@pytest.mark.parametrize(
    ("name", "permission"),
    [
        ("fma.rn.f32", "fma"),
        ("fma.rn.bf16x2", "fma.bf16"),
        ("fma.rn.f64", "fma.f64"),
        ("fma.rm.f32", "fma.rm"),
        ("fma.rn.sat.f32", "fma.sat"),
        ("fma.rn.relu.f16", "fma.relu.f16"),
        ("mad.rn.f32", "mad"),
        ("add.rn.ftz.f32", "add.ftz"),
        ("mul.rz.f32", "mul.rz"),
        ("div.full.f32", "div.full"),
        ("div.approx.ftz.f32", "div.approx.ftz"),
        ("ex2.approx.f32", "ex2.approx"),
        ("ex2.approx.ftz.bf16x2", "ex2.approx.ftz.bf16"),
        ("rsqrt.approx.ftz.f32", "rsqrt.approx.ftz"),
        ("tanh.approx.f32", "tanh.approx"),
        ("setp.lt.ftz.f32", "setp.ftz"),
        ("max.ftz.f32", "max.ftz"),
        ("min.xorsign.abs.f32", "min.xorsign.abs"),
        ("cvt.rz.bf16.f32", "cvt.rz.bf16"),
        ("cvt.rna.tf32.f32", "cvt.rna.tf32"),
        ("cvt.rn.satfinite.e4m3x2.f32", "cvt.satfinite.e4m3"),
        ("cvt.rn.relu.f16.f32", "cvt.relu.f16"),
        ("cvt.ftz.f32.f16", "cvt.ftz"),
        ("cvt.bf16.f16", "cvt.bf16.f16"),
        ("cvt.rz.f32.s32", "cvt.rz"),
        ("atom.global.add.f32", "atom.add"),
        ("red.global.add.noftz.bf16", "red.add"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.tf32"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "mma.f16.f16"),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "wgmma.bf16"),
    ],
)
def test_permission(name, permission):
    assert census.permission(instruction(name)) == permission


@pytest.mark.parametrize("name", ["add.f32", "mul.bf16x2", "sub.ftz.f32", "mul.f64"])
def test_missing_rounding_is_no_matter_of_permissions(name):
    """`check_fusion_free` names them; no permission makes them mean one thing."""
    assert census.permission(instruction(name)) is None


def test_census_counts_what_computes():
    text = HEAD + (
        ".reg .b32 %r<9>;\nmov.b32 %r1, 0;\nadd.rn.f32 %r2, %r1, %r1;\n"
        "add.rn.f32 %r3, %r2, %r1;\nadd.s32 %r4, %r1, %r1;\ncvt.rn.f32.s32 %r5, %r4;\nret;\n}\n"
    )
    counts = census.census(ptx.parse(text).entries["k"])
    assert counts == {"add.rn.f32": 2, "cvt.rn.f32.s32": 1}


KERNEL = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb)
{
.reg .f32 %a, %b, %c; .reg .b64 %p<3>; .reg .b32 %i<4>;
ld.param.b64 %p1, [pa]; ld.param.b64 %p2, [pb]; ld.global.f32 %a, [%p1];
ld.global.u32 %i1, [%p1 + 4]; ld.global.u32 %i2, [%p1 + 8];
rem.u32 %i3, %i1, %i2; st.global.u32 [%p2 + 4], %i3;
LINE
st.global.f32 [%p2], %c;
ret;
}
"""


def foreign_of(line, *options):
    text = KERNEL.replace("LINE", line)
    listing = sass.disassemble(sass.assemble(text, options))
    return list(census.foreign(ptx.parse(text).entries["k"], listing))


@pytest.mark.parametrize(
    "line",
    [
        "div.rn.f32 %c, %a, 0f40490FDB;",
        "sqrt.rn.f32 %b, %a; add.rn.f32 %c, %b, %a;",
        "ex2.approx.f32 %c, %a;",
        "fma.rn.f32 %c, %a, %a, %a;",
        "mul.rn.f32 %b, %a, %a;\nadd.rn.f32 %c, %b, %a;",
    ],
)
def test_expansions_and_subroutines_are_not_foreign(line):
    pytest.importorskip("triton")
    assert foreign_of(line) == []


def test_contraction_is_foreign():
    pytest.importorskip("triton")
    line = "mul.f32 %b, %a, %a;\nadd.f32 %c, %b, %a;"
    assert foreign_of(line, "--fmad=false") == []
    (found,) = foreign_of(line)
    assert found.arithmetic == Arithmetic(Operation.FUSED, "F")
    assert [each.name for each in found.instructions] == ["add.f32"]


def test_listing_without_the_kernel_is_refused():
    entry = ptx.parse(KERNEL.replace("LINE", "")).entries["k"]
    with pytest.raises(ValueError, match="no section of kernel k"):
        list(census.foreign(entry, "\n.text.other:\n"))
