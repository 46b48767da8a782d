"""The RMS norm of key heads: rows of one program, what is accepted."""

import math

import torch
import triton
import triton.language as tl

from exactness.claim import Equivalent

from ._norm import LANES, THREADS, VECTOR, WARPS, check_beside, check_rows, pointers

HEADS = (1, 8)
HEAD_DIMS = (16, 32, 64, 128, 256, 512)

EPS = (1e-5, 1e-6, 0.0, 1.0 + 2**-24 + 2**-50)
"""What claims draw eps from."""


_ELEMENTS = 256
"""Elements of a warp: a vector of 16-bit floats a lane."""


@triton.jit
def head_and_weight(
    x_ptr,
    weight_ptr,
    token,
    head,
    col,
    mask,
    strides,
    weight_stride,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
):
    """Columns of heads and of the weight, f32 [ROWS, columns], zeros where masked."""
    x_at = pointers(x_ptr, token, head, col, strides, UNIT, ALIGN)
    # A row for each of x, so that a thread loads what it needs.
    weight_at = pointers(weight_ptr, token, head, col, (0, 0, weight_stride), UNIT, ALIGN)
    x = tl.load(x_at, mask=mask, other=0.0)
    return x.to(tl.float32), tl.load(weight_at, mask=mask, other=0.0).to(tl.float32)


def tile(x: torch.Tensor, num_warps: int) -> dict[str, int]:
    """The compile-time constants of the rows of one program.

    Args:
        x: [tokens, heads, head_dim].
        num_warps: of a program; `WARPS` are the baseline's, from which its order follows.
    """
    _, heads, head_dim = x.shape
    elements = triton.next_power_of_2(heads) * head_dim
    size = min(max(elements // THREADS, 1), VECTOR // x.element_size())
    lanes = min(LANES, head_dim // size)
    return {
        "ROWS": max(num_warps * _ELEMENTS // head_dim, 1),
        "HEAD_DIM": head_dim,
        "SIZE": size,
        "LANES": lanes,
        "WARPS": min(WARPS, head_dim // (size * lanes)),
    }


def check_heads(name: str, x: object, weight: object) -> torch.Tensor:
    """`x`, if it is a float [tokens, heads, head_dim] beside a weight [head_dim].

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong rank, layout, shape or device.
    """
    tensor = check_rows(name, x, (3,))
    _, heads, head_dim = tensor.shape
    if not HEADS[0] <= heads <= HEADS[1]:
        raise ValueError(f"{name}: {heads} heads are not accepted; {HEADS[0]} to {HEADS[1]} are")
    if head_dim not in HEAD_DIMS:
        accepted = ", ".join(map(str, HEAD_DIMS))
        raise ValueError(f"{name}: head_dim {head_dim} is not accepted; {accepted} are")
    check_beside("weight", check_rows("weight", weight, (1,)), tensor, (head_dim,))
    return tensor


def _subnormal_means_do_not_show() -> bool:
    """Every divisor is a power of two, and eps is 0 or has no bit that a subnormal can reach."""
    exact = all(math.frexp(head_dim)[0] == 0.5 for head_dim in HEAD_DIMS)
    return exact and all(eps == 0 or eps > 2.0**-126 * 2**25 for eps in EPS)


UNCONTRACTED_MEAN = Equivalent(
    "1 / head_dim is a power of two, so that the product is exact or subnormal; an eps of the "
    "claim absorbs a subnormal, and the root flushes it where eps is 0",
    _subnormal_means_do_not_show,
)
