"""Deterministic tensors for conformance programs, drawn as bit patterns.

Everything comes from the raw 64-bit words of NumPy's Philox, whose stream is fixed by its
specification, so that the H200 and every CPU rebuild the same inputs and the recordings need to
hold outputs only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

Words = np.ndarray[Any, np.dtype[np.uint64]]

TORCH_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "b8": "bool",
}  # fmt: skip

# name: (bits, fraction bits, exponent bias)
FLOATS = {
    "f64": (64, 52, 1023), "f32": (32, 23, 127), "f16": (16, 10, 15), "bf16": (16, 7, 127),
    "e4m3fn": (8, 3, 7), "e5m2": (8, 2, 15),
}  # fmt: skip

# Fraction bits that a conversion to some narrower format drops: half of them is a tie.
DROPPED = {"f64": (29, 42, 45), "f32": (16, 13, 20, 21), "f16": (7, 8), "bf16": (4, 5),
           "e4m3fn": (1,), "e5m2": (1,)}  # fmt: skip

# Where narrower formats and integers overflow, underflow or tie.
LANDMARKS = (
    0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 127.0, 127.5, 128.0, 255.0, 255.5, 256.0, 448.0, 464.0, 480.0,
    32767.5, 32768.0, 57344.0, 61440.0, 65504.0, 65519.0, 65520.0, 65535.5, 65536.0,
    2147483520.0, 2147483648.0, 4294967040.0, 4294967296.0, 2.0**63, 2.0**64,
    2.0**-6, 2.0**-9, 2.0**-10, 2.0**-14, 2.0**-16, 2.0**-17, 2.0**-24, 2.0**-25, 2.0**-126,
)  # fmt: skip


@dataclass(frozen=True)
class Draw:
    """A tensor of ``shape`` and ``dtype`` whose bits ``make`` derives from random words."""

    shape: tuple[int, ...]
    dtype: str
    make: Callable[[Words], np.ndarray[Any, Any]]

    def __post_init__(self) -> None:
        if self.dtype not in TORCH_NAMES:
            raise ValueError(f"dtype: {self.dtype!r} is not one of {', '.join(TORCH_NAMES)}")

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def bits(self, seed: str) -> np.ndarray[Any, Any]:
        """Return the unsigned patterns of the tensor named ``seed``, in ``shape``."""
        words = _words(seed, 2 * self.size).reshape(2, -1)
        made = self.make(words)
        return made.astype(f"u{itemsize(self.dtype)}").reshape(self.shape)


def itemsize(dtype: str) -> int:
    """Return the bytes of one element of ``dtype``."""
    return FLOATS[dtype][0] // 8 if dtype in FLOATS else int(dtype[1:]) // 8


def patterns(shape: Sequence[int], dtype: str) -> Draw:
    """Draw any bits of ``dtype``: specials, ties, moderate values and uniform patterns."""
    return Draw(tuple(shape), dtype, lambda words: _mixture(words, dtype))


def moderate(shape: Sequence[int], dtype: str, low: int = -8, high: int = 8) -> Draw:
    """Draw finite floats of either sign with exponents spread evenly over ``low`` to ``high``."""
    return Draw(tuple(shape), dtype, lambda words: _moderate(words[0], dtype, low, high))


def integers(shape: Sequence[int], dtype: str, low: int, high: int) -> Draw:
    """Draw integers from ``low`` to ``high``, both included (two's complement patterns)."""
    span = np.uint64(high - low + 1)
    return Draw(tuple(shape), dtype, lambda words: words[0] % span + np.int64(low).view(np.uint64))


def permutation(shape: Sequence[int], dtype: str = "i32") -> Draw:
    """Draw each of 0 to size - 1 once."""
    return Draw(tuple(shape), dtype, lambda words: np.argsort(words[0], kind="stable"))


def every_pattern(dtype: str) -> Draw:
    """Return all patterns of an 8- or 16-bit type in ascending order."""
    count = 1 << (8 * itemsize(dtype))
    return Draw((count,), dtype, lambda words: np.arange(words.shape[1]))


def constant(shape: Sequence[int], dtype: str, pattern: int = 0) -> Draw:
    """Return a tensor whose elements all have the bits ``pattern``."""
    return Draw(tuple(shape), dtype, lambda words: np.full(words.shape[1], pattern, np.uint64))


def to_tensor(bits: np.ndarray[Any, Any], dtype: str) -> torch.Tensor:
    """Return a CPU tensor of ``dtype`` that has the given unsigned patterns."""
    import torch

    signed = np.ascontiguousarray(bits).view(f"i{bits.itemsize}")
    return torch.from_numpy(signed.copy()).view(getattr(torch, TORCH_NAMES[dtype]))


def to_bits(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return the unsigned patterns of a tensor on any device."""
    import torch

    signed = getattr(torch, f"int{8 * tensor.element_size()}")
    return tensor.detach().cpu().contiguous().view(signed).numpy().view(f"u{tensor.element_size()}")


def _words(seed: str, count: int) -> Words:
    key = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:16], "little")
    return np.random.Philox(key=key).random_raw(max(count, 1))[:count]


def _mixture(words: Words, dtype: str) -> Words:
    choice, rest = words[1] & np.uint64(15), words[1] >> np.uint64(4)
    bits = 8 * itemsize(dtype)
    uniform = words[0] >> np.uint64(64 - bits)
    edges = _edges(dtype)
    edge = edges[(rest % np.uint64(len(edges))).astype(np.int64)]
    if dtype not in FLOATS:
        return np.where(choice < 5, edge, uniform)
    near = _moderate(words[0], dtype, -12, 12)
    return np.select([choice < 4, choice < 6, choice < 12],
                     [edge, _tie(near, rest, dtype), near], uniform)  # fmt: skip


def _moderate(words: Words, dtype: str, low: int, high: int) -> Words:
    bits, fraction, bias = FLOATS[dtype]
    top = (1 << (bits - fraction - 1)) - 2
    low, high = max(low, 1 - bias), min(high, top - bias)
    # The upper half of the word gives the exponent, so that it is independent of the fraction.
    exponent = (words >> np.uint64(32)) * np.uint64(high - low + 1) >> np.uint64(32)
    magnitude = (exponent + np.uint64(low + bias)) << np.uint64(fraction)
    # An f64 fraction needs more than the lower half: multiply it out over the whole word.
    mixed = (words & np.uint64(0xFFFFFFFF)) * np.uint64(0x9E3779B97F4A7C15)
    sign = (words & np.uint64(1)) << np.uint64(bits - 1)
    return sign | magnitude | mixed >> np.uint64(64 - fraction)


def _tie(pattern: Words, rest: Words, dtype: str) -> Words:
    dropped = np.array(DROPPED[dtype], np.uint64)[
        (rest % np.uint64(len(DROPPED[dtype]))).astype(int)
    ]
    half = np.uint64(1) << (dropped - np.uint64(1))
    return (
        (pattern >> dropped << dropped)
        + half
        + (rest >> np.uint64(8)) % np.uint64(3)
        - np.uint64(1)
    )


def _edges(dtype: str) -> Words:
    bits = 8 * itemsize(dtype)
    if dtype in FLOATS:
        magnitudes = _float_edges(dtype)
        return np.concatenate([magnitudes, magnitudes | np.uint64(1 << (bits - 1))])
    powers = [1 << k for k in range(0, bits, max(bits // 8, 1))]
    values = [0, *(p + d for p in powers for d in (-1, 0, 1)), (1 << bits) - 1, (1 << bits) - 2]
    return np.array([v % (1 << bits) for v in (*values, 1 << (bits - 1))], np.uint64)


def _float_edges(dtype: str) -> Words:
    bits, fraction, bias = FLOATS[dtype]
    one, least, top = bias << fraction, 1 << fraction, (1 << (bits - 1)) - 1
    infinity = top >> fraction << fraction
    if dtype == "e4m3fn":
        special = [0, 1, least - 1, least, least + 1, one, one - 1, one + 1, top - 1, top]
    else:
        special = [0, 0, 1, 2, least - 1, least, least + 1, one - 1, one + 1, infinity - 1,
                   infinity, infinity, infinity | (1 << (fraction - 1)), top]  # fmt: skip
    return np.array([*special, *_landmarks(dtype)], np.uint64)


def _landmarks(dtype: str) -> list[int]:
    values = np.array(LANDMARKS, np.float64)
    if dtype == "f64":
        return [int(v) for v in values.view(np.uint64)]
    if dtype == "f32":
        return [int(v) for v in values.astype(np.float32).view(np.uint32)]
    if dtype == "bf16":
        return [int(v) >> 16 for v in values.astype(np.float32).view(np.uint32)]
    if dtype == "f16":
        inside = values[(values <= 65504) & (values >= 2.0**-24)]
        return [int(v) for v in inside.astype(np.float16).view(np.uint16)]
    return []
