"""`mma.sync` on torch tensors: one instruction a 16 × 8 tile, CUDA compiled by nvcc for sm_90a."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

Tensor = torch.Tensor

# A row of K operands has 32 bytes in every shape used here, so that fragments of all types are
# the same words: lane (group g, member t) holds words t and t + 4 of rows g and g + 8.
_SOURCE = """
#include <cstdint>
extern "C" __global__ void product(const uint32_t *a, const uint32_t *b, {c} *c, int columns)
{{
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    a += blockIdx.x * 16 * 8;
    b += blockIdx.y * 8 * 8;
    uint32_t a0 = a[g * 8 + t], a1 = a[(g + 8) * 8 + t];
    uint32_t a2 = a[g * 8 + t + 4], a3 = a[(g + 8) * 8 + t + 4];
    uint32_t b0 = b[g * 8 + t], b1 = b[g * 8 + t + 4];
    c += (blockIdx.x * 16 + g) * columns + blockIdx.y * {tile} + t * {each};
    {body}
}}
"""

_WIDE = """
    {c} *d = c + 8 * columns, x0 = c[0], x1 = c[1], x2 = d[0], x3 = d[1];
    asm volatile("{opcode} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : "+{r}"(x0), "+{r}"(x1), "+{r}"(x2), "+{r}"(x3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    c[0] = x0; c[1] = x1; d[0] = x2; d[1] = x3;
"""

_HALF = """
    uint32_t *d = c + 8 * columns, x0 = c[0], x1 = d[0];
    asm volatile("{opcode} {{%0, %1}}, {{%2, %3, %4, %5}}, {{%6, %7}}, {{%0, %1}};"
        : "+r"(x0), "+r"(x1)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    c[0] = x0; d[0] = x1;
"""


def available() -> bool:
    """Whether nvcc is on the path."""
    return shutil.which("nvcc") is not None


def product(opcode: str, a: Tensor, b: Tensor, acc: Tensor) -> Tensor:
    """What `opcode` gives for every 16 × 8 tile of a · b + acc.

    `a` is [M, K] and `b` [K, N], K elements being 32 bytes, M a multiple of 16, N of 8.
    """
    out, right = acc.clone(), b.T.contiguous()
    rows, columns = out.shape
    half = out.dtype is torch.float16
    arguments = [
        ctypes.c_void_p(a.contiguous().data_ptr()),
        ctypes.c_void_p(right.data_ptr()),
        ctypes.c_void_p(out.data_ptr()),
        ctypes.c_int(columns // 2 if half else columns),
    ]
    pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(x) for x in arguments))
    grid = (rows // 16, columns // 8, 1)
    function = _function(opcode, out.dtype)
    torch.cuda.synchronize()
    _check(_driver().cuLaunchKernel(function, *grid, 32, 1, 1, 0, None, pointers, None))
    torch.cuda.synchronize()
    return out


@functools.cache
def _function(opcode: str, dtype: torch.dtype) -> ctypes.c_void_p:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(_driver().cuModuleLoadData(ctypes.byref(module), _cubin(_source(opcode, dtype))))
    _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, b"product"))
    return function


def _source(opcode: str, dtype: torch.dtype) -> str:
    if dtype is torch.float16:
        body = _HALF.format(opcode=opcode)
        return _SOURCE.format(c="uint32_t", tile=4, each=1, body=body)
    c, register = ("float", "f") if dtype is torch.float32 else ("int", "r")
    body = _WIDE.format(opcode=opcode, c=c, r=register)
    return _SOURCE.format(c=c, tile=8, each=2, body=body)


def _cubin(source: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder, "product.cu"), Path(folder, "product.cubin")
        text.write_text(source)
        target = "-gencode=arch=compute_90a,code=sm_90a"
        subprocess.run(["nvcc", target, "-cubin", "-o", binary, text], check=True)
        return binary.read_bytes()


@functools.cache
def _driver() -> ctypes.CDLL:
    torch.zeros(1, device="cuda")  # The context in which torch keeps its tensors.
    return ctypes.CDLL("libcuda.so.1")


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA driver error {status}")
