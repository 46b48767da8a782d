"""Norms with their squares opened: the same kernel, its sum made one that terms can cancel in.

A norm divides x by the root of a sum of x·x. In the PTX of a compiled kernel, `mul x, x` becomes
`mov x`, `fma x, x, c` becomes `add x, c`, and roots and reciprocals become `mov`. What is left
multiplies x by the mean of x: every addition still stands where the compiler put it, and now takes
terms of either sign. PTX can be edited on the virtual Hopper only.
"""

from __future__ import annotations

import re

from exactness.reveal.errors import RevealError

_WIDTHS = {"f32": "b32", "bf16x2": "b32", "f16x2": "b32", "bf16": "b16", "f16": "b16"}
_TYPE = "(f32|bf16x2|f16x2|bf16|f16)"
_REGISTER = r"(%\w+)"

_SQUARE = re.compile(rf"\bmul(?:\.rn)?(?:\.ftz)?\.{_TYPE}\s+{_REGISTER},\s*{_REGISTER},\s*\3;")
_FUSED = re.compile(
    rf"\bfma\.rn((?:\.ftz)?\.{_TYPE})\s+{_REGISTER},\s*{_REGISTER},\s*\4,\s*([^;]+);"
)
_ROOT = re.compile(rf"\b(?:rsqrt|sqrt|rcp)\.\w+(?:\.ftz)?\.f32\s+{_REGISTER},\s*{_REGISTER};")
_RATIO = re.compile(rf"\bdiv\.\w+(?:\.ftz)?\.f32\s+{_REGISTER},\s*(%\w+|0f\w+),\s*{_REGISTER};")
_ONE = re.compile(rf"\bmov\.[bf]32\s+{_REGISTER},\s*(?:0f3F800000|1065353216|0x3F800000);")


def opened(ptx: str, kernel: str) -> str:
    """The PTX of a norm as that of x times the mean of x.

    Args:
        ptx: of the kernel, every contraction decided.
        kernel: its name.

    Raises:
        RevealError: nothing in it is squared.
    """
    text, plain = _SQUARE.subn(lambda m: f"mov.{_WIDTHS[m[1]]} \t{m[2]}, {m[3]};", ptx)
    text, fused = _FUSED.subn(r"add.rn\1 \t\3, \4, \5;", text)
    if plain + fused == 0:
        raise RevealError(f"kernel {kernel} squares nothing: it is no norm that can be opened")
    text = _ROOT.sub(r"mov.b32 \t\1, \2;", text)
    ones = {"0f3F800000", *_ONE.findall(text)}

    def inverse(match: re.Match[str]) -> str:
        target, over, under = match.groups()
        return f"mov.b32 \t{target}, {under};" if over in ones else match[0]

    return _RATIO.sub(inverse, text)
