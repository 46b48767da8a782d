"""Tensor maps, mbarriers and the copy engine, in hand-written PTX and in Triton kernels."""

import itertools

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import exactness.virtual
from exactness.formats import bf16
from exactness.hopper.tensor_core import kind_of, matmul
from exactness.virtual.errors import (
    BarrierDivergenceError,
    LaunchError,
    MisalignedAccessError,
    OutOfBoundsError,
    SharedRaceError,
    UnsupportedInstructionError,
    VirtualHopperError,
)
from exactness.virtual.tensor_maps import encoded

BOX, BARRIER = 1024, 1024 + 32768
KINDS = {1: 0, 2: 1, 4: 7, 8: 9}
SPANS = (16, 32, 64, 128)
SHARED = ".extern .shared .align 1024 .b8 s[40960];"
START = f"""
    .reg .b32 %t, %b, %m, %w, %c<5>, %x; .reg .b64 %p, %o, %q; .reg .pred %first, %z, %done;
    mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0; mul.wide.u32 %o, %t, 4;
    mov.b32 %b, {BOX}; mov.b32 %m, {BARRIER}; ld.param.b64 %p, [map];
    @%first mbarrier.init.shared::cta.b64 [%m], 1;
    fence.proxy.async.shared::cta; bar.sync 0;
"""
WAIT = """
    again: mbarrier.try_wait.parity.shared::cta.b64 %done, [%m], 0;
    @!%done bra again;
"""


def corner(at: tuple[int, ...]) -> tuple[str, str]:
    """Registers with the coordinates, innermost first, and how they are named."""
    moves = "".join(f"mov.b32 %c{i}, {value};" for i, value in enumerate(reversed(at)))
    return moves, "{" + ", ".join(f"%c{i}" for i in range(len(at))) + "}"


def load_text(at: tuple[int, ...], count: int) -> str:
    """Bring a box to shared memory."""
    moves, named = corner(at)
    operation = f"cp.async.bulk.tensor.{len(at)}d.shared::cta.global"
    return f"""
    {moves} @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], {count};
    @%first {operation}.mbarrier::complete_tx::bytes [%b], [%p, {named}], [%m];
    """


def out_text(count: int) -> str:
    """Copy shared memory to `out`, at most 128 bytes at a time, by one warp."""
    lines = ["ld.param.b64 %q, [out]; add.s64 %q, %q, %o; shl.b32 %x, %t, 2;"]
    lines.append(f"add.s32 %x, %x, {BOX}; sub.s32 %m, {BOX + count}, %x;")
    for step in range(0, count, 128):
        lines.append(f"setp.gt.s32 %z, %m, {step};")
        lines.append(f"@%z ld.shared.b32 %w, [%x+{step}]; @%z st.global.b32 [%q+{step}], %w;")
    return "\n".join([*lines, "ret;"])


def tensor_map(x: np.ndarray, box: tuple[int, ...], swizzle: int = 0, **changes: int) -> np.ndarray:
    fields = {"address": x.ctypes.data, "kind": KINDS[x.itemsize], "fill": 0, **changes}
    data = encoded(
        shape=x.shape[::-1], strides=x.strides[-2::-1], box=box[::-1], swizzle=swizzle, **fields
    )
    return np.frombuffer(data, np.uint8).copy()


