#!/usr/bin/env python
"""Record in which order this machine's libraries add.

    python scripts/record_orders.py orders-h200.json
    python scripts/record_orders.py orders-cpu.json --device cpu

Probes `torch.sum` and `torch.nn.functional.rms_norm`, `torch.nn.functional.linear` (cuBLAS on a
GPU) at the shapes of a 2048-wide model, Triton's `tl.sum` at 1, 4 and 8 warps and its `tl.dot` (on
the virtual Hopper if there is no GPU), and norms of the catalogue. Exits with 1 if anything could
not be probed.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from exactness import environment
from exactness.arithmetic.orders import next_power_of_two
from exactness.catalogue import Catalogue
from exactness.formats import Format, bf16, f16, f32
from exactness.machines import choose
from exactness.project import Project
from exactness.reveal import Called, RevealError, Shape, Summation, Tree, parting, reveal, target
from exactness.reveal.claims import Kernel
from exactness.reveal.known import named, recognized
from exactness.reveal.parting import parting_text
from exactness.writing import write_atomically

ROOT = Path(__file__).resolve().parents[1]
TOKENS = (1, 7, 32, 128, 512)
PROJECTIONS = ((2048, 256), (128, 2048), (2048, 6))
SUMS = (8, 100, 1000, 2048)


@triton.jit
def _sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(x.to(tl.float32), axis=0))


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


def tl_dot(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """`tl.dot` of [rows, n] and [columns, n], f32; f32 operands become tf32."""
    out = torch.empty(len(x), len(w), device=x.device, dtype=torch.float32)
    _dot_kernel[(1,)](x, w, out, x.shape[1], len(x), len(w), BLOCK=32)
    return out


def tl_sum(x: torch.Tensor, warps: int) -> torch.Tensor:
    """`tl.sum` of each row of [rows, n], one program a row, f32."""
    rows, n = x.shape
    out = torch.empty(rows, device=x.device, dtype=torch.float32)
    _sum_kernel[(rows,)](x, out, n, BLOCK=next_power_of_two(n), num_warps=warps)
    return out


def sums(device: str) -> Iterator[tuple[str, Callable[[], Summation], str]]:
    """Name, what is probed, and the order that is expected ("" if none is)."""
    for fmt in (f32, bf16, f16):
        for n in SUMS:
            shape = Shape(n, fmt, device=device)
            yield f"torch.sum {fmt.name} {n}", functools.partial(target, "torch.sum", shape), ""


def projections(device: str) -> Iterator[tuple[str, Callable[[], Summation], str]]:
    """`F.linear`, expected as a chain of tensor-core steps of 16 terms on a GPU."""
    expected = "fused:16" if device == "cuda" else ""
    for n, columns in PROJECTIONS:
        for tokens in TOKENS:
            shape = Shape(n, bf16, rows=tokens, columns=columns, device=device)
            name = f"torch.nn.functional.linear bf16 [{tokens},{n}]x[{columns},{n}]"
            yield name, functools.partial(target, "torch.nn.functional:linear", shape), expected


def tl_sums(device: str) -> Iterator[tuple[str, Callable[[], Summation], str]]:
    """`tl.sum`, expected in the order of a contiguous row's layout."""
    for warps in (1, 4, 8):
        for fmt in (f32, bf16):
            for n in (100, 1024, 2048):
                yield (
                    f"tl.sum {fmt.name} {n}, {warps} warps",
                    functools.partial(_tl_sum, n, fmt, warps, device),
                    layout(n, fmt, warps),
                )


def _tl_sum(n: int, fmt: Format, warps: int, device: str) -> Summation:
    shape = Shape(n, fmt, rows=64, device=device)
    function = functools.partial(tl_sum, warps=warps)
    return Called(function, shape, "rows", is_torch=True, name=f"tl.sum of {n}, {warps} warps")


