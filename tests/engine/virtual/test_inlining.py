"""Calls of device functions: parameters, copies, divergence, contraction, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from exactness import virtual
from exactness.virtual import ptx
from exactness.virtual.errors import (
    LaunchError,
    UnsupportedInstructionError,
    VirtualHopperError,
)
from exactness.virtual.fusion import Proof
from exactness.virtual.inlining import called, inlined

pytest.importorskip("triton", reason="Triton's wheel ships ptxas and nvdisasm")

HEADER = ".version 8.7\n.target sm_90\n.address_size 64\n"
ENTRY = """
.visible .entry k(.param .u64 px, .param .u64 po)
{
.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;
ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [po];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
ld.global.f32 %f1, [%rd1];
BODY
st.global.f32 [%rd2], %f2;
ret;
}
"""
CALL = """{
.param .b32 param0; st.param.f32 [param0+0], %f1;
.param .b32 retval0;
call.uni (retval0), NAME, (param0);
ld.param.f32 %f2, [retval0+0];
}"""
FUNCTION = """
.func (.param .b32 func_retval0) NAME(.param .b32 NAME_param_0)
{
.reg .f32 %f<9>; .reg .pred %p<4>;
ld.param.f32 %f1, [NAME_param_0];
BODY
st.param.f32 [func_retval0+0], %f2;
ret;
}
"""


def call(name: str, target: str = "%f2") -> str:
    return CALL.replace("NAME", name).replace("%f2", target)


def function(name: str, body: str) -> str:
    return FUNCTION.replace("NAME", name).replace("BODY", body)


def module(body: str, *functions: str, cluster: str = "") -> str:
    entry = ENTRY.replace("BODY", body).replace("\n{", f"\n{cluster}{{", 1)
    return "".join((HEADER, *functions, entry))


def run(text: str, x: np.ndarray) -> tuple[np.ndarray, virtual.Launch]:
    out = np.zeros_like(x)
    return out, virtual.load_ptx(text)["k"].launch(1, x.size, x, out)


X = np.linspace(-4, 4, 64, dtype=np.float32)


def test_copies_have_registers_of_their_own():
    twice = function("twice", "add.rn.f32 %f2, %f1, %f1;")
    text = module(f"{call('twice', '%f3')}\n{call('twice')}\nadd.rn.f32 %f2, %f2, %f3;", twice)
    out, launch = run(text, X)
    assert np.array_equal(out, 4 * X)
    assert launch.counts["call.uni"] == 2 * 64
    entry = ptx.parse(text).entries["k"]
    assert [f.name for f in called(entry)] == ["twice"]
    assert len(inlined(entry).body) == len(entry.body) + 2 * 4


def test_threads_return_from_different_places():
    body = """setp.lt.f32 %p1, %f1, 0f00000000;
    mov.f32 %f2, 0f3F800000; @%p1 bra $negative;
    add.rn.f32 %f2, %f1, %f1; st.param.f32 [func_retval0+0], %f2; ret;
    $negative:"""
    out, _ = run(module(call("pick"), function("pick", body)), X)
    assert np.array_equal(out, np.where(X < 0, np.float32(1), 2 * X))


def test_a_guarded_call_and_a_guarded_return():
    body = "neg.f32 %f2, %f1; st.param.f32 [func_retval0+0], %f2; setp.gt.f32 %p1, %f1, 0f40000000;"
    clipped = function("clipped", f"{body}\n@%p1 ret; mov.f32 %f2, 0f40800000;")
    guarded = call("clipped", "%f3").replace("call.uni", "@%p1 call")
    positive = "setp.gt.f32 %p1, %f1, 0f00000000;"
    text = module(f"{positive} {guarded} selp.f32 %f2, %f3, %f1, %p1;", clipped)
    out, launch = run(text, X)
    assert np.array_equal(out, np.where(X > 2, -X, np.where(X > 0, np.float32(4), X)))
    assert launch.counts["call"] == (X > 0).sum()


def test_contraction_inside_of_a_function_is_taken_from_the_machine_code():
    mad = function("mad", "mul.f32 %f3, %f1, %f1; add.f32 %f2, %f3, 0f3DCCCCCD;")
    text = module(call("mad"), mad)
    out, launch = run(text, X)
    squares, tenth = np.float64(X) ** 2, np.float64(np.float32(0.1))
    assert np.array_equal(out, (squares + tenth).astype(np.float32))
    assert not np.array_equal(out, squares.astype(np.float32) + np.float32(0.1))
    assert [c.total.opcode for c in launch.verdict.contractions] == ["add"]

    kernel = virtual.load_ptx(text, options=["--fmad=false"])["k"]
    kernel.launch(1, 64, X, out)
    assert np.array_equal(out, squares.astype(np.float32) + np.float32(0.1))


def test_other_kernels_of_a_module_have_no_say():
    fused = module("mul.f32 %f3, %f1, %f1; add.f32 %f2, %f3, %f1;").replace("entry k(", "entry z(")
    text = fused + module("add.rn.f32 %f2, %f1, %f1;").removeprefix(HEADER)
    out, launch = run(text, X)
    assert np.array_equal(out, 2 * X)
    assert launch.verdict.proof is Proof.EXPLICIT


def test_a_function_without_a_body_fails_only_where_it_is_called():
    extern = ".extern .func (.param .b32 func_retval0) vprintf(.param .b32 vprintf_param_0);"
    guarded = call("vprintf", "%f3").replace("call.uni", "@%p1 call")
    text = module(f"mov.f32 %f2, %f1; setp.gt.f32 %p1, %f1, 0f40400000; {guarded}", extern)
    out, _ = run(text, X[:32])
    assert np.array_equal(out, X[:32])
    with pytest.raises(UnsupportedInstructionError, match="vprintf has no body in this module"):
        run(text, X)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            module(call("again"), function("again", call("again"))),
            "again calls itself",
            id="recursion",
        ),
        pytest.param(
            module(
                f"mov.u64 %rd4, one; {call('%rd4').replace('(param0);', '(param0), proto;')}",
                ".func (.param .b32 r) one(.param .b32 a) { ret; }",
            ).replace("BODY", ""),
            "a call through a pointer",
            id="pointer",
        ),
        pytest.param(
            module(call("two"), ".func (.param .b32 r) two(.param .b32 a, .param .b32 b) { ret; }"),
            "1 arguments or results where 2 are declared",
            id="count",
        ),
        pytest.param(
            module(call("wide"), ".func (.param .b32 r) wide(.param .b64 a) { ret; }"),
            "given no .param variable of 8 bytes",
            id="width",
        ),
    ],
)
def test_calls_without_a_model_are_refused(text, message):
    entry = ptx.parse(text).entries["k"]
    with pytest.raises(UnsupportedInstructionError, match=message):
        inlined(entry)


def test_a_result_that_was_not_returned_is_undefined():
    text = module(
        call("nothing"), ".func (.param .b32 r) nothing(.param .b32 nothing_param_0) { ret; }"
    )
    with pytest.raises(VirtualHopperError, match="an undefined value is stored"):
        run(text, X)


def test_clusters_are_refused():
    text = module("mov.f32 %f2, %f1;", cluster=".reqnctapercluster 2, 1, 1\n")
    with pytest.raises(UnsupportedInstructionError, match=r"reqnctapercluster \(2, 1, 1\)"):
        run(text, X)


def test_variables_that_hold_addresses_are_refused():
    table = ".global .b32 other; .global .align 8 .u64 table[1] = {generic(other)};\n"
    text = (
        HEADER
        + table
        + module("mov.u64 %rd4, table; ld.global.f32 %f2, [%rd4];").removeprefix(HEADER)
    )
    with pytest.raises(UnsupportedInstructionError, match=r"table .* initialised with addresses"):
        run(text, X)


def test_local_memory_is_aligned_for_every_thread():
    text = module(
        """.local .align 16 .b8 own[20]; .reg .b64 %SP;
        mov.u64 %rd4, own; cvta.local.u64 %SP, %rd4;
        st.v4.f32 [%SP], {%f1, %f1, %f1, %f1}; st.local.f32 [own+16], %f1;
        ld.f32 %f2, [%SP+16];"""
    )
    out, _ = run(text, X)
    assert np.array_equal(out, X)


def test_memory_of_different_objects_that_overlaps_is_refused():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(64)
    text = module("mov.f32 %f2, %f1;")
    rest = np.asarray(memoryview(tensor.numpy())[16:])
    with pytest.raises(LaunchError, match="share memory that belongs to different objects"):
        virtual.load_ptx(text)["k"].launch(1, 32, rest, tensor)
