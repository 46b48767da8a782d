"""Global, local and parameter memory: values, bounds, alignment, undefined values, conflicts."""

import numpy as np
import pytest

from exactness.virtual.errors import (
    LaunchError,
    MisalignedAccessError,
    OrderDependenceError,
    OutOfBoundsError,
    UndefinedValueError,
    WriteConflictError,
)
from exactness.virtual.memory import GlobalMemory

REGISTERS = """
    .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .b16 %rs<8>;
    ld.param.b64 %rd1, [x]; ld.param.b64 %rd2, [y];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
"""


def buffers(count: int = 64) -> dict[str, np.ndarray]:
    return {"x": np.arange(count, dtype=np.uint32), "y": np.zeros(count, np.uint32)}


@pytest.mark.parametrize("vector", [1, 2, 4])
def test_vector_loads_and_stores_move_elements_in_order(run_kernel, vector):
    data = buffers(32 * vector)
    names = [f"%r{10 + i}" for i in range(vector)]
    words = "{" + ", ".join(names) + "}"
    suffix = "" if vector == 1 else f".v{vector}"
    body = f"""{REGISTERS}
        mad.wide.u32 %rd3, %r1, {4 * vector}, %rd1;
        mad.wide.u32 %rd4, %r1, {4 * vector}, %rd2;
        ld.global{suffix}.b32 {words}, [%rd3 + 0];
        add.s32 {names[0]}, {names[0]}, 1000;
        st.global{suffix}.b32 [%rd4], {words};
        ret;"""
    run_kernel(body, data)
    want = data["x"].copy()
    want[::vector] += 1000
    assert (data["y"] == want).all()


def test_narrow_loads_extend(run_kernel):
    data = {"x": np.array([0x80, 0x7F] * 32, np.uint8), "y": np.zeros(64, np.uint32)}
    body = f"""{REGISTERS}
        cvt.u64.u32 %rd3, %r1; add.s64 %rd3, %rd1, %rd3;
        mad.wide.u32 %rd4, %r1, 4, %rd2;
        ld.global.s8 %r3, [%rd3]; st.global.b32 [%rd4], %r3;
        ld.global.u8 %r3, [%rd3]; st.global.b32 [%rd4 + 128], %r3;
        ret;"""
    run_kernel(body, data)
    assert data["y"][:2].tolist() == [0xFFFFFF80, 0x7F]
    assert data["y"][32:34].tolist() == [0x80, 0x7F]


def test_predicated_load_keeps_the_old_value(run_kernel):
    data = buffers()
    body = f"""{REGISTERS}
        setp.lt.u32 %p1, %r1, 5;
        mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;
        mov.b32 %r3, 77;
        @%p1 ld.global.b32 %r3, [%rd3];
        @!%p1 add.s32 %r3, %r3, 1;
        st.global.b32 [%rd4], %r3;
        ret;"""
    counts = run_kernel(body, data)
    assert data["y"][:32].tolist() == [0, 1, 2, 3, 4] + [78] * 27
    assert counts["ld.global.b32"] == 5
    assert counts["add.s32"] == 27
    assert counts["st.global.b32"] == 32


def test_out_of_bounds_names_everything(run_kernel):
    data = buffers()
    body = f""".file 1 "/src/kernel.py"
        {REGISTERS}
        .loc 1 42 7
        mad.wide.u32 %rd3, %r1, 4, %rd1;
        ld.global.b32 %r3, [%rd3 + 256];
        ret;"""
    with pytest.raises(OutOfBoundsError) as caught:
        run_kernel(body, data)
    message = str(caught.value)
    assert "4-byte access" in message
    assert "0 bytes past the end of x" in message
    assert "thread (0, 0, 0), and 31 more lanes" in message
    assert "kernel: k" in message
    assert "instruction: ld.global.b32 %r3, [%rd3 + 256];" in message
    assert "source: /src/kernel.py:42" in message


def test_an_access_may_not_straddle_the_end(run_kernel):
    data = {"x": np.zeros(66, np.uint16), "y": np.zeros(32, np.uint32)}
    body = f"""{REGISTERS}
        setp.eq.u32 %p1, %r1, 0;
        @%p1 ld.global.v2.b64 {{%rd5, %rd6}}, [%rd1 + 128];
        ret;"""
    # Only the alignment of the host array decides which of the two it is.
    with pytest.raises((OutOfBoundsError, MisalignedAccessError)):
        run_kernel(body, data)


