"""Compare `exactness.hopper` with a Hopper GPU: raw instructions over all 2^32 f32 inputs.

    python scripts/measure_special_functions.py result.json [--pairs-log2 30]
    cp result.json tests/engine/hopper/data/h200.json   # what the tests then hold the engine to

Each instruction runs as inline PTX in a Triton kernel, each CUDA function through torch, and
`exactness.hopper` runs on CUDA tensors of the same inputs. Every bit counts, except that a NaN
equals a NaN (NaN patterns other than 0x7fffffff are counted apart). Exit status 1 if any differ.

What this decides, because no recording covers it: inputs outside the tables' intervals at the
ends of the range, zeros, subnormals and infinities; the scaling of the forms without `.ftz`;
`div.full` over random operands and near its thresholds; and whether `.ftz` detects tiny results
before or after rounding. The result also holds fingerprints of what the GPU gave, so that tests
see a changed bit without a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl
from silicon import machine

from exactness.hopper import cuda_math, division, flush, special
from exactness.hopper.fingerprint import fingerprint

CHUNK = 1 << 26
BLOCK = 1024
CANONICAL_NAN = 0x7FFFFFFF
Tensor = torch.Tensor


@triton.jit
def _unary_kernel(x_ptr, y_ptr, n, ASM: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, index < n)
    y = tl.inline_asm_elementwise(ASM, "=f,f", [x], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + index, y, index < n)


@triton.jit
def _binary_kernel(a_ptr, b_ptr, y_ptr, n, ASM: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + index, index < n)
    b = tl.load(b_ptr + index, index < n)
    y = tl.inline_asm_elementwise(ASM, "=f,f,f", [a, b], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + index, y, index < n)


@triton.jit
def _ternary_kernel(a_ptr, b_ptr, c_ptr, y_ptr, n, ASM: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + index, index < n)
    b = tl.load(b_ptr + index, index < n)
    c = tl.load(c_ptr + index, index < n)
    y = tl.inline_asm_elementwise(ASM, "=f,f,f,f", [a, b, c], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + index, y, index < n)


KERNELS = {1: _unary_kernel, 2: _binary_kernel, 3: _ternary_kernel}


def instruction(opcode: str) -> Callable[..., Tensor]:
    """The PTX instruction as a function of f32 tensors."""

    def run(*operands: Tensor) -> Tensor:
        operands = tuple(x.contiguous() for x in operands)
        result = torch.empty_like(operands[0])
        names = ", ".join(f"${i}" for i in range(len(operands) + 1))
        n = result.numel()
        grid = (triton.cdiv(n, BLOCK),)
        KERNELS[len(operands)][grid](*operands, result, n, f"{opcode} {names};", BLOCK)
        return result

    return run


@dataclass
class Row:
    """What one comparison found."""

    name: str
    inputs: str
    compared: int = 0
    differing: int = 0
    other_nans: int = 0
    seconds: float = 0.0
    examples: list[dict[str, object]] = field(default_factory=list)

    def add(self, operands: tuple[Tensor, ...], actual: Tensor, expected: Tensor) -> None:
        a, e = actual.view(torch.int32), expected.view(torch.int32)
        is_nan = torch.isnan(actual)
        wrong = (a != e) & ~(is_nan & torch.isnan(expected))
        self.compared += a.numel()
        self.other_nans += int((is_nan & (a != CANONICAL_NAN)).sum())
        count = int(wrong.sum())
        self.differing += count
        room = 16 - len(self.examples)
        if count and room > 0:
            for i in wrong.flatten().nonzero()[:room, 0].tolist():
                self.examples.append(
                    {
                        "operands": [_hex(x, i) for x in operands],
                        "gpu": _hex(actual, i),
                        "exactness": _hex(expected, i),
                    }
                )


def _hex(x: Tensor, i: int) -> str:
    return f"{int(x.flatten().view(torch.int32)[i]) & 0xFFFFFFFF:08x}"


Operands = Iterator[tuple[Tensor, ...]]


def every_f32() -> Operands:
    for start in range(-(1 << 31), 1 << 31, CHUNK):
        last = torch.arange(CHUNK, device="cuda", dtype=torch.int32)
        yield ((last + start).view(torch.float32),)


def random_pairs(total: int) -> Operands:
    """Uniform bit patterns; the second half with divisors around a dividend's exponent."""
    generator = torch.Generator("cuda").manual_seed(20250)
    for start in range(0, total, CHUNK):
        a, b = (_random_bits(generator) for _ in range(2))
        if start >= total // 2:
            near = (a & 0x7F800000) + ((b >> 23) % 8 - 4 << 23)
            b = (b & 0x807FFFFF - (1 << 32)) | (near & 0x7F800000)
        yield a.view(torch.float32), b.view(torch.float32)