def layout(n: int, fmt: Format, warps: int) -> str:
    """The name of the order of `tl.sum` over a row that is loaded from memory.

    A thread holds as many neighbours as there are for it, at most 16 bytes; where n is no
    multiple of 16, Triton does not know that rows are aligned.
    """
    padded = next_power_of_two(n)
    most = 128 // fmt.bits if n % 16 == 0 else 1
    size = min(max(padded // (32 * warps), 1), most)
    used = min(warps, max(padded // (32 * size), 1))
    return f"triton:{size},{min(32, padded)},{used}"


def tl_dots(device: str) -> Iterator[tuple[str, Callable[[], Summation], str]]:
    """`tl.dot` by `mma` (16 rows) and `wgmma` (64 rows), expected in tensor-core steps."""
    for fmt, step in ((bf16, 16), (f16, 16), (f32, 8)):
        for rows in (16, 64):
            shape = Shape(256, fmt, rows=rows, columns=16, device=device)
            name = f"tl.dot {fmt.name} [{rows},256]x[16,256]"
            make = functools.partial(
                Called, tl_dot, shape, "linear", is_torch=True, name=f"tl.dot {fmt.name}"
            )
            yield name, make, f"fused:{step}"


def norms(device: str) -> Iterator[tuple[str, Callable[[], Summation], str]]:
    """torch's norm, and the catalogue's, by overflow on a GPU: f32, and qnorm's bf16."""
    for n in (96, 512, 2048):
        shape = Shape(n, f32, device=device)
        address = "torch.nn.functional:rms_norm"
        yield f"{address} f32 {n}", functools.partial(target, address, shape, "norm"), ""
    claims = {entry.claim.name: entry.claim for entry in Catalogue(Project.find(ROOT)).entries}
    for name, n, fmt, expected in (
        ("qnorm", 96, "bf16", "halving"),
        ("qnorm", 512, "bf16", "halving"),
        ("o_norm", 1000, "f32", "triton:4,32,4"),
        ("o_norm", 2048, "f32", "triton:4,32,4"),
    ):
        kernel = functools.partial(Kernel, claims[name], choose(device), n, fmt)
        yield f"{name} {fmt} {n}", kernel, expected


def probe(name: str, make: Callable[[], Summation], expected: str) -> tuple[dict[str, Any], Any]:
    """The record of one case, and its tree if it has no name."""
    start = time.perf_counter()
    found: dict[str, Any] = {"case": name, "expected": expected or None}
    try:
        summation = make()
        tree = reveal(summation)
    except RevealError as error:
        return {**found, "refused": str(error)}, None
    names = recognized(tree)
    found |= {
        "names": names,
        "as_expected": expected in names if expected else None,
        "depth": tree.depth,
        "widest": tree.widest,
        "calls": summation.calls,
        "probes": summation.probes,
        "seconds": round(time.perf_counter() - start, 2),
    }
    if expected and expected not in names:
        found["parting"] = _parting(tree, expected)
    return found, None if names else tree


def _parting(tree: Tree, expected: str) -> str:
    difference = parting(tree, named(expected, tree.n))
    return "" if difference is None else parting_text(difference, "revealed", expected)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, help="the .json file to write")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    options = parser.parse_args(arguments)

    cases, trees = [], {}
    for group in (sums, projections, tl_sums, tl_dots, norms):
        for name, make, expected in group(options.device):
            if not re.search(options.only, name):
                continue
            found, tree = probe(name, make, expected)
            cases.append(found)
            if tree is not None:
                trees.setdefault(tree, f"tree {len(trees)}")
                found["tree"] = trees[tree]
            summary = found.get("refused") or ", ".join(found["names"]) or found["tree"]
            print(f"{name}: {summary} ({found.get('seconds', 0)} s)", flush=True)
            write(options.output, cases, trees)
    return 1 if any("refused" in found for found in cases) else 0


def write(path: Path, cases: list[dict[str, Any]], trees: dict[Tree, str]) -> None:
    """Write what is known so far; every unnamed tree once, as operands of nodes n, n + 1 …."""
    head = {
        "schema_version": 1,
        "environment": environment.collect(ROOT).to_dict(),
        "cases": cases,
    }
    rows = [
        f'  "{name}": {{"n": {tree.n}, "children": {json.dumps([*map(list, tree.children)])}}}'
        for tree, name in trees.items()
    ]
    body = json.dumps(head, indent=1)[:-2]
    write_atomically(path, (body + ',\n "trees": {\n' + ",\n".join(rows) + "\n }\n}\n").encode())


if __name__ == "__main__":
    sys.exit(main())