def test_misaligned_vector_access(run_kernel):
    data = buffers()
    body = f"""{REGISTERS}
        ld.global.v2.b32 {{%r3, %r4}}, [%rd1 + 4];
        ret;"""
    base = data["x"].ctypes.data
    assert base % 8 == 0
    with pytest.raises(MisalignedAccessError, match="not aligned to 8 bytes"):
        run_kernel(body, data)


def test_one_access_over_several_buffers(run_kernel):
    data = buffers()
    body = f"""{REGISTERS}
        setp.lt.u32 %p1, %r1, 16;
        selp.b64 %rd3, %rd1, %rd2, %p1;
        mad.wide.u32 %rd3, %r1, 4, %rd3;
        ld.global.b32 %r3, [%rd3];
        add.s32 %r3, %r3, 100;
        st.global.b32 [%rd3], %r3;
        ret;"""
    run_kernel(body, data)
    assert data["x"][:17].tolist() == [*range(100, 116), 16]
    assert data["y"][15:18].tolist() == [0, 100, 100]


@pytest.mark.parametrize(
    ("use", "what"),
    [
        ("mad.wide.u32 %rd4, %r1, 4, %rd2; st.global.b32 [%rd4], %r9;", "stored to global memory"),
        ("cvt.u64.u32 %rd4, %r9; ld.global.b32 %r3, [%rd4];", "an address"),
        ("setp.eq.b32 %p1, %r9, 0; @%p1 bra $end; add.s32 %r3, %r1, 1;", "a predicate"),
        ("setp.eq.b32 %p1, %r9, 0; @%p1 st.global.b32 [%rd2], %r1;", "a predicate"),
    ],
)
def test_undefined_values_may_not_matter(run_kernel, use, what):
    body = f"{REGISTERS} add.s32 %r9, %r8, %r1; {use} $end: ret;"
    with pytest.raises(UndefinedValueError, match=what):
        run_kernel(body, buffers())


def test_undefined_values_may_be_discarded(run_kernel):
    """Lanes that a select or an AND drops do not matter, as masked loads rely on."""
    data = buffers()
    body = f"""{REGISTERS}
        setp.lt.u32 %p1, %r1, 5;
        mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;
        @%p1 ld.global.b32 %r3, [%rd3];
        setp.gt.u32 %p2, %r3, 2;
        and.pred %p3, %p1, %p2;
        selp.b32 %r4, %r3, 9, %p1;
        @%p3 add.s32 %r4, %r4, 50;
        st.global.b32 [%rd4], %r4;
        ret;"""
    run_kernel(body, data)
    assert data["y"][:32].tolist() == [0, 1, 2, 53, 54] + [9] * 27


def test_undefined_lanes_are_found_among_defined_ones(run_kernel):
    body = f"""{REGISTERS}
        setp.ne.u32 %p1, %r1, 7;
        mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;
        @%p1 ld.global.b32 %r3, [%rd3];
        st.global.b32 [%rd4], %r3;
        ret;"""
    with pytest.raises(UndefinedValueError, match=r"thread \(7, 0, 0\), and 0 more"):
        run_kernel(body, buffers())


def test_division_by_zero_is_undefined(run_kernel):
    body = f"""{REGISTERS}
        mad.wide.u32 %rd4, %r1, 4, %rd2;
        div.u32 %r3, %r1, %r1;
        {{use}}
        ret;"""
    run_kernel(body.replace("{use}", ""), buffers())
    with pytest.raises(UndefinedValueError, match=r"thread \(0, 0, 0\), and 0 more"):
        run_kernel(body.replace("{use}", "st.global.b32 [%rd4], %r3;"), buffers())


def test_two_threads_write_different_values(run_kernel):
    body = f"{REGISTERS} st.global.b32 [%rd2], %r1; ret;"
    with pytest.raises(WriteConflictError, match="one address of y"):
        run_kernel(body, buffers())


def test_two_threads_write_the_same_value(run_kernel):
    data = buffers()
    run_kernel(f"{REGISTERS} mov.b32 %r3, 5; st.global.b32 [%rd2], %r3; ret;", data, grid=(3, 1, 1))
    assert data["y"][:2].tolist() == [5, 0]


@pytest.mark.parametrize("blocks", [2, 3000])
def test_two_blocks_write_different_values(run_kernel, blocks):
    """In one chunk and in different ones."""
    body = f"""{REGISTERS}
        mad.wide.u32 %rd4, %r1, 4, %rd2;
        st.global.b32 [%rd4], %r2;
        ret;"""
    with pytest.raises(WriteConflictError):
        run_kernel(body, buffers(), grid=(blocks, 1, 1))


