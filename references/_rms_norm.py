"""What the RMS norms of rows share: WeLM's order of summation and mean.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`_do_rms_norm` within `rms_norm_kernel`, one row a program, compiled by Triton 3.6 with fusion on.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactness.arithmetic import Value, cast
from exactness.formats import Format, f32

from ._squares import Layout, inverse_rms


def to_and_back(x: Value, fmt: Format) -> Value:
    """To a format and back."""
    narrow = cast(x, fmt)
    return cast(narrow, f32)


def normalised(
    h: Value, eps: float, weight: Value, stored: Sequence[Format], *loaded: Format
) -> Value:
    """The rows h over their root mean square, f32."""
    n = h.shape[-1]
    rows = h.reshape(-1, n)
    layout = Layout.of(n, 1, _widest(n, weight.format, stored, loaded))
    normal = rows * inverse_rms(rows, eps, layout)
    return normal.reshape(*h.shape)


def _widest(n: int, weight: Format, stored: Sequence[Format], loaded: Sequence[Format]) -> int:
    """Elements of the widest vector access, at most 16 bytes, of the baseline's kernel.

    Triton knows where the weight and the stored rows start, as n is a constant there; of the loaded
    rows it knows whether their stride is a multiple of 16.
    """
    narrow = weight.bits == 16
    narrow |= n % 8 == 0 and any(fmt.bits == 16 for fmt in stored)
    narrow |= n % 16 == 0 and any(fmt.bits == 16 for fmt in loaded)
    return 8 if narrow else 4
