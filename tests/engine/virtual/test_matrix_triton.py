"""Triton's matrix products on the virtual Hopper against chains of the tensor-core model."""

from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from safetensors.torch import load_file

import exactness.virtual
from exactness.bits import Bits
from exactness.formats import bf16, e4m3fn, e5m2, f16, tf32
from exactness.hopper.tensor_core import integer_matmul, kind_of, matmul

GOLDEN = Path(__file__).parents[2] / "golden" / "welm.safetensors"
TYPES = {
    "bf16": (torch.bfloat16, bf16),
    "f16": (torch.float16, f16),
    "f32": (torch.float32, tf32),
    "e4m3": (torch.float8_e4m3fn, e4m3fn),
    "e5m2": (torch.float8_e5m2, e5m2),
}


@pytest.fixture(autouse=True)
def hopper():
    with exactness.virtual.hopper() as machine:
        yield machine


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, k, K: tl.constexpr,
            AM: tl.constexpr, AK: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr,
            ACC: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((M, N), dtype=ACC)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows * AM + inner[None, :] * AK)
        b = tl.load(b_ptr + inner[:, None] * BK + columns * BN)
        acc = tl.dot(a, b, acc, out_dtype=ACC)
    tl.store(c_ptr + rows * N + columns, acc)


def run(a: torch.Tensor, b: torch.Tensor, tile_k: int, warps: int, acc=tl.float32) -> np.ndarray:
    """a [M, K] · b [K, N], strided as given; bit patterns of the result."""
    (m, k), n = a.shape, b.shape[1]
    out = {tl.float32: torch.float32, tl.float16: torch.float16, tl.int32: torch.int32}[acc]
    c = torch.empty(m, n, dtype=out)
    product[(1,)](a, b, c, m, n, k, tile_k, *a.stride(), *b.stride(), acc, num_warps=warps)
    return Bits.of(c).patterns


def draw(shape: tuple[int, int], dtype: torch.dtype, seed: int, transposed: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.exp2(torch.randint(-5, 3, shape, generator=generator).float())
    x = (torch.randn(shape, generator=generator) * scale).to(dtype)
    return x.T.contiguous().T if transposed else x


def values(x: torch.Tensor, fmt) -> np.ndarray:
    """f32 values; those of an f32 tensor as a tf32 product sees them."""
    array = x.float().contiguous().numpy()
    return (array.view(np.uint32) & 0xFFFFE000).view(np.float32) if fmt is tf32 else array


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [("bf16", "nn"), ("bf16", "nt"), ("bf16", "tn"), ("bf16", "tt"), ("f16", "nn"), ("f32", "tn")],
)
def test_every_storage_of_the_operands(dtype: str, layout: str) -> None:
    torch_type, fmt = TYPES[dtype]
    a = draw((64, 64), torch_type, 1, layout[0] == "t")
    b = draw((64, 32), torch_type, 2, layout[1] == "t")
    expected = matmul(values(a, fmt), values(b, fmt), kind=kind_of(fmt, fmt))
    assert np.array_equal(run(a, b, 32, 4), expected.view(np.uint32))


