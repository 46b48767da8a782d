"""Shared memory: values, undefined bytes, races, asynchronous copies, matrix tiles."""

import numpy as np
import pytest

from exactness.virtual.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    SharedRaceError,
    UndefinedValueError,
)

START = """
    .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .b16 %rs<8>;
    .shared .align 16 .b8 box[1024];
    ld.param.b64 %rd1, [x]; ld.param.b64 %rd2, [y];
    mov.u32 %r1, %tid.x; mov.b32 %r2, box;
    mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;
    mad.lo.u32 %r3, %r1, 4, %r2;
    xor.b32 %r4, %r1, 32; mad.lo.u32 %r4, %r4, 4, %r2;
    xor.b32 %r5, %r1, 1; mad.lo.u32 %r5, %r5, 4, %r2;
"""


def buffers() -> dict[str, np.ndarray]:
    return {"x": np.arange(100, 228, dtype=np.uint32), "y": np.zeros(128, np.uint32)}


def run(run_kernel, body: str, **options) -> np.ndarray:
    data = buffers()
    run_kernel(f"{START} {body} ret;", data, block=(64, 1, 1), **options)
    return data["y"]


def test_exchange_through_a_barrier(run_kernel):
    y = run(run_kernel, """
        ld.global.b32 %r6, [%rd3]; st.shared.b32 [%r3], %r6; bar.sync 0;
        ld.shared.b32 %r7, [%r4]; st.global.b32 [%rd4], %r7;""")  # fmt: skip
    assert (y[:64] == 100 + (np.arange(64) ^ 32)).all()


def test_every_block_has_its_own(run_kernel):
    data = buffers()
    body = f"""{START}
        mov.u32 %r8, %ctaid.x; shl.b32 %r9, %r8, 5; add.s32 %r9, %r9, %r1;
        mad.wide.u32 %rd5, %r9, 4, %rd2;
        st.shared.b32 [%r3], %r9; bar.sync 0; ld.shared.b32 %r7, [box + 8];
        st.global.b32 [%rd5], %r7; ret;"""
    run_kernel(body, data, block=(32, 1, 1), grid=(4, 1, 1))
    assert data["y"].tolist() == [2] * 32 + [34] * 32 + [66] * 32 + [98] * 32


def test_a_warp_exchanges_without_a_barrier(run_kernel):
    y = run(run_kernel, """
        st.shared.b32 [%r3], %r1; bar.warp.sync -1;
        ld.shared.b32 %r7, [%r5]; st.global.b32 [%rd4], %r7;""")  # fmt: skip
    assert (y[:64] == np.arange(64) ^ 1).all()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("st.shared.b32 [%r3], %r1; ld.shared.b32 %r7, [%r4];", "reads what another warp wrote"),
        (
            "st.shared.b32 [%r3], %r1; st.shared.b32 [%r4], 7;",
            "overwrites what another warp wrote",
        ),
        (
            "st.shared.b32 [%r3], %r1; bar.sync 0; ld.shared.b32 %r7, [%r4]; "
            "st.shared.b32 [%r3], 9;",
            "overwrites what another warp reads",
        ),
        ("st.shared.b32 [box], %r1;", "two values to one address"),
        (
            "st.shared.b32 [%r3], %r1; bar.sync 0; ld.shared.b32 %r7, [box]; "
            "setp.eq.u32 %p1, %r1, 40; @%p1 st.shared.b32 [box], 77;",
            "overwrites what another warp reads",
        ),
        # Half a word, by another warp.
        (
            "st.shared.b32 [%r3], %r1; mov.b16 %rs1, 5; st.shared.b16 [%r4 + 2], %rs1;",
            "overwrites what another warp wrote",
        ),
    ],
)
def test_races(run_kernel, body, what):
    with pytest.raises(SharedRaceError, match=what) as caught:
        run(run_kernel, body)
    assert "instruction: " in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        # Every warp writes the same values.
        "and.b32 %r8, %r1, 31; mad.lo.u32 %r9, %r8, 4, %r2; st.shared.b32 [%r9], %r8;",
        # A warp overwrites what it read itself.
        "st.shared.b32 [%r3], %r1; ld.shared.b32 %r7, [%r5]; st.shared.b32 [%r3], 9;",
        # Everybody reads one word.
        "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.b32 [box], 1; bar.sync 0; "
        "ld.shared.b32 %r7, [box]; ld.shared.b32 %r8, [box];",
        # A barrier lies between.
        "st.shared.b32 [%r3], %r1; bar.sync 0; ld.shared.b32 %r7, [%r4]; bar.sync 0; "
        "st.shared.b32 [%r3], 9;",
    ],
)
def test_no_races(run_kernel, body):
    run(run_kernel, body)