def _random_bits(generator: torch.Generator) -> Tensor:
    return torch.randint(
        -(1 << 31), 1 << 31, (CHUNK,), device="cuda", dtype=torch.int32, generator=generator
    )


def special_pairs() -> Operands:
    """All pairs of a grid of edges: zeros, subnormals, thresholds, infinities, NaN, 1 ulp off."""
    edges = {0, 1, 2, 3, 0x7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x7F7FFFFF}
    for exponent in (*range(1, 32), *range(96, 160), *range(224, 255)):
        edges |= {(exponent << 23) + offset for offset in (-1, 0, 1, 0x2AAAAA, 0x400000, 0x7FFFFF)}
    values = torch.tensor(sorted(edges), dtype=torch.int32, device="cuda")
    values = torch.cat([values, values | -(1 << 31)]).view(torch.float32)
    a, b = torch.meshgrid(values, values, indexing="ij")
    yield a.flatten(), b.flatten()


def tiny_quotients() -> Operands:
    """a / b within 8 ulp of ±2^-126, for every significand of b."""
    b = torch.arange(0x44800000, 0x45000000, device="cuda", dtype=torch.int32)  # [2^10, 2^11)
    for ulps in range(-8, 9):
        a = b - (126 << 23) + ulps
        yield a.view(torch.float32), b.view(torch.float32)
        yield -a.view(torch.float32), b.view(torch.float32)


def tiny_products() -> Operands:
    """a · b within 8 ulp of ±2^-126, for every significand of a."""
    a = torch.arange(0x20000000, 0x20800000, device="cuda", dtype=torch.int32)  # 2^-63 · [1, 2)
    exact = a.view(torch.float32).double()
    for ulps in range(-8, 9):
        b = (2.0**-126 / exact).float().view(torch.int32) + ulps
        yield a.view(torch.float32), b.view(torch.float32)
        yield -a.view(torch.float32), b.view(torch.float32)


def tiny_fma() -> Operands:
    """fma(a, b, c) near ±2^-126: the product alone, and cancelled against 2^-125."""
    for a, b in tiny_products():
        for c in (0.0, -0.0, 2.0**-125, -(2.0**-125)):
            yield a, b, torch.full_like(a, c)


def compare(
    name: str,
    inputs: str,
    operands: Operands,
    gpu: Callable[..., Tensor],
    model: Callable[..., Tensor],
) -> Row:
    row, start = Row(name, inputs), time.perf_counter()
    for values in operands:
        row.add(values, gpu(*values), model(*values))
    torch.cuda.synchronize()
    row.seconds = round(time.perf_counter() - start, 3)
    return row


def approximations() -> Iterator[Row]:
    functions = {
        "ex2": special.ex2_approx,
        "rsqrt": special.rsqrt_approx,
        "rcp": special.rcp_approx,
        "sqrt": special.sqrt_approx,
    }
    for stem, function in functions.items():
        for ftz in (True, False):
            opcode = f"{stem}.approx{'.ftz' * ftz}.f32"

            def model(x: Tensor, function: Callable[..., Tensor] = function, ftz: bool = ftz):
                return function(x, ftz=ftz)

            yield compare(opcode, "all 2^32", every_f32(), instruction(opcode), model)


