"""Compare `exactness.hopper.tensor_core` with the tensor cores of a Hopper GPU.

    python scripts/measure_tensor_core.py OUTPUT.json [--size 2048]

Every row of the result is one instruction on one kind of random operands: `wgmma` as Triton emits
it for `tl.dot`, `mma.sync` from CUDA compiled by nvcc (left out, and said so, without nvcc). NaN
equals NaN; results that are NaN with another pattern than the canonical one are counted apart.
`wrong_models` counts the results that slightly different models would have got wrong.
Exits 1 when a bit differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import mma_sync
import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from operands import Draw, draws, integer_draws
from silicon import machine

from exactness.bits import Bits
from exactness.formats import INTEGERS
from exactness.hopper import tensor_core
from exactness.hopper.tensor_core import KINDS, Kind
from exactness.hopper.tensor_core_fingerprint import fingerprint
from exactness.rounding import Rounding

Tensor = torch.Tensor
Product = Callable[[Tensor, Tensor, Tensor], Tensor]


@triton.jit
def _dot_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    out_ptr,
    N,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    OUT: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None]
    k = tl.arange(0, K)
    a = tl.load(a_ptr + m * K + k[None])
    b = tl.load(b_ptr + n * K + k[:, None])
    c = tl.load(c_ptr + m * N + n)
    out = tl.dot(a, b, c, input_precision="tf32", out_dtype=OUT)
    tl.store(out_ptr + m * N + n, out)


_TRITON = {torch.float32: tl.float32, torch.float16: tl.float16, torch.int32: tl.int32}


class Wgmma:
    """Triton's `tl.dot` on 64 × 64 tiles; remembers the instruction that it became."""

    opcode = "wgmma"

    def __call__(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        out = torch.empty_like(c)
        rows, columns = c.shape
        grid = (rows // 64, columns // 64)
        right = b.T.contiguous()
        compiled = _dot_kernel[grid](
            a, right, c, out, columns, a.shape[1], 64, _TRITON[c.dtype], num_warps=4
        )
        found = set(re.findall(r"wgmma\.mma_async\S+", compiled.asm["ptx"]))
        if len(found) != 1:
            raise RuntimeError(f"tl.dot was compiled to {found or 'no wgmma'}")
        (self.opcode,) = found
        return out


class MmaSync:
    """One instruction a tile."""

    def __init__(self, opcode: str) -> None:
        self.opcode = opcode

    def __call__(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return mma_sync.product(self.opcode, a, b, c)


@dataclass
class Row:
    """What one comparison found."""

    instruction: str
    operands: str
    depth: int
    compared: int = 0
    differing: int = 0
    nan: int = 0
    other_nans: int = 0
    wrong_models: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    examples: list[dict[str, object]] = field(default_factory=list)

    def add(self, draw: Draw, actual: Tensor, expected: Tensor) -> None:
        if actual.is_floating_point():
            is_nan, integer = torch.isnan(actual), _integer_of(actual)
            canonical = torch.iinfo(integer).max
            self.nan += int(is_nan.sum())
            self.other_nans += int((is_nan & (actual.view(integer) != canonical)).sum())
        wrong = different(actual, expected)
        self.compared += actual.numel()
        self.differing += int(wrong.sum())
        for m, n in wrong.nonzero()[: 8 - len(self.examples)].tolist():
            self.examples.append(
                {
                    "a": _hex(draw.a[m]),
                    "b": _hex(draw.b[:, n]),
                    "c": _hex(draw.c[m, n : n + 1])[0],
                    "gpu": _hex(actual[m, n : n + 1])[0],
                    "exactness": _hex(expected.to(actual.dtype)[m, n : n + 1])[0],
                }
            )


def different(actual: Tensor, expected: Tensor) -> Tensor:
    """Where the bits differ, and are not both NaN."""
    integer = _integer_of(actual)
    wrong = actual.view(integer) != expected.to(actual.dtype).view(integer)
    if actual.is_floating_point():
        wrong &= ~(torch.isnan(actual) & torch.isnan(expected))
    return wrong


def _integer_of(x: Tensor) -> torch.dtype:
    return {2: torch.int16, 4: torch.int32}[x.element_size()]


def _hex(x: Tensor) -> list[str]:
    size = x.element_size()
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[size]
    numbers = x.contiguous().view(integer).tolist()
    return [f"{number & ((1 << 8 * size) - 1):0{2 * size}x}" for number in numbers]


def model(kind: Kind, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """A chain; tf32 operands lose the bits that the format lacks."""
    left, right = a.float(), b.float()
    if kind.a.name == "tf32":
        left, right = (tensor_core.tf32_operand(x) for x in (left, right))
    return tensor_core.matmul(left, right, c.float(), kind=kind)


def fp8_model(kind: Kind, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return tensor_core.fp8_mma_sync(a.float(), b.float(), c.float(), kind=kind)


def wrong_models(kind: Kind) -> dict[str, Kind]:
    """Models one step away, which the operands should tell from the right one."""
    nearest, zero = Rounding.NEAREST_EVEN, Rounding.TOWARD_ZERO
    return {
        f"{kind.fraction_bits - 1} fractional bits": _with(kind, fraction_bits=-1),
        f"{kind.fraction_bits + 1} fractional bits": _with(kind, fraction_bits=1),
        f"zero as 2^{kind.zero_exponent - 1}": _with(kind, zero_exponent=-1),
        f"zero as 2^{kind.zero_exponent + 1}": _with(kind, zero_exponent=1),
        f"steps of {kind.step // 2}": replace(kind, step=kind.step // 2),
        "terms rounded": replace(kind, alignment=nearest),
        "sum rounded otherwise": replace(
            kind, rounding=zero if kind.rounding is nearest else nearest
        ),
    }


def _with(kind: Kind, **more: int) -> Kind:
    return replace(kind, **{name: getattr(kind, name) + value for name, value in more.items()})


def compare(
    gpu: Wgmma | MmaSync,
    expected: Product,
    drawn: Iterator[tuple[str, Draw]],
    wrong: Mapping[str, Product] = MappingProxyType({}),
) -> Iterator[Row]:
    for operands, draw in drawn:
        start = time.perf_counter()
        actual = gpu(draw.a, draw.b, draw.c)
        row = Row(gpu.opcode, operands, draw.a.shape[1])
        row.add(draw, actual, expected(draw.a, draw.b, draw.c))
        for name, product in wrong.items():
            row.wrong_models[name] = int(different(actual, product(draw.a, draw.b, draw.c)).sum())
        torch.cuda.synchronize()
        row.seconds = round(time.perf_counter() - start, 3)
        yield row


_PTX = {"e4m3fn": "e4m3"}


def _ptx_types(kind: Kind) -> str:
    a, b = (_PTX.get(fmt.name, fmt.name) for fmt in (kind.a, kind.b))
    c = kind.accumulator.name
    return f"{c}.{a}.{b}.{c}"


def floating(size: int) -> Iterator[Row]:
    for kind in KINDS.values():
        formats = (kind.a, kind.b, kind.accumulator)
        # Triton wants at least 16 columns: two steps of tf32.
        for depth in (max(kind.step, 16), 128):
            wrong = {name: partial(model, other) for name, other in wrong_models(kind).items()}
            drawn = draws(formats, size, depth)
            yield from compare(Wgmma(), partial(model, kind), drawn, wrong)
        if mma_sync.available():
            fp8 = kind.a.bits == 8
            opcode = f"mma.sync.aligned.m16n8k{kind.step}.row.col.{_ptx_types(kind)}"
            expected = partial(fp8_model if fp8 else model, kind)
            yield from compare(MmaSync(opcode), expected, draws(formats, size, kind.step))


def integers(size: int) -> Iterator[Row]:
    def expected(a: Tensor, b: Tensor, c: Tensor, saturate: bool = False) -> Tensor:
        return tensor_core.integer_matmul(a, b, c, saturate=saturate)

    signed, unsigned = INTEGERS["i8"], INTEGERS["u8"]
    yield from compare(Wgmma(), expected, integer_draws((signed, signed), size, 32))
    if not mma_sync.available():
        return
    for a, b in itertools.product((signed, unsigned), repeat=2):
        types = ".".join("s8" if fmt.signed else "u8" for fmt in (a, b))
        for saturate in (False, True):
            limit = ".satfinite" if saturate else ""
            opcode = f"mma.sync.aligned.m16n8k32.row.col{limit}.s32.{types}.s32"
            drawn = integer_draws((a, b), size, 32)
            yield from compare(MmaSync(opcode), partial(expected, saturate=saturate), drawn)


def fingerprints() -> dict[str, str]:
    """Fingerprints of what `wgmma` itself gave, by kind."""

    def product(a: Bits, b: Bits, c: Bits) -> NDArray[np.float32]:
        return Wgmma()(*(bits.torch("cuda") for bits in (a, b, c))).float().cpu().numpy()

    return {kind.name: fingerprint(kind, product) for kind in KINDS.values()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="where the JSON goes")
    parser.add_argument("--size", type=int, default=2048, help="rows and columns of a product")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device; run this on a Hopper GPU", file=sys.stderr)
        return 2
    if not mma_sync.available():
        print("no nvcc: mma.sync is left out")
    rows: list[Row] = []
    report: dict[str, object] = {
        "schema_version": 1,
        "machine": machine(),
        "fingerprints": fingerprints(),
    }
    for group in (floating(arguments.size), integers(arguments.size)):
        for row in group:
            rows.append(row)
            print(
                f"{row.instruction:64} {row.operands:12} K {row.depth:<3} {row.compared:>11,} "
                f"compared {row.differing:>9,} differ {row.nan:>9,} NaN, {row.other_nans:,} other "
                f"{row.seconds:6.2f} s",
                flush=True,
            )
            report["rows"] = [asdict(r) for r in rows]
            arguments.output.write_text(json.dumps(report, indent=1) + "\n")
    compared, differing = (sum(getattr(r, n) for r in rows) for n in ("compared", "differing"))
    print(f"{compared:,} results compared, {differing:,} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
