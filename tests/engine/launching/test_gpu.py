"""Launchers on a CUDA GPU: the results of repeated launches, on streams and in graphs."""

import pytest
import torch
import triton
import triton.language as tl

from exactness.launching import Launch, launcher

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU was found")


@triton.jit
def _scale_kernel(x_ptr, out_ptr, n, stride, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index * stride, mask=index < n)
    tl.store(out_ptr + index, (x * factor).to(out_ptr.dtype.element_ty), mask=index < n)


@launcher
def _scaled(x: torch.Tensor, factor: float) -> Launch[torch.Tensor]:
    n = x.shape[0]
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n, 64),)
    return Launch(out, _scale_kernel, grid, x, out, n, x.stride(0), factor, BLOCK=64)


def test_views_of_every_kind_one_after_the_other():
    base = torch.arange(4096.0, device="cuda")
    views = [base[:100], base[1:101], base[:200:2], base[:1], base[:16].half(), base[3:19].half()]
    for factor in (2.0, 0.5):
        for x in [*views, *reversed(views)] * 2:
            assert torch.equal(_scaled(x, factor), x * factor)


def test_launches_go_to_the_current_stream():
    x = torch.ones(1 << 20, device="cuda")
    assert torch.equal(_scaled(x, 2.0), x * 2.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)
        y = _scaled(_scaled(x.fill_(3.0), 2.0), 2.0)
    side.synchronize()
    assert (y == 12.0).all()


def test_launches_are_captured_by_graphs():
    x = torch.ones(1000, device="cuda")
    for _ in range(2):
        _scaled(x, 2.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = _scaled(_scaled(x, 2.0), 2.0)
    for value in (3.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert (out == 4 * value).all()


def test_a_cpu_tensor_is_refused_after_a_cuda_tensor():
    x = torch.ones(64)
    _scaled(x.cuda(), 2.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="cpu tensor"):
            _scaled(x, 2.0)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU was found; two are needed")
def test_launches_go_to_the_device_of_the_tensors():
    for device in ("cuda:0", "cuda:1", "cuda:0", "cuda:1"):
        x = torch.ones(100, device=device)
        out = _scaled(x, 2.0)
        assert out.device == x.device
        assert torch.equal(out, 2 * x)
    assert torch.cuda.current_device() == 0
