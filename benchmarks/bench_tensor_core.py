"""Speed of `exactness.hopper.tensor_core` beside mmasim, on a 256 × 256 × 1024 bf16 product.

    python benchmarks/bench_tensor_core.py [--json FILE]

mmasim (the `dev` dependency group) has one class for every WGMMA shape. Each is timed on one
instruction; then the whole product is computed with each of the three fastest, on one thread and on
all, and the bits are compared with ours. Exits 1 when a bit differs or we are less than 20 times as
fast as the best.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from exactness.formats import bf16
from exactness.hopper.tensor_core import kind_of, matmul
from exactness.inputs.patterns import encode_rounded, generator

ROWS, COLUMNS, DEPTH = 256, 256, 1024
TILE_ROWS, STEP = 64, 16
WIDTHS = range(8, 257, 8)
MIN_RATIO = 20.0
REPEATS = 10


def wgmma(width: int) -> Any:
    # mmasim's f64 arithmetic, not used here, would build a C++ extension at import.
    sys.modules.setdefault("mmasim.arithmetic.fma", ModuleType("fma"))
    from mmasim.nv_ptx import WGMMA

    return WGMMA("Hopper", f"m{TILE_ROWS}n{width}k{STEP}.f32.bf16.bf16")


def seconds(call: Callable[[], object], at_least: float = 0.0) -> float:
    """The best of a few calls that together take at least so long."""
    best, total = float("inf"), 0.0
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        taken = time.perf_counter() - start
        best, total = min(best, taken), total + taken
        if total > at_least:
            break
    return best


def fastest_widths(a: torch.Tensor, b: torch.Tensor) -> list[int]:
    """The widths of the three shapes with the most multiply-adds a second."""
    rates = {}
    for width in WIDTHS:
        instruction = wgmma(width)
        x, y, c = a[:TILE_ROWS, :STEP], b[:STEP, :width], torch.ones(TILE_ROWS, width)
        instruction(x, y, c)
        taken = seconds(lambda: instruction(x, y, c), at_least=0.5)  # noqa: B023 - called at once
        rates[width] = TILE_ROWS * STEP * width / taken
    return sorted(rates, key=lambda width: -rates[width])[:3]


def by_instructions(a: torch.Tensor, b: torch.Tensor, width: int) -> torch.Tensor:
    """The product with one mmasim instruction at a time."""
    instruction = wgmma(width)
    out = torch.zeros(ROWS, COLUMNS)
    for m in range(0, ROWS, TILE_ROWS):
        for n in range(0, COLUMNS, width):
            size = min(width, COLUMNS - n)
            right = torch.zeros(DEPTH, width).bfloat16()
            right[:, :size] = b[:, n : n + size]
            c = torch.zeros(TILE_ROWS, width)
            for k in range(0, DEPTH, STEP):
                c = instruction(a[m : m + TILE_ROWS, k : k + STEP], right[k : k + STEP], c)
            out[m : m + TILE_ROWS, n : n + size] = c[:, :size]
    return out


def operand(seed: int, *shape: int) -> np.ndarray:
    patterns = encode_rounded(generator(seed).standard_normal(shape), bf16)
    return (patterns.astype(np.uint32) << 16).view(np.float32)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    a, b = operand(1, ROWS, DEPTH), operand(2, DEPTH, COLUMNS)
    kind, work = kind_of(bf16, bf16), ROWS * COLUMNS * DEPTH
    ours = matmul(a, b, kind=kind)  # Compiles.
    our_rate = work / seconds(lambda: matmul(a, b, kind=kind), at_least=60.0)
    x, y = torch.tensor(a).bfloat16(), torch.tensor(b).bfloat16()
    their_rates, differing = {}, 0
    for width, threads in itertools.product(fastest_widths(x, y), {1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        start = time.perf_counter()
        theirs = by_instructions(x, y, width)
        rate = work / (time.perf_counter() - start)
        their_rates[width] = max(rate, their_rates.get(width, 0.0))
        differing += int(np.sum(ours.view(np.int32) != theirs.numpy().view(np.int32)))
    width = max(their_rates, key=lambda width: their_rates[width])
    ratio = our_rate / their_rates[width]
    figures = {
        "product": [ROWS, COLUMNS, DEPTH],
        "cores": os.cpu_count(),
        "exactness_multiply_adds_per_second": round(our_rate),
        "mmasim_shape": f"m{TILE_ROWS}n{width}k{STEP}",
        "mmasim_multiply_adds_per_second": round(their_rates[width]),
        "ratio": round(ratio, 1),
        "differing": differing,
    }
    print("\n".join(f"{name} {value}" for name, value in figures.items()))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return int(differing > 0 or ratio < MIN_RATIO)


if __name__ == "__main__":
    sys.exit(main())
