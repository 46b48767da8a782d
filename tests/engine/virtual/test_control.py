"""Branches, loops, divergence, barriers."""

import numpy as np
import pytest

from exactness.virtual.errors import (
    BarrierDivergenceError,
    UndefinedValueError,
    UnsupportedInstructionError,
    VirtualHopperError,
)

START = """
    .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>;
    ld.param.b64 %rd1, [y];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    mad.wide.u32 %rd2, %r4, 4, %rd1;
"""


def test_a_loop_with_another_trip_count_in_every_thread(run_kernel):
    y = np.zeros(128, np.uint32)
    body = f"""{START}
        mov.b32 %r5, 0; mov.b32 %r6, 0;
    $loop:
        setp.ge.u32 %p1, %r5, %r4;
        @%p1 bra $done;
        add.s32 %r5, %r5, 1; add.s32 %r6, %r6, %r5;
        bra $loop;
    $done:
        st.global.b32 [%rd2], %r6;
        ret;"""
    counts = run_kernel(body, {"y": y}, grid=(2, 1, 1), block=(64, 1, 1))
    n = np.arange(128)
    assert (y == n * (n + 1) // 2).all()
    assert counts["add.s32"] == 2 * n.sum()
    assert counts["st.global.b32"] == 128


def test_both_sides_of_a_branch_join_again(run_kernel):
    y = np.zeros(64, np.uint32)
    body = f"""{START}
        and.b32 %r5, %r1, 1; setp.eq.b32 %p1, %r5, 0;
        @!%p1 bra $odd;
        mov.b32 %r6, 100;
        bra.uni $join;
    $odd:
        mov.b32 %r6, 200;
    $join:
        add.s32 %r6, %r6, %r1;
        st.global.b32 [%rd2], %r6;
        ret;"""
    run_kernel(body, {"y": y}, block=(64, 1, 1))
    n = np.arange(64)
    assert (y == n + np.where(n % 2, 200, 100)).all()


def test_early_exit_leaves_the_others_running(run_kernel):
    y = np.zeros(64, np.uint32)
    body = f"""{START}
        setp.gt.u32 %p1, %r1, 20;
        @%p1 ret;
        st.global.b32 [%rd2], 1;
        exit;"""
    counts = run_kernel(body, {"y": y}, block=(64, 1, 1))
    assert y.sum() == 21
    assert counts["ret"] == 43
    assert counts["exit"] == 21


def test_blocks_need_not_be_whole_warps(run_kernel):
    y = np.zeros(80, np.uint32)
    run_kernel(f"{START} add.s32 %r5, %r4, 1; st.global.b32 [%rd2], %r5; ret;", {"y": y},
               block=(40, 1, 1), grid=(2, 1, 1))  # fmt: skip
    assert (y == np.arange(1, 81)).all()


def test_thread_and_block_numbers_in_three_dimensions(run_kernel):
    y = np.zeros(2 * 3 * 2 * 4 * 3 * 2, np.uint32)
    body = """
        .reg .b32 %r<30>; .reg .b64 %rd<3>;
        ld.param.b64 %rd1, [y];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
        mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z;
        mov.u32 %r7, %ntid.x; mov.u32 %r8, %ntid.y; mov.u32 %r9, %ntid.z;
        mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
        mad.lo.u32 %r12, %r6, %r11, %r5; mad.lo.u32 %r12, %r12, %r10, %r4;
        mad.lo.u32 %r13, %r12, %r9, %r3; mad.lo.u32 %r13, %r13, %r8, %r2;
        mad.lo.u32 %r13, %r13, %r7, %r1;
        mad.wide.u32 %rd2, %r13, 4, %rd1;
        mad.lo.u32 %r14, %r4, 10, %r5; mad.lo.u32 %r14, %r14, 10, %r6;
        mad.lo.u32 %r14, %r14, 10, %r1; mad.lo.u32 %r14, %r14, 10, %r2;
        mad.lo.u32 %r14, %r14, 10, %r3;
        st.global.b32 [%rd2], %r14;
        ret;"""
    run_kernel(body, {"y": y}, grid=(2, 3, 2), block=(4, 3, 2))
    want = [
        int(f"{cx}{cy}{cz}{tx}{ty}{tz}")
        for cz in range(2) for cy in range(3) for cx in range(2)
        for tz in range(2) for ty in range(3) for tx in range(4)
    ]  # fmt: skip
    assert y.tolist() == want


def test_scopes_have_registers_and_labels_of_their_own(run_kernel):
    y = np.zeros(32, np.uint32)
    body = f"""{START}
        mov.b32 %r5, 1;
        {{ .reg .b32 %r5; .reg .pred t; mov.b32 %r5, 50; setp.lt.u32 t, %r1, 4;
           @t bra $skip; add.s32 %r5, %r5, 1; $skip: add.s32 %r6, %r5, 0; }}
        {{ .reg .b32 t; $skip: mov.b32 t, 1000; add.s32 %r6, %r6, t; }}
        add.s32 %r6, %r6, %r5;
        st.global.b32 [%rd2], %r6;
        ret;"""
    run_kernel(body, {"y": y})
    assert y.tolist() == [1051] * 4 + [1052] * 28


def test_a_barrier_that_part_of_a_warp_misses(run_kernel):
    body = f"""{START}
        setp.lt.u32 %p1, %r1, 5;
        @%p1 bra $skip;
        bar.sync 0;
    $skip:
        ret;"""
    with pytest.raises(BarrierDivergenceError, match=r"thread \(0, 0, 0\), and 4 more"):
        run_kernel(body, {"y": np.zeros(64, np.uint32)}, block=(64, 1, 1))


def test_a_barrier_that_a_warp_misses(run_kernel):
    body = f"""{START}
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra $skip;
        bar.sync 0;
    $skip:
        ret;"""
    with pytest.raises(BarrierDivergenceError, match="never reach") as caught:
        run_kernel(body, {"y": np.zeros(64, np.uint32)}, block=(64, 1, 1))
    assert "bar.sync 0;" in str(caught.value)


def test_named_barriers_join_some_warps(run_kernel):
    """Two producers and two consumers meet at barrier 1, all four later at barrier 0."""
    y = np.zeros(128, np.uint32)
    body = f"""{START}
        .shared .align 4 .b8 box[256];
        .reg .b32 %a, %b;
        mov.b32 %a, box;
        setp.lt.u32 %p1, %r1, 64;
        @%p1 bra $produce;
        bar.sync 1, 128;
        and.b32 %b, %r1, 63; xor.b32 %b, %b, 63; mad.lo.u32 %b, %b, 4, %a;
        ld.shared.b32 %r6, [%b];
        st.global.b32 [%rd2], %r6;
        bra $meet;
    $produce:
        mad.lo.u32 %b, %r1, 4, %a; mul.lo.u32 %r6, %r1, 3;
        st.shared.b32 [%b], %r6;
        bar.arrive 1, 128;
        st.global.b32 [%rd2], %r1;
    $meet:
        bar.sync 0;
        ret;"""
    run_kernel(body, {"y": y}, block=(128, 1, 1), grid=(1, 1, 1))
    n = np.arange(64)
    assert (y[:64] == n).all()
    assert (y[64:] == 3 * (63 - n)).all()


def test_warps_come_to_a_barrier_from_different_places(run_kernel):
    y = np.zeros(64, np.uint32)
    body = f"""{START}
        .shared .align 4 .b8 box[8];
        mov.b32 %r7, box;
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra $first;
        st.shared.b32 [%r7 + 4], 7;
        barrier.sync 0;
        ld.shared.b32 %r6, [%r7];
        bra $end;
    $first:
        st.shared.b32 [%r7], 5;
        barrier.sync 0;
        ld.shared.b32 %r6, [%r7 + 4];
    $end:
        st.global.b32 [%rd2], %r6;
        ret;"""
    run_kernel(body, {"y": y}, block=(64, 1, 1))
    assert y.tolist() == [7] * 32 + [5] * 32


def test_too_many_arrivals(run_kernel):
    body = f"{START} bar.sync 1, 32; ret;"
    with pytest.raises(BarrierDivergenceError, match="more threads arrive"):
        run_kernel(body, {"y": np.zeros(64, np.uint32)}, block=(64, 1, 1))


def test_barrier_reductions(run_kernel):
    y = np.zeros(64, np.uint32)
    body = f"""{START}
        setp.lt.u32 %p1, %r4, 40;
        bar.red.popc.u32 %r5, 0, %p1;
        bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, !%p1;
        selp.b32 %r6, 1000, 0, %p2; selp.b32 %r7, 2000, 0, %p3;
        add.s32 %r5, %r5, %r6; add.s32 %r5, %r5, %r7;
        st.global.b32 [%rd2], %r5;
        ret;"""
    run_kernel(body, {"y": y}, block=(32, 1, 1), grid=(2, 1, 1))
    assert y.tolist() == [1032] * 32 + [2008] * 32


def test_a_trap_is_an_error(run_kernel):
    body = f"{START} setp.eq.u32 %p1, %r1, 3; @%p1 trap; ret;"
    with pytest.raises(VirtualHopperError, match=r"trapped: block \(0, 0, 0\), thread \(3"):
        run_kernel(body, {"y": np.zeros(32, np.uint32)})


@pytest.mark.parametrize(
    "text",
    [
        "mov.u64 %rd3, %globaltimer;",
        "tcgen05.fence::before_thread_sync;",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};",
        "call.uni printf;",
        "bra $nowhere;",
        "brx.idx %r1, $nolist;",
    ],
)
def test_what_has_no_model_raises_by_name(run_kernel, text):
    name = "globaltimer" if "timer" in text else text.split(" ")[0].rstrip(";").replace(".", r"\.")
    with pytest.raises(UnsupportedInstructionError, match=name):
        run_kernel(f"{START} {text} ret;", {"y": np.zeros(32, np.uint32)})


