"""Kernels built on CUB: scans, radix sorts and reductions of a block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exactness import virtual
from exactness.virtual.errors import LaunchError

pytest.importorskip("triton", reason="Triton's wheel ships ptxas and nvdisasm")


@pytest.fixture(scope="module")
def module() -> virtual.PTXModule:
    return virtual.load_ptx(Path(__file__).parent / "cuda" / "blocks.ptx")


def test_scans_and_a_stable_radix_sort(module):
    rng = np.random.default_rng(11)
    x = rng.integers(-(1 << 31), 1 << 31, 512).astype(np.int32)
    y = rng.standard_normal(512).astype(np.float32)
    sums, values = np.zeros((2, 512), np.int32)
    largest, keys = np.zeros(512, np.float32), np.zeros(512, np.uint32)
    module["scan_and_sort"].launch(1, 128, x, y, sums, largest, keys, values)
    masked = x.view(np.uint32) & 0xFF00FF
    order = np.argsort(masked, kind="stable")
    assert np.array_equal(sums, np.concatenate([[0], np.cumsum(x, dtype=np.int32)[:-1]]))
    assert np.array_equal(largest, np.maximum.accumulate(y))
    assert np.array_equal(values, order)
    assert np.array_equal(keys, masked[order])


def test_a_vectorised_norm(module):
    rng = np.random.default_rng(12)
    x = rng.standard_normal((3, 264)).astype(np.float32)
    x = (x.view(np.uint32) >> 16).astype(np.uint16)
    weight, out = np.full(264, 0x4000, np.uint16), np.zeros_like(x)  # 2.0
    launch = module["vector_rms_norm"].launch(3, 128, out, x, weight, 0.0, 264)
    values, got = ((bits.astype(np.uint32) << 16).view(np.float32) for bits in (x, out))
    rms = np.sqrt(np.mean(values.astype(np.float64) ** 2, axis=1, keepdims=True))
    assert np.abs(got / 2 - values / rms).max() <= np.abs(values / rms).max() * 2.0**-8
    # 33 vectors a row: x twice, and its weight.
    assert launch.counts["ld.global.v4.u32"] == 3 * 33 * 3

    with pytest.raises(virtual.VirtualHopperError, match="not aligned to 16 bytes"):
        module["vector_rms_norm"].launch(3, 128, out, x[:, 1:], weight, 0.0, 264)


def test_missing_arguments_are_listed(module):
    with pytest.raises(LaunchError, match="0 arguments; the kernel declares 6"):
        module["scan_and_sort"].launch(1, 128)


def test_types_without_a_space_before_them_are_read():
    text = """.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 po)
{
.reg .b64 %rd1; .reg .b32 %r1;
ld.param.u64 %rd1, [po];
{.reg.b32 f, C; .reg.pred p;
mov.b32 C, 7; setp.eq.u32 p, C, 7; selp.b32 f, C, 0, p; mov.b32 %r1, f;}
st.global.b32 [%rd1], %r1;
ret;
}
"""
    out = np.zeros(1, np.int32)
    virtual.load_ptx(text)["k"].launch(1, 1, out)
    assert out.tolist() == [7]
