"""Counting in a trace of torch's profiler."""

import pytest

from exactness.bench.launches import CALLS, account, counted


def event(category, name, **arguments):
    return {"ph": "X", "cat": category, "name": name, "args": arguments}


CALL = [
    event("cpu_op", "aten::mul"),
    event("cuda_runtime", "cudaLaunchKernel"),
    event("kernel", "void vectorized_elementwise_kernel<4>"),
    event("kernel", "_qnorm_kernel"),
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", bytes=4),
    event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", bytes=12),
    event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", bytes=100),
    event("gpu_memset", "Memset (Device)", bytes=8),
    {"ph": "M", "name": "process_name"},
]


def test_counts_are_those_of_one_call():
    found = counted({"traceEvents": CALL * 3}, allocations=9, calls=3)
    assert found.launches == 2
    assert found.uploads == 2
    assert found.upload_bytes == 16
    assert found.other_copies == 2
    assert found.allocations == 3
    assert not found.reason


@pytest.mark.parametrize("trace", [{}, {"traceEvents": []}, {"traceEvents": CALL[:2]}])
def test_a_trace_without_the_gpu_counts_nothing(trace):
    found = counted(trace, allocations=10, calls=5)
    assert found.launches is None
    assert found.uploads is None
    assert found.allocations == 2
    assert "no activity of the GPU" in found.reason


def test_accounting_runs_the_call_before_it_is_traced(gpu):
    calls = []
    gpu.traced = {"traceEvents": [event("kernel", "k")] * CALLS}
    found = account(gpu, lambda: calls.append(0))
    assert len(calls) == 1 + CALLS
    assert found.launches == 1
    assert found.to_dict()["allocations"] == 3