SWITCH = f"""{START}
        mov.b32 %r6, 9;
        setp.lt.u32 %p1, %r1, 48;
    $list: .branchtargets $zero, $one, $join, $one;
        @%p1 brx.idx %r5, $list;
        mov.b32 %r6, 3; bra $join;
    $zero:
        mov.b32 %r6, 1; bra $join;
    $one:
        mov.b32 %r6, 2;
    $join:
        add.s32 %r6, %r6, 10;
        st.global.b32 [%rd2], %r6;
        ret;"""


def test_an_indexed_branch_sends_every_thread_to_its_own_target(run_kernel):
    y = np.zeros(64, np.uint32)
    counts = run_kernel(SWITCH.replace("mov.b32 %r6, 9", "and.b32 %r5, %r1, 3; mov.b32 %r6, 9"),
                        {"y": y}, block=(64, 1, 1))  # fmt: skip
    n = np.arange(64)
    assert (y == np.where(n < 48, np.array([11, 12, 19, 12])[n % 4], 13)).all()
    assert counts["brx.idx"] == 48
    assert counts["add.s32"] == 64


def test_an_index_beyond_the_list_is_an_error(run_kernel):
    body = SWITCH.replace("mov.b32 %r6, 9", "mov.b32 %r5, %r1; mov.b32 %r6, 9")
    with pytest.raises(VirtualHopperError, match=r"beyond its 4 targets: .*thread \(4, .* 43 more"):
        run_kernel(body, {"y": np.zeros(64, np.uint32)}, block=(64, 1, 1))


def test_an_undefined_index_is_an_error(run_kernel):
    with pytest.raises(UndefinedValueError, match="the index of a branch"):
        run_kernel(SWITCH, {"y": np.zeros(64, np.uint32)}, block=(64, 1, 1))
