"""Shuffles, votes, matches and reductions over a warp."""

import numpy as np
import pytest

from exactness.virtual.errors import BarrierDivergenceError, UndefinedValueError

START = """
    .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<8>;
    ld.param.b64 %rd1, [x]; ld.param.b64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;
    ld.global.b32 %r2, [%rd3];
"""
LANE = np.arange(32)


def run(run_kernel, body: str, x: np.ndarray | None = None) -> np.ndarray:
    data = {
        "x": np.arange(64, dtype=np.uint32) * 10 if x is None else x.astype(np.uint32),
        "y": np.zeros(64, np.uint32),
    }
    run_kernel(f"{START} {body} st.global.b32 [%rd4], %r3; ret;", data, block=(64, 1, 1))
    return data["y"]


def model(mode: str, b: int, c: int) -> np.ndarray:
    """The lane that each lane reads, from the pseudocode of the ISA manual."""
    segment, clamp = c >> 8 & 31, c & 31
    result = []
    for lane in range(32):
        most = (lane & segment) | (clamp & ~segment)
        least = lane & segment
        j, inside = {
            "up": (lane - b, lane - b >= most),
            "down": (lane + b, lane + b <= most),
            "bfly": (lane ^ b, lane ^ b <= most),
            "idx": (least | (b & ~segment), (least | (b & ~segment)) <= most),
        }[mode]
        if mode == "bfly":
            inside = (lane ^ b) <= most
        result.append(j if inside else lane)
    return np.array(result)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("b", [0, 1, 2, 3, 8, 16, 31])
@pytest.mark.parametrize("c", ["up", 31, 0x1807, 0x181F])
def test_shuffle(run_kernel, mode, b, c):
    c = (0 if mode == "up" else 31) if c == "up" else c
    source = model(mode, b, c)
    y = run(run_kernel, f"shfl.sync.{mode}.b32 %r3, %r2, {b}, {c}, -1;")
    assert (y[:32] == 10 * source).all()
    assert (y[32:] == 320 + 10 * source).all()
    # The same through registers, with the predicate.
    y = run(run_kernel, f"""mov.b32 %r5, {b}; mov.b32 %r6, {c};
        shfl.sync.{mode}.b32 %r3|%p1, %r2, %r5, %r6, -1;
        @!%p1 add.s32 %r3, %r3, 1000;""")  # fmt: skip
    lands = source != LANE
    assert (y[:32][lands] == 10 * source[lands]).all()


def test_shuffle_with_a_distance_of_its_own_in_every_lane(run_kernel):
    y = run(run_kernel, """sub.s32 %r5, 31, %r1; and.b32 %r5, %r5, 31;
        shfl.sync.idx.b32 %r3, %r2, %r5, 31, -1;""")  # fmt: skip
    assert (y[:32] == 10 * (31 - LANE)).all()


def test_shuffle_of_predicate_out_of_range(run_kernel):
    y = run(run_kernel, """shfl.sync.down.b32 %r4|%p1, %r2, 4, 31, -1;
        selp.b32 %r3, 1, 0, %p1;""")  # fmt: skip
    assert y[:32].tolist() == [1] * 28 + [0] * 4


def test_votes(run_kernel):
    head = "setp.lt.u32 %p1, %r1, 40; "
    y = run(run_kernel, head + "vote.sync.ballot.b32 %r3, %p1, -1;")
    assert y[[0, 63]].tolist() == [0xFFFFFFFF, 0xFF]
    for kind, want in {"all": [1, 0], "any": [1, 1], "uni": [1, 0]}.items():
        y = run(run_kernel, head + f"vote.sync.{kind}.pred %p2, %p1, -1; selp.b32 %r3, 1, 0, %p2;")
        assert y[[0, 63]].tolist() == want, kind
    y = run(run_kernel, head + "vote.sync.any.pred %p2, !%p1, -1; selp.b32 %r3, 1, 0, %p2;")
    assert y[[0, 63]].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add.u32", lambda v: int(v.sum()) % (1 << 32)),
        ("min.u32", lambda v: int(v.min())),
        ("max.s32", lambda v: int(v.astype(np.uint32).view(np.int32).max()) % (1 << 32)),
        ("min.s32", lambda v: int(v.astype(np.uint32).view(np.int32).min()) % (1 << 32)),
        ("xor.b32", lambda v: int(np.bitwise_xor.reduce(v))),
        ("and.b32", lambda v: int(np.bitwise_and.reduce(v))),
        ("or.b32", lambda v: int(np.bitwise_or.reduce(v))),
    ],
)
def test_redux(run_kernel, name, function):
    x = np.random.default_rng(1).integers(0, 1 << 32, 64)
    y = run(run_kernel, f"redux.sync.{name} %r3, %r2, -1;", x)
    assert y.tolist() == [function(x[:32])] * 32 + [function(x[32:])] * 32


def test_redux_of_some_lanes(run_kernel):
    y = run(run_kernel, """
        mov.b32 %r3, 7; and.b32 %r4, %r1, 31; setp.lt.u32 %p1, %r4, 4;
        @%p1 redux.sync.add.u32 %r3, %r2, 15;""")  # fmt: skip
    assert y[:5].tolist() == [60] * 4 + [7]


def test_match(run_kernel):
    x = np.concatenate([LANE // 16, np.full(32, 5)])
    y = run(run_kernel, "match.any.sync.b32 %r3, %r2, -1;", x)
    assert y[[0, 31, 32]].tolist() == [0xFFFF, 0xFFFF0000, 0xFFFFFFFF]
    y = run(run_kernel, "match.all.sync.b32 %r3|%p1, %r2, -1; @!%p1 add.s32 %r3, %r3, 9;", x)
    assert y[[0, 31, 32]].tolist() == [9, 9, 0xFFFFFFFF]


def test_activemask_and_lane_masks(run_kernel):
    y = run(run_kernel, """
        mov.b32 %r3, 0; setp.lt.u32 %p1, %r1, 3; @!%p1 bra $end;
        activemask.b32 %r3; $end:""")  # fmt: skip
    assert y[:4].tolist() == [7, 7, 7, 0]
    y = run(run_kernel, "mov.u32 %r3, %lanemask_lt; mov.u32 %r4, %laneid; add.s32 %r3, %r3, %r4;")
    assert y[[0, 3, 31, 35]].tolist() == [0, 7 + 3, 0x7FFFFFFF + 31, 7 + 3]


def test_a_shuffle_needs_all_named_lanes(run_kernel):
    body = "mov.b32 %r3, 0; setp.lt.u32 %p1, %r1, 3; @%p1 shfl.sync.bfly.b32 %r3, %r2, 1, 31, {m};"
    with pytest.raises(BarrierDivergenceError, match="member mask of a shuffle"):
        run(run_kernel, body.replace("{m}", "-1"))
    body = body.replace("{m}", "7").replace("bfly.b32 %r3, %r2, 1", "idx.b32 %r3, %r2, 2")
    y = run(run_kernel, body)
    assert y[:4].tolist() == [20, 20, 20, 0]


def test_a_shuffle_from_an_absent_lane_is_undefined(run_kernel):
    with pytest.raises(UndefinedValueError):
        run(run_kernel, """mov.b32 %r3, 0; setp.lt.u32 %p1, %r1, 3;
            @%p1 shfl.sync.bfly.b32 %r3, %r2, 1, 31, 7;""")  # fmt: skip


def test_election_takes_one_lane(run_kernel):
    y = run(run_kernel, "elect.sync %r4|%p1, -1; selp.b32 %r3, 1, 0, %p1;")
    assert y.reshape(2, 32).sum(axis=1).tolist() == [1, 1]