def test_overlapping_stores_of_different_width_conflict(run_kernel):
    body = f"""{REGISTERS}
        setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1;
        mov.b64 %rd5, 1; mov.b16 %rs1, 9;
        @%p1 st.global.b64 [%rd2], %rd5;
        @%p2 st.global.b16 [%rd2 + 6], %rs1;
        ret;"""
    with pytest.raises(WriteConflictError):
        run_kernel(body, buffers())


def test_a_thread_may_overwrite_its_own_value(run_kernel):
    data = buffers()
    body = f"""{REGISTERS}
        mad.wide.u32 %rd4, %r1, 4, %rd2;
        st.global.b32 [%rd4], %r1; add.s32 %r3, %r1, 1; st.global.b32 [%rd4], %r3;
        ret;"""
    run_kernel(body, data)
    assert data["y"][:3].tolist() == [1, 2, 3]


def test_a_block_may_overwrite_after_a_barrier(run_kernel):
    body = f"""{REGISTERS}
        mad.wide.u32 %rd4, %r1, 4, %rd2;
        st.global.b32 [%rd4], %r1;
        {{barrier}}
        xor.b32 %r3, %r1, 1; mad.wide.u32 %rd4, %r3, 4, %rd2; st.global.b32 [%rd4], %r1;
        ret;"""
    data = buffers()
    run_kernel(body.replace("{barrier}", "bar.sync 0;"), data)
    assert data["y"][:2].tolist() == [1, 0]
    with pytest.raises(WriteConflictError):
        run_kernel(body.replace("{barrier}", ""), buffers())


def test_a_load_of_what_another_block_wrote(run_kernel):
    body = f"""{REGISTERS}
        mad.wide.u32 %rd4, %r2, 4, %rd2;
        st.global.b32 [%rd4], %r2;
        ld.global.b32 %r3, [%rd2];
        ret;"""
    run_kernel(body, buffers(), block=(1, 1, 1))
    with pytest.raises(OrderDependenceError, match="another block wrote"):
        run_kernel(body, buffers(), block=(1, 1, 1), grid=(2, 1, 1))


def test_a_load_of_what_another_warp_wrote(run_kernel):
    body = f"""{REGISTERS}
        mad.wide.u32 %rd4, %r1, 4, %rd2; xor.b32 %r4, %r1, {{lane}};
        mad.wide.u32 %rd5, %r4, 4, %rd2;
        st.global.b32 [%rd4], %r1;
        {{barrier}}
        ld.global.b32 %r3, [%rd5];
        ret;"""

    def run(lane: int, barrier: str) -> None:
        text = body.replace("{lane}", str(lane)).replace("{barrier}", barrier)
        run_kernel(text, buffers(), block=(64, 1, 1))

    run(32, "bar.sync 0;")
    run(1, "bar.warp.sync -1;")
    with pytest.raises(OrderDependenceError, match="another warp wrote"):
        run(32, "")


@pytest.mark.parametrize("blocks", [2, 1500])
def test_a_store_to_what_another_block_read(run_kernel, blocks):
    """Block 0 reads all of y, the others write to it, in one chunk or in a later one."""
    body = f"""{REGISTERS}
        mad.wide.u32 %rd4, %r1, 4, %rd2;
        setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, {blocks - 1};
        @%p1 ld.global.b32 %r3, [%rd4];
        @%p2 st.global.b32 [%rd4], {{value}};
        ret;"""
    run_kernel(body.replace("{value}", "0"), buffers(), grid=(blocks, 1, 1))
    with pytest.raises(OrderDependenceError, match="changes what another block reads"):
        run_kernel(body.replace("{value}", "7"), buffers(), grid=(blocks, 1, 1))


def test_a_block_may_work_in_place(run_kernel):
    data = {"x": np.arange(64, dtype=np.uint32), "y": np.arange(64, dtype=np.uint32)}
    body = f"""{REGISTERS}
        mad.lo.u32 %r4, %r2, 32, %r1; mad.wide.u32 %rd4, %r4, 4, %rd2;
        ld.global.b32 %r3, [%rd4]; add.s32 %r3, %r3, 5; st.global.b32 [%rd4], %r3;
        ret;"""
    run_kernel(body, data, grid=(2, 1, 1))
    assert (data["y"] == np.arange(5, 69)).all()