@pytest.mark.parametrize(
    ("m", "n", "tile_k", "warps"),
    [(16, 16, 16, 1), (16, 32, 64, 4), (32, 16, 32, 2), (64, 256, 16, 4), (128, 64, 64, 8),
     (128, 128, 32, 4)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_the_bits_depend_on_neither_tile_nor_warps(
    dtype: str, m: int, n: int, tile_k: int, warps: int
) -> None:
    torch_type, fmt = TYPES[dtype]
    a, b = draw((m, 64), torch_type, m, False), draw((64, n), torch_type, n, False)
    expected = matmul(values(a, fmt), values(b, fmt), kind=kind_of(fmt, fmt))
    assert np.array_equal(run(a, b, tile_k, warps), expected.view(np.uint32))


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_fp8_by_warpgroups(dtype: str, hopper) -> None:
    torch_type, fmt = TYPES[dtype]
    a, b = draw((64, 128), torch_type, 3, False), draw((128, 16), torch_type, 4, True)
    expected = matmul(values(a, fmt), values(b, fmt), kind=kind_of(fmt, fmt))
    assert np.array_equal(run(a, b, 64, 4), expected.view(np.uint32))
    assert any("k32.f32.e" in name for name in hopper.counts)


@pytest.mark.parametrize(("m", "warps"), [(16, 1), (64, 4)])
def test_f16_accumulators(m: int, warps: int) -> None:
    a, b = draw((m, 64), torch.float16, 5, False), draw((64, 16), torch.float16, 6, False)
    expected = matmul(a.float().numpy(), b.float().numpy(), kind=kind_of(f16, f16, f16))
    actual = run(a, b, 32, warps, tl.float16).view(np.float16).astype(np.float32)
    assert np.array_equal(actual.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("m", "warps"), [(16, 2), (64, 4)])
def test_int8(m: int, warps: int) -> None:
    generator = torch.Generator().manual_seed(7)
    a = torch.randint(-128, 128, (m, 96), dtype=torch.int8, generator=generator)
    b = torch.randint(-128, 128, (96, 16), dtype=torch.int8, generator=generator)
    expected = integer_matmul(a.numpy(), b.numpy())
    assert np.array_equal(run(a, b, 32, warps, tl.int32), expected.view(np.uint32))


@pytest.mark.parametrize(("m", "warps"), [(16, 1), (64, 4)])
def test_specials(m: int, warps: int) -> None:
    """Infinities, NaN, subnormals and signed zeros take the model's way."""
    special = torch.tensor([0.0, -0.0, 1.0, -2.5, 1e-40, float("inf"), float("nan"), 3e38])
    a = special.repeat(m * 16 // 8).reshape(m, 16).roll(3, 1).to(torch.bfloat16)
    b = torch.eye(16).to(torch.bfloat16)
    expected = matmul(a.float().numpy(), b.float().numpy(), kind=kind_of(bf16, bf16))
    assert np.array_equal(run(a, b, 16, warps), expected.view(np.uint32))


@triton.jit
def two_products(a_ptr, b_ptr, d_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
    d = tl.load(d_ptr + columns[:, None] * K + inner[None, :])
    c = tl.dot(tl.dot(a, b).to(a.dtype), d)
    tl.store(c_ptr + rows[:, None] * K + inner[None, :], c)


@pytest.mark.parametrize(("m", "warps"), [(16, 1), (64, 4), (128, 8)])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_result_as_the_next_operand(dtype: str, m: int, warps: int) -> None:
    torch_type, fmt = TYPES[dtype]
    a, b = draw((m, 32), torch_type, 8, False), draw((32, 64), torch_type, 9, False)
    d, c = draw((64, 32), torch_type, 10, False), torch.empty(m, 32)
    two_products[(1,)](a, b, d, c, m, 64, 32, num_warps=warps)
    kind = kind_of(fmt, fmt)
    inner = torch.from_numpy(matmul(values(a, fmt), values(b, fmt), kind=kind)).to(torch_type)
    expected = matmul(values(inner, fmt), values(d, fmt), kind=kind)
    assert np.array_equal(Bits.of(c).patterns, expected.view(np.uint32))


def recordings() -> dict[str, dict[str, torch.Tensor]]:
    cases: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in load_file(GOLDEN).items():
        if key.startswith(("tensor_core/", "router/")):
            name, part = key.rsplit("/", maxsplit=1)
            cases.setdefault(name, {})[part] = tensor
    return cases


@pytest.mark.parametrize("name", sorted(recordings()))
def test_recordings_of_the_h200(name: str) -> None:
    case = recordings()[name]
    a, b = case.get("a", case.get("x")), case.get("b", case.get("weight"))
    if name.startswith("router"):
        b = b.to(torch.bfloat16)
    if "bf16_dot" not in name:
        a, b = a.float(), b.float()
    m, n = 64, 32
    whole_a = torch.zeros(m * -(-len(a) // m), a.shape[1], dtype=a.dtype)
    whole_a[: len(a)] = a
    whole_b = torch.zeros(n, b.shape[1], dtype=b.dtype)
    whole_b[: len(b)] = b
    found = [run(part, whole_b.T, min(64, a.shape[1]), 4) for part in whole_a.split(m)]
    actual = np.concatenate(found)[: len(a), : len(b)]
    assert np.array_equal(actual, Bits.of(case["out"]).patterns)
