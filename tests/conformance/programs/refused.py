"""Programs that need an instruction without a bit model: the virtual Hopper must refuse them."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import moderate
from ..program import Program, elementwise

N = 256


@triton.jit
def _approximate(x_ptr, out_ptr, n, ASM: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.inline_asm_elementwise(ASM, "=f,f", [x], tl.float32, True, 1)
    tl.store(out_ptr + offsets, y, mask=offsets < n)


def _refused(opcode: str) -> Program:
    x = {"x": moderate((N,), "f32", -6, 2)}
    return elementwise(f"refused_{opcode.split('.')[0]}", _approximate, x, {"out": "f32"},
                       refused=opcode, ASM=f"{opcode} $0, $1;")  # fmt: skip


PROGRAMS = [
    _refused("sin.approx.f32"), _refused("cos.approx.f32"), _refused("tanh.approx.f32"),
    _refused("lg2.approx.f32"),
]  # fmt: skip