def divisions(pairs: int) -> Iterator[Row]:
    for ftz in (True, False):
        opcode = f"div.full{'.ftz' * ftz}.f32"

        def model(a: Tensor, b: Tensor, ftz: bool = ftz) -> Tensor:
            return division.div_full(a, b, ftz=ftz)

        gpu = instruction(opcode)
        yield compare(opcode, "grid of edges", special_pairs(), gpu, model)
        yield compare(opcode, "quotients near 2^-126", tiny_quotients(), gpu, model)
        yield compare(opcode, "random pairs", random_pairs(pairs), gpu, model)


def flushing() -> Iterator[Row]:
    mul, fma = instruction("mul.rn.ftz.f32"), instruction("fma.rn.ftz.f32")
    yield compare("mul.rn.ftz.f32", "grid of edges", special_pairs(), mul, flush.mul_ftz)
    yield compare("mul.rn.ftz.f32", "products near 2^-126", tiny_products(), mul, flush.mul_ftz)
    yield compare("fma.rn.ftz.f32", "results near 2^-126", tiny_fma(), fma, flush.fma_ftz)


def torch_functions() -> Iterator[Row]:
    models: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
        "exp": (torch.exp, cuda_math.expf),
        "tanh": (torch.tanh, cuda_math.tanhf),
        "erf": (torch.erf, cuda_math.erff),
        "rsqrt": (torch.rsqrt, lambda x: special.rsqrt_approx(x, ftz=False)),
        "sigmoid": (torch.sigmoid, lambda x: 1.0 / (1.0 + cuda_math.expf(-x))),
        "silu": (torch.nn.functional.silu, lambda x: x / (1.0 + cuda_math.expf(-x))),
        "gelu": (torch.nn.functional.gelu, _gelu),
    }
    for name, (gpu, model) in models.items():
        yield compare(f"torch {name} f32", "all 2^32", every_f32(), gpu, model)


def _gelu(x: Tensor) -> Tensor:
    return (x * 0.5) * (1.0 + cuda_math.erff(x * 0.5**0.5))


def fingerprints() -> dict[str, str]:
    """Fingerprints of the GPU's own results, by opcode or CUDA function."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        f"{stem}.approx{ftz}.f32": instruction(f"{stem}.approx{ftz}.f32")
        for stem in ("ex2", "rsqrt", "rcp", "sqrt")
        for ftz in (".ftz", "")
    }
    functions |= {"expf": torch.exp, "tanhf": torch.tanh, "erff": torch.erf}
    return {name: fingerprint(_on_gpu(function)) for name, function in functions.items()}


def _on_gpu(function: Callable[[Tensor], Tensor]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: function(torch.from_numpy(x).cuda()).cpu().numpy()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="where the JSON goes")
    parser.add_argument("--pairs-log2", type=int, default=30, help="random pairs for div.full")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device; run this on a Hopper GPU", file=sys.stderr)
        return 2
    rows: list[Row] = []
    report: dict[str, object] = {
        "schema_version": 1,
        "machine": machine(),
        "fingerprints": fingerprints(),
    }
    for group in (
        approximations(),
        flushing(),
        divisions(1 << arguments.pairs_log2),
        torch_functions(),
    ):
        for row in group:
            rows.append(row)
            print(
                f"{row.name:24} {row.inputs:24} {row.compared:>12,} compared "
                f"{row.differing:>10,} differ {row.other_nans:>10,} other NaN {row.seconds:7.2f} s",
                flush=True,
            )
            for example in row.examples[:4]:
                print(f"    {example}", flush=True)
            report["rows"] = [asdict(r) for r in rows]
            arguments.output.write_text(json.dumps(report, indent=1) + "\n")
    return int(any(row.differing for row in rows))


if __name__ == "__main__":
    sys.exit(main())