def aligned(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Random patterns at a multiple of 16."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.random.default_rng(seed).integers(0, 256, size + 16, dtype=np.uint8)
    skip = -buffer.ctypes.data % 16
    return buffer[skip : skip + size].view(dtype).reshape(shape)


def expected_box(x: np.ndarray, box: tuple[int, ...], at: tuple[int, ...]) -> np.ndarray:
    """The box at a corner, zero outside of the tensor, element by element."""
    result = np.zeros(box, x.dtype)
    for index in itertools.product(*map(range, box)):
        place = tuple(i + c for i, c in zip(index, at, strict=True))
        if all(0 <= p < n for p, n in zip(place, x.shape, strict=True)):
            result[index] = x[place]
    return result


def swizzled(data: np.ndarray, mode: int) -> np.ndarray:
    """Bytes as the engine lays them out; the box begins at a multiple of 1024."""
    address = np.arange(data.size)
    result = np.empty_like(data)
    result[address ^ ((address >> 7) % (SPANS[mode] // 16) << 4)] = data
    return result


CASES = [
    ((300,), "u4", (64,), (248,)),
    ((9, 64), "u2", (8, 32), (0, 0)),
    ((9, 64), "u2", (8, 32), (5, 48)),
    ((9, 64), "u2", (4, 16), (-2, -8)),
    ((5, 40), "u4", (2, 8), (4, 36)),
    ((12, 80), "u1", (8, 64), (7, 32)),
    ((3, 4, 8), "u8", (2, 2, 4), (2, -1, 6)),
    ((3, 2, 4, 16), "u2", (2, 2, 2, 8), (1, 1, 3, 8)),
    ((2, 3, 2, 3, 8), "u4", (2, 1, 2, 2, 4), (1, 2, -1, 2, 4)),
]


@pytest.mark.parametrize("shape, dtype, box, at", CASES)  # noqa: PT006
def test_boxes_from_global_memory(run_kernel, shape, dtype, box, at) -> None:
    x = aligned(shape, dtype)
    expected = expected_box(x, box, at)
    out = np.zeros(expected.nbytes, np.uint8)
    body = START + load_text(at, expected.nbytes) + WAIT + out_text(out.size)
    run_kernel(body, {"map": tensor_map(x, box), "x": x, "out": out}, declarations=SHARED)
    assert np.array_equal(out, expected.reshape(-1).view(np.uint8))


def test_an_extent_that_is_no_multiple_of_16_bytes(run_kernel) -> None:
    """The rest of the row is memory, but not the tensor's."""
    x = aligned((8, 64), "u2")
    expected = expected_box(x[:, :61], (8, 16), (0, 48))
    out = np.zeros(expected.nbytes, np.uint8)
    body = START + load_text((0, 48), expected.nbytes) + WAIT + out_text(out.size)
    buffers = {"map": tensor_map(x[:, :61], (8, 16)), "x": x, "out": out}
    run_kernel(body, buffers, declarations=SHARED)
    assert np.array_equal(out, expected.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("at", [(0, 0), (3, 8)])
def test_swizzles(run_kernel, mode: int, at: tuple[int, int]) -> None:
    x = aligned((24, 128), "u2")
    box = (16, SPANS[mode] // 2)
    expected = expected_box(x, box, at)
    out = np.zeros(expected.nbytes, np.uint8)
    body = START + load_text(at, expected.nbytes) + WAIT + out_text(out.size)
    run_kernel(body, {"map": tensor_map(x, box, mode), "x": x, "out": out}, declarations=SHARED)
    assert np.array_equal(out, swizzled(expected.reshape(-1).view(np.uint8), mode))


@pytest.mark.parametrize("mode", [0, 3])
@pytest.mark.parametrize("at", [(0, 0), (5, 40), (-3, -8)])
def test_boxes_to_global_memory(run_kernel, mode: int, at: tuple[int, int]) -> None:
    """A box goes through shared memory to another tensor; what is outside of it stays."""
    x, y = aligned((16, 64), "u2", 1), aligned((12, 72), "u2", 2)
    before, box = y.copy(), (16, 64)
    maps = np.concatenate([tensor_map(x, box, mode), tensor_map(y, box, mode)])
    moves, named = corner(at)
    body = f"""{START} {load_text((0, 0), 2048)} {WAIT}
    {moves} add.s64 %p, %p, 128;
    @%first cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%p, {named}], [%b];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; ret;"""
    run_kernel(body, {"map": maps, "x": x, "y": y}, declarations=SHARED)
    for i, j in itertools.product(range(12), range(72)):
        row, column = i - at[0], j - at[1]
        inside = 0 <= row < 16 and 0 <= column < 64
        assert y[i, j] == (x[row, column] if inside else before[i, j])


def test_plain_bytes_there_and_back(run_kernel) -> None:
    x, out = aligned((64,), "u4"), aligned((64,), "u4", 1)
    body = f"""{START} ld.param.b64 %q, [out];
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 256;
    @%first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%p], 256, [%m];
    {WAIT}
    @%first cp.async.bulk.global.shared::cta.bulk_group [%q], [%b], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;"""
    run_kernel(body, {"map": x, "out": out}, declarations=SHARED)
    assert np.array_equal(out, x)


def run_copy(run_kernel, body: str, box: tuple[int, int] = (8, 64), **changes: int) -> None:
    x, out = aligned((16, 128), "u2"), np.zeros(1024, np.uint8)
    data = tensor_map(x, box, **changes)
    run_kernel(START + body, {"map": data, "x": x, "out": out}, declarations=SHARED)


def test_who_does_not_wait_races_with_the_copy(run_kernel) -> None:
    with pytest.raises(SharedRaceError, match="reads what another warp wrote"):
        run_copy(run_kernel, load_text((0, 0), 1024) + out_text(1024))


def test_a_barrier_is_no_wait(run_kernel) -> None:
    with pytest.raises(SharedRaceError, match="reads what another warp wrote"):
        run_copy(run_kernel, load_text((0, 0), 1024) + "bar.sync 0;" + out_text(1024))


def test_a_phase_whose_bytes_never_come_never_ends(run_kernel) -> None:
    with pytest.raises(BarrierDivergenceError, match="for a phase that never ends"):
        run_copy(run_kernel, load_text((0, 0), 1025) + WAIT + "ret;")


@pytest.mark.parametrize(
    ("access", "message"),
    [("st.shared.b32 [%x], %t;", "what another warp wrote"), ("ld.shared.b32 %w, [%x];", "reads")],
)
def test_a_copy_over_another_warps_data_races(run_kernel, access: str, message: str) -> None:
    """The second warp copies over what the first touched, with no barrier between."""
    start = START.replace("%first, %t, 0", "%first, %t, 32")
    body = f"""{start} .reg .pred %other; mov.b32 %x, {BOX + 8}; setp.lt.u32 %other, %t, 1;
    @%first st.shared.b32 [%x], %t; bar.sync 0;
    @!%other bra copy; {access} copy: {load_text((0, 0), 1024)} ret;"""
    x = aligned((16, 128), "u2")
    buffers = {"map": tensor_map(x, (8, 64)), "x": x}
    with pytest.raises(SharedRaceError, match=f"a bulk copy overwrites.*{message}"):
        run_kernel(body, buffers, declarations=SHARED, block=(64, 1, 1))


def test_other_mistakes_have_their_errors(run_kernel) -> None:
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%m];"
    with pytest.raises(BarrierDivergenceError, match="more threads arrive than an mbarrier"):
        run_copy(run_kernel, arrive + "ret;")
    with pytest.raises(VirtualHopperError, match="there is no mbarrier"):
        run_copy(run_kernel, "add.s32 %m, %m, 8;" + arrive + "ret;")
    with pytest.raises(MisalignedAccessError, match="multiple of 128 bytes"):
        run_copy(run_kernel, "add.s32 %b, %b, 16;" + load_text((0, 0), 1024) + "ret;")
    with pytest.raises(OutOfBoundsError, match="outside of the block's"):
        run_copy(run_kernel, "add.s32 %b, %b, 40448;" + load_text((0, 0), 1024) + "ret;")
    with pytest.raises(LaunchError, match="a multiple of 16 is accepted"):
        run_copy(run_kernel, load_text((0, 0), 1024) + "ret;", box=(8, 6))
    with pytest.raises(LaunchError, match="an innermost coordinate of 3 elements of 2 bytes"):
        run_copy(run_kernel, load_text((0, 3), 1024) + "ret;")
    with pytest.raises(UnsupportedInstructionError, match="fill with NaN"):
        run_copy(run_kernel, load_text((0, 0), 1024) + "ret;", fill=1)
    with pytest.raises(UnsupportedInstructionError, match="element type that converts"):
        run_copy(run_kernel, load_text((0, 0), 1024) + "ret;", kind=11)
    with pytest.raises(UnsupportedInstructionError, match="arrive_drop"):
        run_copy(run_kernel, "mbarrier.arrive_drop.shared::cta.b64 _, [%m]; ret;")


def test_the_phase_before_the_first_counts_as_complete(run_kernel) -> None:
    run_copy(run_kernel, WAIT.replace("[%m], 0", "[%m], 1") + "ret;")


PING_PONG = """
    .reg .b32 %t, %s, %e, %f, %v, %n, %i; .reg .b64 %q, %o, %token; .reg .pred %first, %w, %d, %l;
    mov.u32 %t, %tid.x; mov.b32 %e, 1024; mov.b32 %f, 1032; mov.b32 %i, 0; mov.b32 %v, 7;
    setp.eq.u32 %first, %t, 0; setp.lt.u32 %w, %t, 32; ld.param.b64 %q, [out];
    @%first mbarrier.init.shared::cta.b64 [%e], 32; @%first mbarrier.init.shared::cta.b64 [%f], 32;
    and.b32 %s, %t, 31; shl.b32 %s, %s, 2; add.s32 %s, %s, 1152; bar.sync 0;
    @%w bra consumer;
producer:
    {empty}
    mul.lo.u32 %v, %v, 3; add.s32 %v, %v, %t; st.shared.b32 [%s], %v;
    mbarrier.arrive.shared::cta.b64 %token, [%f];
    add.s32 %i, %i, 1; setp.lt.u32 %l, %i, 5; @%l bra producer;
    ret;
consumer:
    and.b32 %n, %i, 1;
full: mbarrier.try_wait.parity.shared::cta.b64 %d, [%f], %n; @!%d bra full;
    xor.b32 %v, %s, 4; ld.shared.b32 %v, [%v];
    mbarrier.arrive.shared::cta.b64 _, [%e];
    mad.lo.u32 %n, %i, 32, %t; mul.wide.u32 %o, %n, 4; add.s64 %o, %o, %q; st.global.b32 [%o], %v;
    add.s32 %i, %i, 1; setp.lt.u32 %l, %i, 5; @%l bra consumer;
    ret;
"""
EMPTY = """
    and.b32 %n, %i, 1; xor.b32 %n, %n, 1;
empty: mbarrier.test_wait.parity.shared::cta.b64 %d, [%e], %n; @!%d bra empty;
"""


def test_a_producer_and_a_consumer(run_kernel) -> None:
    """One warp hands values to another through one word a lane, five times."""
    out = np.zeros((5, 32), np.uint32)
    options = {"block": (64, 1, 1), "declarations": SHARED, "grid": (2, 1, 1)}
    run_kernel(PING_PONG.replace("{empty}", EMPTY), {"out": out}, **options)
    lane, value = np.arange(32) ^ 1, np.full(32, 7)
    for row in out:
        value = 3 * value + 32 + lane
        assert np.array_equal(row, value)


def test_a_producer_that_does_not_wait_races(run_kernel) -> None:
    out = np.zeros((5, 32), np.uint32)
    with pytest.raises((SharedRaceError, BarrierDivergenceError)):
        run_kernel(PING_PONG.replace("{empty}", ""), {"out": out}, block=(64, 1, 1),
                   declarations=SHARED)  # fmt: skip


def test_tokens_and_clusters_of_one(run_kernel) -> None:
    out = np.zeros(64, np.uint32)
    body = """
    .reg .b32 %t, %m, %s, %v; .reg .b64 %q, %o, %token; .reg .pred %first, %d;
    mov.u32 %t, %tid.x; mov.b32 %m, 1024; setp.eq.u32 %first, %t, 0; ld.param.b64 %q, [out];
    @%first mbarrier.init.shared::cta.b64 [%m], 64; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    shl.b32 %s, %t, 2; add.s32 %s, %s, 1280; mapa.shared::cluster.u32 %s, %s, 0;
    st.shared.b32 [%s], %t;
    mbarrier.arrive.shared::cta.b64 %token, [%m];
again: mbarrier.try_wait.shared::cta.b64 %d, [%m], %token; @!%d bra again;
    xor.b32 %s, %s, 252; ld.shared.b32 %v, [%s];
    mul.wide.u32 %o, %t, 4; add.s64 %o, %o, %q; st.global.b32 [%o], %v; ret;
    """
    run_kernel(body, {"out": out}, block=(64, 1, 1), declarations=SHARED)
    address = (1280 + 4 * np.arange(64)) ^ 252
    assert np.array_equal(out, (address - 1280) // 4)


def test_copies_of_threads_that_an_mbarrier_waits_for(run_kernel) -> None:
    x, out = aligned((64,), "u4"), np.zeros(64, np.uint32)
    body = """
    .reg .b32 %t, %m, %s, %v; .reg .b64 %p, %q, %o, %token; .reg .pred %first, %d;
    mov.u32 %t, %tid.x; mov.b32 %m, 1024; setp.eq.u32 %first, %t, 0;
    ld.param.b64 %q, [out]; ld.param.b64 %p, [x]; mul.wide.u32 %o, %t, 4;
    add.s64 %p, %p, %o; add.s64 %q, %q, %o;
    @%first mbarrier.init.shared::cta.b64 [%m], 64; bar.sync 0;
    shl.b32 %s, %t, 2; add.s32 %s, %s, 1280;
    cp.async.ca.shared.global [%s], [%p], 4;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%m];
again: mbarrier.try_wait.parity.shared::cta.b64 %d, [%m], 0; @!%d bra again;
    xor.b32 %s, %s, 128; ld.shared.b32 %v, [%s]; st.global.b32 [%q], %v; ret;
    """
    run_kernel(body, {"x": x, "out": out}, block=(64, 1, 1), declarations=SHARED)
    assert np.array_equal(out, np.concatenate([x[32:], x[:32]]))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
            SPECIALIZE: tl.constexpr):  # fmt: skip
    top, left = tl.program_id(0) * M, tl.program_id(1) * N
    a = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [M, K])
    b = tl.make_tensor_descriptor(b_ptr, [n, k], [k, 1], [N, K])
    c = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [M, N])
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in tl.range(0, k, K, warp_specialize=SPECIALIZE):
        acc = tl.dot(a.load([top, start]), b.load([left, start]).T, acc)
    c.store([top, left], acc)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("specialize", [False, True])
def test_products_of_descriptors(stages: int, specialize: bool) -> None:
    generator = torch.Generator().manual_seed(stages)
    m, n, k = 70, 36, 200
    a, b = (torch.randn(size, k, generator=generator).bfloat16() for size in (m, n))
    c = torch.empty(m, n)
    with exactness.virtual.hopper() as machine:
        product[(2, 2)](a, b, c, m, n, k, 64, 32, 64, specialize, num_stages=stages)
    expected = matmul(a.float().numpy(), b.float().numpy().T.copy(), kind=kind_of(bf16, bf16))
    assert np.array_equal(c.numpy().view(np.uint32), expected.view(np.uint32))
    assert any("cp.async.bulk.tensor" in name for name in machine.counts)
    if specialize and stages > 1:
        assert any(name.startswith("setmaxnreg") for name in machine.counts)