PARTIAL = """
    setp.lt.u32 %p1, %r1, 32;
    @%p1 bra $first;
    {second}
    bra $end;
$first:
    {first}
$end:
"""


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        # Producer and consumer meet: fine.
        ("st.shared.b32 [%r3], 1; bar.arrive 1, 64;", "bar.sync 1, 64; ld.shared.b32 %r7, [%r4];",
         None),
        # The producer writes on after it arrived.
        ("bar.arrive 1, 64; st.shared.b32 [%r3], 1;", "bar.sync 1, 64; ld.shared.b32 %r7, [%r4];",
         "another warp"),
        # The producer overwrites without waiting for the consumer.
        ("st.shared.b32 [%r3], 1; bar.arrive 1, 64; st.shared.b32 [%r3], 2;",
         "bar.sync 1, 64; ld.shared.b32 %r7, [%r4];", "another warp"),
        # It waits at a second barrier: fine.
        ("st.shared.b32 [%r3], 1; bar.arrive 1, 64; bar.sync 2, 64; st.shared.b32 [%r3], 2;",
         "bar.sync 1, 64; ld.shared.b32 %r7, [%r4]; bar.arrive 2, 64;", None),
    ],
)  # fmt: skip
def test_barriers_that_a_warp_passes_order_one_way(run_kernel, first, second, what):
    body = PARTIAL.replace("{first}", first).replace("{second}", second)
    if what is None:
        run(run_kernel, body)
    else:
        with pytest.raises(SharedRaceError, match=what):
            run(run_kernel, body)


def test_uninitialised_lanes_may_be_shuffled_but_not_stored(run_kernel):
    """What a reduction over warps does: a few lanes hold values, the rest shuffle nothing."""
    body = """
        setp.lt.u32 %p1, %r1, 2; @%p1 st.shared.b32 [%r3], %r1; bar.sync 0;
        ld.shared.b32 %r6, [%r3];
        shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1; add.s32 %r8, %r6, %r7;
        {guard} st.global.b32 [%rd4], %r8;
    """
    assert run(run_kernel, body.replace("{guard}", "@%p1"))[:3].tolist() == [1, 1, 0]
    with pytest.raises(UndefinedValueError, match=r"thread \(2, 0, 0\), and 61 more"):
        run(run_kernel, body.replace("{guard}", ""))


def test_bounds_and_alignment(run_kernel):
    with pytest.raises(OutOfBoundsError, match="shared offset 1024"):
        run(run_kernel, "ld.shared.b32 %r6, [box + 1024];")
    with pytest.raises(OutOfBoundsError, match="shared offset -4"):
        run(run_kernel, "ld.shared.b32 %r6, [box + -4];")
    with pytest.raises(MisalignedAccessError, match="16 bytes"):
        run(run_kernel, "ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [box + 8];")
    with pytest.raises(OutOfBoundsError):
        run(run_kernel, "mov.b32 %r6, 0; ld.shared.b32 %r7, [%r6];")


def test_dynamic_shared_memory_follows_the_static(run_kernel):
    data = buffers()
    declarations = ".extern .shared .align 16 .b8 dynamic[];"
    body = f"""{START}
        mov.b32 %r6, dynamic; sub.s32 %r7, %r6, %r2; st.shared.b32 [dynamic + 60], %r7;
        ld.shared.b32 %r8, [%r6 + 60]; st.global.b32 [%rd4], %r8; ret;"""
    run_kernel(body, data, declarations, dynamic_shared=64)
    assert data["y"][0] == 1024
    with pytest.raises(OutOfBoundsError):
        run_kernel(body, buffers(), declarations, dynamic_shared=32)


def test_generic_addresses_reach_shared_memory(run_kernel):
    y = run(run_kernel, """
        mov.b64 %rd5, box; cvta.shared.u64 %rd6, %rd5; mad.wide.u32 %rd7, %r1, 4, %rd6;
        st.b32 [%rd7], %r1; bar.sync 0;
        ld.shared.b32 %r7, [%r4]; st.b32 [%rd4], %r7;""")  # fmt: skip
    assert (y[:64] == np.arange(64) ^ 32).all()


