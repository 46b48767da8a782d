"""Host-side helpers of the kernels: constants and argument checks.

Kernels share no arithmetic with their references, so the conversion to bf16 is written here once
more, in its own way.
"""

import math

import torch


def bf16_constant(value: float) -> float:
    """`value` rounded from f64 to bf16 once, ties to even; exact in f32."""
    if value == 0 or not math.isfinite(value):
        return value
    _, exponent = math.frexp(value)
    quantum = max(exponent - 8, -133)
    # Python's round is to even, and both scalings by a power of two are exact.
    rounded = math.ldexp(round(math.ldexp(value, -quantum)), quantum)
    return rounded if abs(rounded) < 2.0**128 else math.copysign(math.inf, value)


def check_tensor(name: str, x: object, dtype: torch.dtype, rank: int) -> None:
    """Refuse what a kernel would misread.

    Raises:
        TypeError: not a tensor, or of another dtype.
        ValueError: of another rank or layout.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: got {type(x).__name__}; a torch.Tensor is accepted")
    if x.layout is not torch.strided:
        raise ValueError(f"{name}: layout {x.layout} is not accepted; torch.strided is")
    if x.dtype is not dtype:
        raise TypeError(f"{name}: dtype {x.dtype} is not accepted; {dtype} is")
    if x.ndim != rank:
        raise ValueError(f"{name}: shape {tuple(x.shape)} is not accepted; rank {rank} is")


def check_number(name: str, value: object) -> float:
    """A scalar argument as f64, infinities and NaN included.

    Raises:
        TypeError: not an int or float.
        ValueError: an int beyond f64.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: got {type(value).__name__}; a float is accepted")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"{name}: an int of {value.bit_length()} bits is not accepted; what an f64 holds is"
        ) from None
