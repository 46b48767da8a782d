"""The tools, their cache, and what is read from machine code. No GPU is needed for any of it."""

import functools
from pathlib import Path

import pytest

from exactness.virtual import sass
from exactness.virtual.sass import Arithmetic, Operation

pytest.importorskip("triton", reason="Triton's wheel ships ptxas and nvdisasm")

PTX = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 po)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.b64 %rd1, [pa]; ld.param.b64 %rd2, [po];
ld.global.b32 %r1, [%rd1];
ld.global.b32 %r2, [%rd1+4];
mul.f32 %r3, %r1, %r2;
add.f32 %r4, %r3, %r1;
rsqrt.approx.ftz.f32 %r5, %r4;
st.global.b32 [%rd2], %r5;
ret;
}
"""
MUL, ADD, RSQRT = 10, 11, 12


@functools.cache
def lines(*options: str):
    return sass.arithmetic(sass.disassemble(sass.assemble(PTX, options)))


def test_contraction_shows_on_the_line_of_the_sum():
    assert lines() == {
        ADD: {Arithmetic(Operation.FUSED, "F")},
        RSQRT: {Arithmetic(Operation.FUNCTION, "RSQ")},
    }


def test_without_contraction_each_line_has_its_own_operation():
    assert lines("--fmad=false") == {
        MUL: {Arithmetic(Operation.MULTIPLY, "F")},
        ADD: {Arithmetic(Operation.ADD, "F")},
        RSQRT: {Arithmetic(Operation.FUNCTION, "RSQ")},
    }


def test_code_is_that_of_the_kernel_and_not_of_the_debug_sections():
    plain = sass.code(sass.assemble(PTX))
    moved = sass.code(sass.assemble(PTX.replace("mul.f32", "\n\nmul.f32")))
    assert set(plain) == {".text.k", ".nv.constant0.k"}
    assert plain == moved
    assert plain != sass.code(sass.assemble(PTX, ("--fmad=false",)))


def test_code_of_something_else_is_refused():
    with pytest.raises(ValueError, match="64-bit little-endian ELF"):
        sass.code(b"MZ\x90\x00 no cubin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FADD R1, R2, -R3.reuse", Arithmetic(Operation.ADD, "F")),
        ("FMUL.FTZ R1, R2, 0.25", Arithmetic(Operation.MULTIPLY, "F.FTZ", ("0.25",))),
        ("FFMA R6, R4, -2, R9", Arithmetic(Operation.FUSED, "F", ("2",))),
        ("FFMA.SAT R6, R4, c[0x0][0x228], UR9", Arithmetic(Operation.FUSED, "F.SAT")),
        ("FFMA R6, |R4|, R5, -RZ", Arithmetic(Operation.MULTIPLY, "F")),
        ("FMUL R9, RZ, R9", Arithmetic(Operation.MULTIPLY, "F", ("0",))),
        ("FADD R0, R1, +INF ", Arithmetic(Operation.ADD, "F", ("INF",))),
        ("DFMA R8, R6, R8, R6", Arithmetic(Operation.FUSED, "D")),
        ("HMUL2.BF16_V2 R0, R2.H0_H0, R2.H1_H1", Arithmetic(Operation.MULTIPLY, "H.BF16_V2")),
        ("HFMA2.MMA.BF16_V2 R3, R2, R5, -RZ", Arithmetic(Operation.MULTIPLY, "H.BF16_V2")),
        ("HFMA2 R1, R2, 1, 1, R3", Arithmetic(Operation.ADD, "H")),
        ("HFMA2.BF16_V2 R0, R2.H0_H0, R4, R5", Arithmetic(Operation.FUSED, "H.BF16_V2")),
        ("MUFU.EX2 R26, R4", Arithmetic(Operation.FUNCTION, "EX2")),
        ("HFMA2.MMA R7, -RZ, RZ, 1.625, 0", None),  # loads a constant
        ("IMAD.WIDE R2, R9, 0x4, R2", None),
        ("FSEL R7, R7, 1, P0", None),
        ("FSETP.GT.AND P0, PT, |R0|, 8.5e+37, PT", None),
    ],
)
def test_classify(text: str, expected: Arithmetic | None):
    assert sass.classify(text) == expected


def test_instructions_without_line_information_are_told_apart():
    listing = "        /*0000*/   @!P0 FADD R1, R2, R3 ;\n"
    assert list(sass.arithmetic(listing)) == [sass.UNKNOWN_LINE]


def test_what_ptxas_says_is_in_the_error():
    with pytest.raises(sass.ToolError, match=r"ptxas\S* failed: .*frobnicate"):
        sass.assemble(PTX.replace("add.f32", "frobnicate.f32"))


def test_output_is_kept_and_not_produced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EXACTNESS_CACHE", str(tmp_path))
    first = sass.assemble(PTX)
    monkeypatch.setattr(sass, "_run", lambda *_: pytest.fail("it was assembled again"))
    assert sass.assemble(PTX) == first
    (stored,) = (path for path in (tmp_path / "sass").rglob("*") if path.is_file())
    assert stored.read_bytes() == first


def test_options_are_part_of_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EXACTNESS_CACHE", str(tmp_path))
    assert sass.code(sass.assemble(PTX)) != sass.code(sass.assemble(PTX, ("--fmad=false",)))


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EXACTNESS_CACHE", str(tmp_path / "file"))
    assert sass.code(sass.assemble(PTX))


def test_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EXACTNESS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert sass.cache_directory() == Path("/somewhere/exactness")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert sass.cache_directory() == Path.home() / ".cache" / "exactness"


def test_a_missing_tool_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sass, "_triton_tools", lambda name: ())
    monkeypatch.setattr(sass, "_cuda_tools", lambda name: ())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(sass.ToolError, match="nvdisasm was not found: install Triton"):
        sass.find_tool("nvdisasm")