def test_local_memory_is_private(run_kernel):
    data = buffers()
    body = f""".local .align 8 .b8 depot[16];
        {REGISTERS}
        mov.b64 %rd5, depot;
        st.local.b32 [%rd5 + 4], %r1;
        ld.local.b32 %r3, [%rd5 + 4];
        mad.wide.u32 %rd4, %r1, 4, %rd2;
        st.global.b32 [%rd4], %r3;
        {{more}}
        ret;"""
    run_kernel(body.replace("{more}", ""), data)
    assert (data["y"][:32] == np.arange(32)).all()
    with pytest.raises(UndefinedValueError):
        run_kernel(
            body.replace("{more}", "ld.local.b32 %r3, [%rd5]; st.global.b32 [%rd4], %r3;"),
            buffers(),
        )
    with pytest.raises(OutOfBoundsError, match="local memory"):
        run_kernel(body.replace("{more}", "ld.local.b32 %r3, [%rd5 + 16];"), buffers())


def test_module_constants(run_kernel):
    data = buffers()
    declarations = ".global .align 4 .b32 table[3] = {7, 0x10, 9}; .const .align 4 .f32 one = 1.5;"
    body = f"""{REGISTERS}
        mov.b64 %rd5, table; mad.wide.u32 %rd4, %r1, 4, %rd2;
        ld.global.b32 %r3, [%rd5 + 4]; ld.const.b32 %r4, [one]; add.s32 %r3, %r3, %r4;
        st.global.b32 [%rd4], %r3;
        {{more}}
        ret;"""
    run_kernel(body.replace("{more}", ""), data, declarations)
    assert data["y"][0] == 0x10 + 0x3FC00000
    with pytest.raises(OutOfBoundsError, match="one"):
        run_kernel(body.replace("{more}", "ld.const.b32 %r3, [one + 4];"), buffers(), declarations)


def test_overlapping_buffers_are_one(run_kernel):
    whole = np.arange(64, dtype=np.uint32)
    body = f"""{REGISTERS}
        mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;
        ld.global.b32 %r3, [%rd3]; st.global.b32 [%rd4], %r3;
        ret;"""
    run_kernel(body, {"x": whole[:48], "y": whole[32:]})
    assert whole.tolist() == [*range(32), *range(32)]


def test_registration_is_checked():
    memory = GlobalMemory()
    with pytest.raises(LaunchError, match="uint8"):
        memory.register(4096, np.zeros(4, np.uint32), "x")
    memory.register(4096, np.zeros(16, np.uint8), "x")
    with pytest.raises(LaunchError, match=r"x, y overlap"):
        memory.register(4100, np.zeros(16, np.uint8), "y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": (0, 1, 1)}, "grid"),
        ({"grid": (1, 70000, 1)}, "grid"),
        ({"block": (1025, 1, 1)}, "block"),
        ({"dynamic_shared": 300000}, "shared memory"),
    ],
)
def test_launches_are_checked(run_kernel, options, message):
    with pytest.raises(LaunchError, match=message):
        run_kernel("ret;", buffers(), **options)


def test_subnormals_must_not_be_flushed_by_the_host(run_kernel):
    import torch

    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no flush-to-zero mode")
    try:
        with pytest.raises(RuntimeError, match="flushes subnormals"):
            run_kernel("ret;", buffers())
    finally:
        torch.set_flush_denormal(False)


def test_tracking_sees_accesses_of_other_widths(run_kernel):
    """A 16-byte store by one block and a 2-byte load by another, at an odd place of the buffer."""
    y = np.zeros(80, np.uint8)
    skip = -y.ctypes.data % 16 + 2
    data = {"x": np.zeros(64, np.uint32), "y": y[skip : skip + 62]}
    body = f"""{REGISTERS}
        setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 1; mov.b64 %rd5, 1;
        @%p1 st.global.v2.b64 [%rd2 + 14], {{%rd5, %rd5}};
        @%p2 ld.global.b16 %rs1, [%rd2 + {{offset}}];
        ret;"""
    for offset in (12, 30):
        run_kernel(body.replace("{offset}", str(offset)), data, grid=(2, 1, 1), block=(1, 1, 1))
    for offset in (14, 20, 28):
        with pytest.raises(OrderDependenceError):
            run_kernel(body.replace("{offset}", str(offset)), data, grid=(2, 1, 1), block=(1, 1, 1))
