"""The orders that the contracts state, found in the kernels from outside."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from exactness.arithmetic.orders import next_power_of_two
from exactness.formats import bf16, f16, f32
from exactness.machines import VirtualHopper
from exactness.reveal import Called, Shape, Tree, known, reveal
from exactness.reveal.claims import Kernel


@triton.jit
def _sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(x.to(tl.float32), axis=0))


@pytest.mark.parametrize(
    ("n", "fmt", "warps", "layout"),
    [
        (512, f32, 1, "triton:4,32,1"),
        (512, f32, 4, "triton:4,32,4"),
        (512, f32, 8, "triton:2,32,8"),
        (512, bf16, 1, "triton:8,32,1"),
        (512, bf16, 4, "triton:4,32,4"),
        (512, bf16, 8, "triton:2,32,8"),
        (300, f32, 4, "triton:1,32,4"),
        (40, f32, 4, "triton:1,32,2"),
    ],
)
def test_tl_sum_adds_in_the_order_of_its_layout(n, fmt, warps, layout) -> None:
    def tl_sum(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x))
        _sum_kernel[(len(x),)](x, out, n, BLOCK=next_power_of_two(n), num_warps=warps)
        return out

    summation = Called(tl_sum, Shape(n, fmt, rows=64), "rows", is_torch=True, name="tl.sum")
    assert reveal(summation) == known.named(layout, n)


@triton.jit
def _dot_kernel(
    x_ptr, w_ptr, out_ptr, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr
):
    row, col, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK)
    acc = tl.zeros([M, N], tl.float32)
    for start in range(0, K, BLOCK):
        x = tl.load(x_ptr + row[:, None] * K + start + k[None, :])
        w = tl.load(w_ptr + col[None, :] * K + start + k[:, None])
        acc = tl.dot(x, w, acc)
    tl.store(out_ptr + row[:, None] * N + col[None, :], acc)


@pytest.mark.parametrize("rows", [16, 64], ids=["mma", "wgmma"])
@pytest.mark.parametrize(
    ("fmt", "step"), [(bf16, 16), (f16, 16), (f32, 8)], ids=["bf16", "f16", "tf32"]
)
def test_tensor_cores_add_a_step_at_once(rows, fmt, step) -> None:
    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), len(w))
        _dot_kernel[(1,)](x, w, out, x.shape[1], len(x), len(w), BLOCK=32)
        return out

    shape = Shape(128, fmt, rows=rows, columns=16)
    summation = Called(linear, shape, "linear", is_torch=True, name="tl.dot")
    assert reveal(summation) == known.named(f"fused:{step}", 128)


@pytest.fixture
def revealed(catalogue):
    """The tree of a claim's kernel on the virtual Hopper."""

    def of(claim: str, n: int, fmt: str, **sizes: int) -> Tree:
        (entry,) = catalogue.select((claim,))
        return reveal(Kernel(entry.claim, VirtualHopper(), n, fmt, sizes))

    return of


@pytest.mark.parametrize(("n", "order"), [(96, "halving"), (512, "halving"), (1, "sequential")])
def test_qnorm_adds_as_candle(revealed, n, order) -> None:
    assert revealed("qnorm", n, "bf16") == known.named(order, n)


@pytest.mark.parametrize(
    ("claim", "n", "fmt", "sizes", "layout"),
    [
        ("o_norm", 1000, "bf16", {}, "triton:8,32,4"),
        ("o_norm", 1000, "f32", {}, "triton:4,32,4"),
        ("rms_norm", 200, "f32", {}, "triton:2,32,4"),
        ("rms_norm", 20, "f32", {}, "triton:1,32,1"),
        ("rms_norm_weight_offset", 256, "bf16", {}, "triton:2,32,4"),
        ("rms_norm_residual", 256, "bf16", {}, "triton:2,32,4"),
        ("k_rms_norm", 256, "bf16", {"heads": 1}, "triton:2,32,4"),
        ("k_rms_norm", 256, "bf16", {"heads": 8}, "triton:8,32,1"),
        ("k_rms_norm", 256, "f32", {"heads": 4}, "triton:4,32,2"),
    ],
)
def test_norms_add_in_the_order_of_tritons_layout(revealed, claim, n, fmt, sizes, layout) -> None:
    assert revealed(claim, n, fmt, **sizes) == known.named(layout, n)
