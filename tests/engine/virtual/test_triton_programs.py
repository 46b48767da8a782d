"""Programs that the Triton compiler produces, with results that no order of summation changes."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import exactness.virtual
from exactness.virtual.errors import OutOfBoundsError

NO_FUSION = {"enable_fp_fusion": False}


@pytest.fixture(autouse=True)
def hopper():
    with exactness.virtual.hopper() as machine:
        yield machine


@triton.jit
def reduce_tile(
    x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, OP: tl.constexpr
):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        r = tl.sum(x, AXIS)
    if OP == "max":
        r = tl.max(x, AXIS)
    if OP == "min":
        r = tl.min(x, AXIS)
    if OP == "argmax":
        r = tl.argmax(x, AXIS)
    if AXIS == 0:
        tl.store(o_ptr + tl.arange(0, N), r)
    else:
        tl.store(o_ptr + tl.arange(0, M), r)


@triton.jit
def map_tile(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, OP: tl.constexpr):
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + where)
    if OP == "cumsum0":
        tl.store(o_ptr + where, tl.cumsum(x, 0))
    if OP == "cumsum1":
        tl.store(o_ptr + where, tl.cumsum(x, 1))
    if OP == "reverse cumsum1":
        tl.store(o_ptr + where, tl.cumsum(x, 1, reverse=True))
    if OP == "sort":
        tl.store(o_ptr + where, tl.sort(x, 1))
    if OP == "flip":
        tl.store(o_ptr + where, tl.flip(x, 1))
    if OP == "transpose":
        t = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
        tl.store(o_ptr + t, tl.trans(x))


def whole_numbers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Small integers: sums of them are exact in every format and order."""
    generator = torch.Generator().manual_seed(sum(shape))
    limit = 2 if dtype in (torch.bfloat16, torch.float16) else 1000
    return torch.randint(-limit, limit, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
@pytest.mark.parametrize("op", ["sum", "max", "min", "argmax"])
def test_reductions_along_each_axis(op, dtype, warps):
    x = whole_numbers((16, 64), dtype)
    for axis in (0, 1):
        index = op == "argmax"
        out = torch.full((64 if axis == 0 else 16,), -1, dtype=torch.int32 if index else dtype)
        reduce_tile[(1,)](x, out, 16, 64, axis, op, num_warps=warps, **NO_FUSION)
        if index:
            found = x.gather(axis, out.long().unsqueeze(axis)).squeeze(axis)
            assert torch.equal(found, x.amax(axis))
            continue
        wide = x.to(torch.float64)
        want = {"sum": wide.sum, "max": wide.amax, "min": wide.amin}[op](axis)
        assert torch.equal(out.to(torch.float64), want)


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize(
    "op", ["cumsum0", "cumsum1", "reverse cumsum1", "sort", "flip", "transpose"]
)
def test_maps_over_a_tile(op, dtype, warps):
    x = whole_numbers((16, 64), dtype)
    out = torch.zeros_like(x)
    map_tile[(1,)](x, out, 16, 64, op, num_warps=warps, **NO_FUSION)
    wide = x.to(torch.float64)
    want = {
        "cumsum0": wide.cumsum(0),
        "cumsum1": wide.cumsum(1),
        "reverse cumsum1": wide.flip(1).cumsum(1).flip(1),
        "sort": wide.sort(1).values,
        "flip": wide.flip(1),
        "transpose": wide.T.reshape(16, 64),
    }[op]
    assert torch.equal(out.to(torch.float64), want)


@triton.jit
def convert(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n)
    tl.store(o_ptr + where, x.to(o_ptr.dtype.element_ty), mask=where < n)


FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


@pytest.mark.parametrize("into", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("out", [*FLOATS, *INTEGERS], ids=str)
def test_conversions(out, into):
    """Values that every pair of types rounds the same way on every machine."""
    if into in FLOATS:
        generator = torch.Generator().manual_seed(1)
        x = (torch.randn(777, generator=generator, dtype=torch.float64) * 30).to(into)
    else:
        x = torch.arange(777).remainder(127).to(into)
    result = torch.zeros(777, dtype=out)
    convert[(2,)](x, result, 777, BLOCK=512, **NO_FUSION)
    if out in INTEGERS and into in FLOATS:
        unsigned = out is torch.uint8
        # Triton converts by way of wider integers: only values inside the range are defined.
        inside = (x > -1) & (x < 256) if unsigned else (x.abs() < 128)
        want = x.to(torch.float64).trunc().to(torch.int64).to(out)
        assert torch.equal(result[inside], want[inside])
        return
    want = x.to(torch.float64).to(out) if into is not torch.float64 else x.to(out)
    if into is torch.float64 and out in (torch.bfloat16, torch.float16):
        # torch rounds twice from f64 (through f32); the instruction rounds once.
        assert (result.float() - x.float()).abs().max() <= 2.0**-6 * x.abs().max()
        return
    assert torch.equal(result, want)


@triton.jit
def integer_operations(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n, other=1)
    y = tl.load(y_ptr + where, mask=where < n, other=1)
    z = x // y + x % y
    z = z ^ (x & y) | (x << 1)
    z = z + (x >> 2) + ~x
    tl.store(o_ptr + where, z.to(x.dtype), mask=where < n)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_operations(dtype):
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(0, 100, (1000,), generator=generator).to(dtype)
    y = torch.randint(1, 20, (1000,), generator=generator).to(dtype)
    out = torch.zeros_like(x)
    integer_operations[(2,)](x, y, out, 1000, BLOCK=512)
    a, b = x.numpy(), y.numpy()
    z = a // b + a % b
    z = z ^ (a & b) | (a << 1)
    z = z + (a >> 2) + ~a
    assert (out.numpy() == z.astype(a.dtype)).all()


@triton.jit
def row_sums(x_ptr, o_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    acc = tl.zeros([BLOCK], tl.float32)
    row = tl.program_id(0)
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        where = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + where, mask=where < n, other=0.0)
    tl.store(o_ptr + row, tl.sum(acc, 0))


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_loops_with_and_without_pipelining(stages):
    x = whole_numbers((6, 3001), torch.float32)
    out = torch.zeros(6)
    row_sums[(6,)](x, out, 3001, BLOCK=512, STAGES=stages, **NO_FUSION)
    assert torch.equal(out, x.sum(1))


@triton.jit
def count_down(x_ptr, o_ptr):
    row = tl.program_id(0)
    value = tl.load(x_ptr + row)
    steps = 0
    while value > 1:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        steps += 1
    tl.store(o_ptr + row, steps)


def collatz(value: int) -> int:
    steps = 0
    while value > 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    return steps


def test_blocks_that_loop_differently():
    x = torch.arange(1, 301, dtype=torch.int32)
    out = torch.zeros(300, dtype=torch.int32)
    count_down[(300,)](x, out)
    assert out.tolist() == [collatz(v) for v in range(1, 301)]


@triton.jit
def gather_rows(x_ptr, i_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x, i = tl.load(x_ptr + where), tl.load(i_ptr + where)
    tl.store(o_ptr + where, tl.gather(x, i, 1))


def test_gather():
    x = whole_numbers((16, 64), torch.float32)
    index = torch.randint(0, 64, (16, 64), dtype=torch.int32)
    out = torch.zeros_like(x)
    gather_rows[(1,)](x, index, out, 16, 64)
    assert torch.equal(out, x.gather(1, index.long()))


@triton.jit
def atomics(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = where < n
    x = tl.load(x_ptr + where, mask=mask, other=0)
    tl.atomic_add(o_ptr + x % 7, 1, mask=mask)
    tl.atomic_max(o_ptr + 8 + x % 3, x, mask=mask)
    tl.atomic_xor(o_ptr + 12 + x % 3, x, mask=mask)


def test_atomics_that_commute():
    x = torch.randint(0, 10000, (1000,), dtype=torch.int32)
    out = torch.zeros(16, dtype=torch.int32)
    atomics[(8,)](x, out, 1000, BLOCK=128)
    assert torch.equal(out[:7], torch.bincount(x % 7, minlength=7).int())
    assert out[8:11].tolist() == [int(x[x % 3 == k].max()) for k in range(3)]
    xor = [int(np.bitwise_xor.reduce(x[x % 3 == k].numpy())) for k in range(3)]
    assert out[12:15].tolist() == xor


@triton.jit
def histogram(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr + tl.arange(0, 32), tl.histogram(x, 32))


def test_histogram():
    x = torch.randint(0, 32, (1024,), dtype=torch.int32)
    out = torch.zeros(32, dtype=torch.int32)
    histogram[(1,)](x, out, 1024)
    assert torch.equal(out, torch.bincount(x, minlength=32).int())


@triton.jit
def three_dimensions(x_ptr, o_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    where = a[:, None, None] * B * C + b[None, :, None] * C + c[None, None, :]
    x = tl.load(x_ptr + where)
    y = tl.permute(x, (2, 0, 1))
    there = c[:, None, None] * A * B + a[None, :, None] * B + b[None, None, :]
    tl.store(o_ptr + there, y + tl.sum(tl.sum(y, 2), 1)[:, None, None])


@pytest.mark.parametrize("warps", [1, 4])
def test_three_dimensions(warps):
    x = whole_numbers((4, 8, 32), torch.float32)
    out = torch.zeros(32, 4, 8)
    three_dimensions[(1,)](x, out, 4, 8, 32, num_warps=warps, **NO_FUSION)
    y = x.permute(2, 0, 1)
    assert torch.equal(out, y + y.sum((1, 2))[:, None, None])


@triton.jit
def inline_assembly(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    z = tl.inline_asm_elementwise(
        "{ .reg .f32 t; fma.rm.f32 t, $1, 0f40000000, 0f3F800000; mul.rn.f32 $0, t, 0f3F000000; }",
        "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(o_ptr + tl.arange(0, N), z)


def test_inline_assembly():
    x = whole_numbers((256,), torch.float32)
    out = torch.zeros(256)
    inline_assembly[(1,)](x, out, 256, **NO_FUSION)
    assert torch.equal(out, x + 0.5)


@triton.jit
def unmasked(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    where = tl.arange(0, BLOCK)
    tl.store(o_ptr + where, tl.load(x_ptr + where), mask=where < n)


@triton.jit
def undefined_lanes(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    where = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + where, mask=where < n)
    tl.store(o_ptr + where, x)


def test_a_missing_mask_is_an_error_with_its_source_line():
    x, out = torch.zeros(100), torch.zeros(128)
    with pytest.raises(OutOfBoundsError) as caught:
        unmasked[(1,)](x, out, 100, BLOCK=128)
    message = str(caught.value)
    assert "past the end of x_ptr" in message
    assert "test_triton_programs.py:" in message
    assert "kernel: unmasked" in message


def test_masked_lanes_of_a_load_hold_zero():
    """Triton writes zero before it loads, though its language leaves these lanes undefined."""
    x, out = torch.ones(100), torch.ones(128)
    undefined_lanes[(1,)](x, out, 100, BLOCK=128)
    assert out.tolist() == [1.0] * 100 + [0.0] * 28