COPY = """
    {copy}
    cp.async.commit_group;
    {wait}
    bar.sync 0;
    ld.shared.b32 %r7, [%r4]; st.global.b32 [%rd4], %r7;
"""


def test_asynchronous_copies(run_kernel):
    copy = "cp.async.ca.shared.global [%r3], [%rd3], 4;"
    body = COPY.replace("{copy}", copy)
    y = run(run_kernel, body.replace("{wait}", "cp.async.wait_group 0;"))
    assert (y[:64] == 100 + (np.arange(64) ^ 32)).all()
    with pytest.raises(UndefinedValueError):
        run(run_kernel, body.replace("{wait}", ""))
    with pytest.raises(UndefinedValueError):
        run(run_kernel, body.replace("{wait}", "cp.async.wait_group 1;"))


def test_asynchronous_copies_zero_fill(run_kernel):
    copy = """setp.lt.u32 %p1, %r1, 50; selp.b32 %r8, 4, 0, %p1; selp.b64 %rd5, %rd3, 0, %p1;
        cp.async.ca.shared.global [%r3], [%rd5], 4, %r8;"""
    y = run(run_kernel, COPY.replace("{copy}", copy).replace("{wait}", "cp.async.wait_all;"))
    lane = np.arange(64) ^ 32
    assert (y[:64] == np.where(lane < 50, 100 + lane, 0)).all()


def test_copy_groups_complete_in_order(run_kernel):
    y = run(run_kernel, """
        cp.async.ca.shared.global [%r3], [%rd3], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%r3 + 256], [%rd3 + 4], 4; cp.async.commit_group;
        cp.async.wait_group 1; bar.sync 0;
        ld.shared.b32 %r7, [%r4]; st.global.b32 [%rd4], %r7;""")  # fmt: skip
    assert (y[:64] == 100 + (np.arange(64) ^ 32)).all()


def tile(matrix: int) -> np.ndarray:
    return (np.arange(64, dtype=np.uint32) + 64 * matrix).reshape(8, 8)


@pytest.mark.parametrize("transposed", [False, True])
def test_matrix_tiles(run_kernel, transposed):
    """ldmatrix of four 8x8 tiles laid out row after row."""
    x = np.arange(256, dtype=np.uint16).view(np.uint32)
    y = np.zeros(128, np.uint32)
    trans = ".trans" if transposed else ""
    body = f"""{START}
        mad.wide.u32 %rd5, %r1, 16, %rd1; mad.lo.u32 %r6, %r1, 16, %r2;
        ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd5];
        st.shared.v4.b32 [%r6], {{%r10, %r11, %r12, %r13}};
        bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r20, %r21, %r22, %r23}}, [%r6];
        mad.wide.u32 %rd6, %r1, 16, %rd2;
        st.global.v4.b32 [%rd6], {{%r20, %r21, %r22, %r23}};
        ret;"""
    run_kernel(body, {"x": x, "y": y})
    got = y.view(np.uint16).reshape(32, 4, 2)
    for lane in range(32):
        for matrix in range(4):
            t = tile(matrix).T if transposed else tile(matrix)
            row, column = lane // 4, 2 * (lane % 4)
            assert got[lane, matrix].tolist() == t[row, column : column + 2].tolist()


def test_matrix_store_is_the_inverse(run_kernel):
    x = np.arange(256, dtype=np.uint16).view(np.uint32)
    y = np.zeros(128, np.uint32)
    body = f"""{START}
        mad.wide.u32 %rd5, %r1, 16, %rd1; mad.lo.u32 %r6, %r1, 16, %r2;
        ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd5];
        st.shared.v4.b32 [%r6], {{%r10, %r11, %r12, %r13}};
        bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%r20, %r21, %r22, %r23}}, [%r6];
        stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r6 + 512], {{%r20, %r21, %r22, %r23}};
        bar.warp.sync -1;
        ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r6 + 512];
        mad.wide.u32 %rd6, %r1, 16, %rd2;
        st.global.v4.b32 [%rd6], {{%r10, %r11, %r12, %r13}};
        ret;"""
    run_kernel(body, {"x": x, "y": y})
    assert (y == x).all()
