"""PTX that did not come from Triton: CUDA C++ compiled by nvcc."""

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from exactness.hopper import cuda_math
from exactness.virtual import machine, ptx
from exactness.virtual.memory import GlobalMemory

SOURCE = r"""
#include <cuda_bf16.h>
#define MAP(name, type, expression) \
    extern "C" __global__ void name(const type* x, type* y, int n) { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i >= n) return; \
        type v = x[i]; \
        y[i] = expression; \
    }
MAP(exponential, float, expf(v))
MAP(error_function, float, erff(v))
MAP(tangent, float, tanhf(v))
MAP(divide, long long, v / (i + 1) + v % (i + 3))
MAP(square, __nv_bfloat16, v * v + v)

extern "C" __global__ void tree_sum(const float* x, float* y, int n) {
    __shared__ float slot[128];
    int t = threadIdx.x;
    float total = 0;
    for (int i = t; i < n; i += 128) total += x[blockIdx.x * n + i];
    slot[t] = total;
    __syncthreads();
    for (int half = 64; half > 0; half >>= 1) {
        if (t < half) slot[t] += slot[t + half];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = slot[0];
}

extern "C" __global__ void private_array(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, a[16];
    for (int k = 0; k < 16; k++) a[k] = x[(i + k) % n];
    int v = x[i] & 15;
    y[i] = a[v] + a[(v * 7) & 15];
}

extern "C" __global__ void cases(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, r;
    if (i >= n) return;
    switch (x[i] & 7) {
        case 0: r = 5; break;
        case 1: r = x[i] * 3; break;
        case 2: r = ~x[i]; break;
        case 3: r = __popc(x[i]); break;
        case 4: r = __clz(x[i]); break;
        case 5: r = x[i] / 3; break;
        case 6: r = x[i] % 7; break;
        default: r = __brev(x[i]);
    }
    y[i] = r;
}

extern "C" __global__ void warp_work(const int* x, int* y, int n) {
    int t = threadIdx.x, v = x[t];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    unsigned odd = __ballot_sync(~0u, x[t] & 1);
    y[t] = v + odd + __reduce_max_sync(~0u, x[t]);
}

struct Parameters { int a; float b; long long c[3]; };
extern "C" __global__ void by_value(Parameters p, float* y) {
    y[threadIdx.x] = p.a * p.b + p.c[1];
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> ptx.Module:
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not Path(nvcc).exists():
        pytest.skip("nvcc is not installed")
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "kernels.cu").write_text(SOURCE)
    command = [nvcc, "-arch=sm_90", "-O3", "-fmad=false", "-lineinfo", "-ptx", "kernels.cu"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return ptx.parse((folder / "kernels.ptx").read_text())


def run(module: ptx.Module, name: str, x, y, *, grid, block=128, extra=()) -> np.ndarray:
    memory = GlobalMemory()
    for label, array in (("x", x), ("y", y)):
        memory.register(array.ctypes.data, array.reshape(-1).view(np.uint8), label)
    machine.launch(
        module.entries[name],
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        params=[x.ctypes.data, y.ctypes.data, *extra],
        memory=memory,
    )
    return y


@pytest.mark.parametrize("name", ["exponential", "error_function", "tangent"])
def test_cuda_math_is_what_its_ptx_computes(module, name):
    """The compiled library functions against the closed forms of `exactness.hopper`."""
    function = {
        "exponential": cuda_math.expf,
        "error_function": cuda_math.erff,
        "tangent": cuda_math.tanhf,
    }[name]
    rng = np.random.default_rng(1)
    x = np.concatenate([
        (rng.standard_normal(3000) * 10.0 ** rng.uniform(-6, 2, 3000)).astype(np.float32),
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 88.7, -103.9, 1e-42], np.float32),
    ])  # fmt: skip
    y = run(module, name, x, np.zeros_like(x), grid=24, extra=[x.size])
    want = np.asarray(function(x))
    nan = np.isnan(want)
    assert (np.isnan(y) == nan).all()
    assert (y.view(np.uint32)[~nan] == want.view(np.uint32)[~nan]).all()


def test_tree_sum_with_partial_blocks_of_threads(module):
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((5, 1001)) * 10.0 ** rng.uniform(-3, 3, (5, 1001))).astype(np.float32)
    y = run(module, "tree_sum", x, np.zeros(5, np.float32), grid=5, extra=[1001])
    slots = np.zeros((5, 128), np.float32)
    for start in range(0, 1001, 128):
        part = x[:, start : start + 128]
        slots[:, : part.shape[1]] += part
    half = 64
    while half:
        slots[:, :half] += slots[:, half : 2 * half]
        half //= 2
    assert (y.view(np.uint32) == slots[:, 0].view(np.uint32)).all()


def test_64_bit_division(module):
    x = np.random.default_rng(3).integers(-(1 << 63), 1 << 63, 500, dtype=np.int64)
    y = run(module, "divide", x, np.zeros_like(x), grid=4, extra=[500])

    def quotient(a: int, b: int) -> int:
        return abs(a) // b * (1 if a >= 0 else -1)

    want = [
        quotient(int(v), i + 1) + int(v) - quotient(int(v), i + 3) * (i + 3)
        for i, v in enumerate(x)
    ]
    assert y.tolist() == [(w + (1 << 63)) % (1 << 64) - (1 << 63) for w in want]


def test_private_arrays(module):
    x = np.random.default_rng(4).integers(0, 1000, 256).astype(np.int32)
    y = run(module, "private_array", x, np.zeros_like(x), grid=2, extra=[256])
    v = x & 15
    index = np.arange(256)
    assert (y == x[(index + v) % 256] + x[(index + (v * 7 & 15)) % 256]).all()


def test_switch(module):
    x = np.random.default_rng(5).integers(-1000, 1000, 300).astype(np.int32)
    y = run(module, "cases", x, np.zeros_like(x), grid=3, extra=[300])

    def model(v: int) -> int:
        bits = v % (1 << 32)
        quotient = abs(v) // 3 * (1 if v >= 0 else -1)
        remainder = abs(v) % 7 * (1 if v >= 0 else -1)
        reversed_bits = int(f"{bits:032b}"[::-1], 2)
        return [5, 3 * v, ~v, bits.bit_count(), 32 - bits.bit_length(), quotient, remainder,
                reversed_bits][v & 7]  # fmt: skip

    assert (y.view(np.uint32) == [model(int(v)) % (1 << 32) for v in x]).all()


def test_warp_intrinsics(module):
    x = np.random.default_rng(6).integers(0, 1000, 64).astype(np.int32)
    y = run(module, "warp_work", x, np.zeros_like(x), grid=1, block=64, extra=[64])
    want = [
        (int(w.sum()) + sum(1 << i for i, v in enumerate(w) if v & 1) + int(w.max())) % (1 << 32)
        for w in (x[:32], x[32:])
    ]
    assert y.view(np.uint32).tolist() == [want[0]] * 32 + [want[1]] * 32


def test_parameters_by_value(module):
    y = np.zeros(32, np.float32)
    memory = GlobalMemory()
    memory.register(y.ctypes.data, y.view(np.uint8), "y")
    packed = struct.pack("<if3q", 3, 2.5, 10, 20, 30)
    machine.launch(
        module.entries["by_value"],
        grid=(1, 1, 1),
        block=(32, 1, 1),
        params=[packed, y.ctypes.data],
        memory=memory,
    )
    assert (y == 27.5).all()


def test_bf16_operators(module):
    x = np.random.default_rng(7).integers(0, 1 << 16, 2000).astype(np.uint16)
    x = x[(x & 0x7F80) != 0x7F80]
    y = run(module, "square", x, np.zeros_like(x), grid=16, extra=[x.size])
    values = (x.astype(np.uint32) << 16).view(np.float32)

    def rounded(v: np.ndarray) -> np.ndarray:
        bits = v.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)

    with np.errstate(over="ignore", invalid="ignore"):
        fused = rounded((values.astype(np.float64) ** 2 + values).astype(np.float32))
        apart = rounded(rounded(values * values) + values)
    got = (y.astype(np.uint32) << 16).view(np.float32)
    finite = np.isfinite(apart) & np.isfinite(fused)
    assert (got[finite] == apart[finite]).all()
