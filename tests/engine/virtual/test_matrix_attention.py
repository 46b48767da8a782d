"""Attention with sinks in Triton, tiled as the published kernel: the bits that an H200 recorded."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from safetensors.torch import load_file

import exactness.virtual
from exactness.bits import Bits

GOLDEN = Path(__file__).parents[2] / "golden" / "attention.safetensors"
SCALE = 256**-0.5 * (0.1 * math.log(8.0) + 1.0) ** 2


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, sinks_ptr, out_ptr, tokens, window, scale, HEADS: tl.constexpr,
              D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    first, head = tl.program_id(0) * M, tl.program_id(1)
    rows, inner = first + tl.arange(0, M), tl.arange(0, D)
    at = (rows[:, None] * HEADS + head) * D + inner[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < tokens, other=0.0)
    acc = tl.zeros((M, D), dtype=tl.float32)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    for start in range(tl.maximum(first - window, 0) // N * N, tl.minimum(first + M, tokens), N):
        keys = start + tl.arange(0, N)
        inside = keys < tokens
        k = tl.load(k_ptr + keys[None, :] * D + inner[:, None], mask=inside[None, :], other=0.0)
        near = (keys[None, :] <= rows[:, None]) & (rows[:, None] <= keys[None, :] + window)
        near = near & inside[None, :] & (rows[:, None] < tokens)
        s = tl.where(near, tl.dot(q, k) * scale, -float("inf"))
        best = tl.max(s, axis=1)
        better = tl.maximum(tl.where(best == -float("inf"), -1e20, best), top)
        shrink, p = tl.exp(top - better), tl.exp(s - better[:, None])
        total = tl.fma(total, shrink, tl.sum(p, axis=1))
        v = tl.load(v_ptr + keys[:, None] * D + inner[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = better
    total += tl.exp(tl.load(sinks_ptr + head).to(tl.float32) - top)
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at, out, mask=rows[:, None] < tokens)


def recordings() -> dict[str, dict[str, torch.Tensor]]:
    cases: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in load_file(GOLDEN).items():
        name, part = key.rsplit("/", maxsplit=1)
        cases.setdefault(name, {})[part] = tensor.clone()
    return cases


@pytest.mark.parametrize("name", sorted(recordings()))
def test_recordings_of_the_h200(name: str) -> None:
    case = recordings()[name]
    window = re.search(r"_w(\d+)", name)
    assert window is not None
    tokens, heads, dim = case["q"].shape
    out = torch.empty_like(case["out"])
    with exactness.virtual.hopper():
        attention[(triton.cdiv(tokens, 128), heads)](
            case["q"], case["k"], case["v"], case["sinks"], out, tokens, int(window[1]), SCALE,
            heads, dim, 128, 64, num_warps=8, num_stages=1, enable_fp_fusion=False)  # fmt: skip
    assert np.array_equal(Bits.of(out).patterns, Bits.of(case["out"]).patterns)
