"""Every kind of instruction that a claim does not allow is named, with its source line."""

import re

import pytest

from exactness.checks.codegen import CodegenCheck
from exactness.checks.outcome import Status
from exactness.virtual import sass

ASM = """
y = tl.inline_asm_elementwise(
    "{text}", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
)
"""


def line_of(project, text):
    """The line of the kernel file that holds a text."""
    lines = project.kernel_file.read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_ieee_arithmetic_passes(triton_project):
    body = "y = tl.sqrt_rn(tl.div_rn(x * 1.7 + 0.3, 3.0 - x)).to(tl.bfloat16).to(tl.float32)"
    outcome = triton_project.write(body).run(CodegenCheck)
    assert outcome.status is Status.PASSED, outcome.message
    assert outcome.elements > 50
    # n = 64 is a multiple of 16, which Triton compiles for: two programs.
    assert outcome.cases == 2
    assert "add.rn.f32" in outcome.notes[0]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("y = tl.fma(x, 1.7, 0.3)", "fma"),
        ("y = 1.5 / x", "div.full"),
        ("y = tl.exp2(x)", "ex2.approx.ftz"),
        (ASM.format(text="rsqrt.approx.ftz.f32 $0, $1;"), "rsqrt.approx.ftz"),
        (ASM.format(text="add.rn.ftz.f32 $0, $1, $1;"), "add.ftz"),
        (ASM.format(text="mul.rz.f32 $0, $1, 0f3FC00000;"), "mul.rz"),
        (ASM.format(text="cvt.rna.tf32.f32 $0, $1;"), "cvt.rna.tf32"),
        (ASM.format(text="fma.rn.sat.f32 $0, $1, $1, $1;"), "fma.sat"),
    ],
)
def test_instruction_beyond_ieee_needs_permission(triton_project, body, name):
    outcome = triton_project.write(body).run(CodegenCheck)
    assert outcome.status is Status.FAILED
    assert f'`allows` lacks "{name}"' in outcome.message
    expected = line_of(triton_project, "y = ")
    lines = [int(line) for line in re.findall(r"k\d+\.py:(\d+)", outcome.message)]
    assert lines
    assert all(expected <= line <= expected + 3 for line in lines)
    allowed = triton_project.write(body, claim=f'allows=("{name}",),').run(CodegenCheck)
    assert allowed.status is Status.PASSED, allowed.message


def test_permission_may_name_the_type(triton_project):
    outcome = triton_project.write("y = 1.5 / x", claim='allows=("div.full.f32",),')
    assert outcome.run(CodegenCheck).status is Status.PASSED


def test_unrounded_sum_in_assembly_is_named(triton_project):
    body = ASM.format(text="add.f32 $0, $1, 0f3FC00000;")
    outcome = triton_project.write(body).run(CodegenCheck)
    assert outcome.status is Status.FAILED
    assert "no rounding modifier" in outcome.message
    assert "add.f32" in outcome.message


def test_contraction_left_on_is_named(triton_project):
    project = triton_project.write("y = x * 1.7 + 0.3", options="num_warps=1")
    outcome = project.run(CodegenCheck)
    assert outcome.status is Status.FAILED
    # With fusion on, Triton 3.6 and 3.7 leave the contraction of this pair to LLVM or to ptxas.
    assert "no rounding modifier" in outcome.message or '`allows` lacks "fma"' in outcome.message


def test_contraction_may_be_allowed(triton_project):
    project = triton_project.write(
        "y = x * 1.7 + 0.3", options="num_warps=1", claim='allows=("fusion", "fma"),'
    )
    outcome = project.run(CodegenCheck)
    assert outcome.status is Status.PASSED, outcome.message


def test_folded_division_needs_its_own_permission(triton_project):
    project = triton_project.write("y = x / 3.0", claim='allows=("div.full",),')
    outcome = project.run(CodegenCheck)
    assert outcome.status is Status.FAILED
    assert "ptxas evaluates it" in outcome.message
    project = triton_project.write("y = x / 3.0", claim='allows=("div.full", "folding"),')
    assert project.run(CodegenCheck).status is Status.PASSED


def test_variant_and_unrounded_launcher_are_compiled(triton_project):
    edits = {
        "def k(x):": "def k(x, *, wide=False):",
        "BLOCK=64, ": "BLOCK=64, WIDE=wide, ",
        "BLOCK: tl.constexpr": "BLOCK: tl.constexpr, WIDE: tl.constexpr",
    }
    body = """
    if WIDE:
        y = tl.fma(x, x, x)
    else:
        y = x * x
    """
    claim = 'variants=[Variant(name="wide", reference="k:k", env="K_WIDE")],'
    outcome = triton_project.write(body, claim=claim, edits=edits).run(CodegenCheck)
    assert '`allows` lacks "fma"' in outcome.message
    claim = "unrounded=lambda x: k(x, wide=True),"
    outcome = triton_project.write(body, claim=claim, edits=edits).run(CodegenCheck)
    assert '`allows` lacks "fma"' in outcome.message


def test_allowed_in_vain_is_noted(triton_project):
    outcome = triton_project.write("y = x + 1.0", claim='allows=("div.full",),').run(CodegenCheck)
    assert outcome.status is Status.PASSED
    assert "allowed, and not needed on the claim's cases: div.full" in outcome.notes


def test_copies_are_counted_and_long_lists_cut(triton_project):
    body = "\n".join(["y = x", *(f"y = tl.fma(y, x, {step}.0)" for step in range(1, 15))])
    outcome = triton_project.write(body).run(CodegenCheck)
    assert outcome.message.count("`allows` lacks") == 12
    assert "times)" in outcome.message
    assert "… and 2 more" in outcome.message


def test_kernel_that_launches_nothing_fails(triton_project):
    edits = {"if out.numel():": "if False:", "out = torch.empty_like(x)": "out = x + 0"}
    outcome = triton_project.write("y = x", edits=edits).run(CodegenCheck)
    assert outcome.status is Status.FAILED
    assert "no Triton kernel was launched" in outcome.message


def test_callable_on_the_cpu_is_not_judged(triton_project):
    outcome = triton_project.write("y = x", claim='runs_on="cpu",').run(CodegenCheck)
    assert outcome.status is Status.NOT_RUN
    assert "no Triton kernel" in outcome.not_run[0]


@pytest.mark.parametrize("tool", ["ptxas", "nvdisasm"])
def test_missing_tool_is_said(triton_project, monkeypatch, tool):
    found = sass.find_tool

    def find(name):
        if name == tool:
            raise sass.ToolError(f"{name} was not found")
        return found(name)

    monkeypatch.setattr(sass, "find_tool", find)
    outcome = triton_project.write("y = x").run(CodegenCheck)
    assert outcome.status is Status.NOT_RUN
    assert f"{tool} was not found" in outcome.not_run[0]


def test_machine_code_is_held_against_the_ptx(triton_project, monkeypatch):
    """A product that ptxas fused although it must not: planted into the listing."""
    disassemble = sass.disassemble
    monkeypatch.setattr(
        sass, "disassemble", lambda cubin: disassemble(cubin).replace("FADD R", "FFMA R0, R2, R")
    )
    outcome = triton_project.write("y = x * 1.7 + x").run(CodegenCheck)
    assert outcome.status is Status.FAILED
    assert "the machine code holds fma F, which the PTX does not ask for" in outcome.message
    assert "add.rn.f32" in outcome.message
