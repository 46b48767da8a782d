"""Tensors as bit patterns: encode, decode, ordered keys, value classes.

Comparison, inputs and recordings work on bit patterns; references work on values in a carrier
(f32 for every format up to 32 bits, f64 for f64). This module converts between the two and
between tensors of NumPy, torch and ml_dtypes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.formats import (
    INTEGERS,
    Format,
    Integer,
    NaNRule,
    bf16,
    e4m3fn,
    e5m2,
    f16,
    f32,
    f64,
    tf32,
)

AnyFormat = Format | Integer

_NUMPY_FORMATS: dict[str, AnyFormat] = {
    "float64": f64,
    "float32": f32,
    "float16": f16,
    "bfloat16": bf16,
    "float8_e5m2": e5m2,
    "float8_e4m3fn": e4m3fn,
    "bool": INTEGERS["bool"],
    **{f"int{n}": INTEGERS[f"i{n}"] for n in (8, 16, 32, 64)},
    **{f"uint{n}": INTEGERS[f"u{n}"] for n in (8, 16, 32, 64)},
}
"""Dtype names shared by NumPy (with ml_dtypes) and torch."""

TORCH_NAMES: dict[str, str] = {fmt.name: name for name, fmt in _NUMPY_FORMATS.items()}
"""Format name to torch dtype name; tf32 has none."""


def unsigned(fmt: AnyFormat) -> Any:
    """The NumPy dtype of the patterns of `fmt`."""
    return np.dtype(f"u{fmt.bits // 8}")


def is_torch(x: Any) -> bool:
    """Whether `x` is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def format_of(x: Any) -> AnyFormat:
    """The format of the elements of `Bits`, a NumPy array or a torch tensor.

    Raises:
        TypeError: `x` is neither, or of a dtype without a format (complex, object …).
    """
    if isinstance(x, Bits):
        return x.format
    if not (is_torch(x) or isinstance(x, (np.ndarray, np.generic))):
        raise TypeError(
            f"expected a NumPy array or a torch tensor, got {type(x).__name__}: {x!r:.60}"
        )
    name = arrays.dtype_name(x)
    if name not in _NUMPY_FORMATS:
        raise TypeError(f"dtype {name} has no format; known are {', '.join(_NUMPY_FORMATS)}")
    return _NUMPY_FORMATS[name]


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """Bit patterns with the format that reads them.

    Attributes:
        patterns: unsigned NumPy array of the width of `format`, any shape.
        format: how a pattern is read.
    """

    patterns: np.ndarray
    format: AnyFormat

    def __post_init__(self) -> None:
        """Refuse patterns of another width."""
        if self.patterns.dtype != unsigned(self.format):
            raise TypeError(
                f"patterns: dtype {self.patterns.dtype} does not hold {self.format.name}; "
                f"{unsigned(self.format)} is accepted"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the patterns."""
        return self.patterns.shape

    @classmethod
    def of(cls, x: Any) -> Bits:
        """The bits of a NumPy array or torch tensor; shares memory where it can (CPU, strided)."""
        if isinstance(x, Bits):
            return x
        fmt = format_of(x)
        if is_torch(x):
            return cls(_torch_patterns(x, fmt), fmt)
        return cls(np.asarray(x).view(unsigned(fmt)), fmt)

    def values(self) -> np.ndarray:
        """The values: f32 for float formats up to 32 bits, f64 for f64, integers as they are."""
        return decode(self.patterns, self.format)

    def torch(self, device: str = "cpu") -> Any:
        """A torch tensor of these bits on `device` (a copy)."""
        import torch

        if self.format is tf32:
            raise TypeError("format tf32 has no torch dtype; use f32")
        signed = torch.from_numpy(
            np.array(self.patterns, copy=True).view(f"i{self.format.bits // 8}")
        )
        dtype = getattr(torch, TORCH_NAMES[self.format.name])
        if dtype is torch.bool:
            return signed.to(torch.bool).to(device)
        return signed.view(dtype).to(device)


def _torch_patterns(x: Any, fmt: AnyFormat) -> np.ndarray:
    torch = sys.modules["torch"]
    plain = x.detach().resolve_neg()
    if plain.dtype is torch.bool:
        plain = plain.to(torch.uint8)
    signed = plain.view(getattr(torch, f"int{fmt.bits}")).cpu().numpy()
    return np.asarray(signed).view(unsigned(fmt))


def decode(patterns: Array, fmt: AnyFormat) -> np.ndarray:
    """Values of bit patterns, exactly.

    Args:
        patterns: unsigned NumPy array of the width of `fmt`.
        fmt: the format.

    Returns:
        f64 values for f64, f32 for other floats, else integers of the format's own dtype.

    Raises:
        TypeError: `patterns` has another width than the format.
    """
    patterns = np.asarray(patterns)
    if 8 * patterns.dtype.itemsize != fmt.bits:
        raise TypeError(
            f"patterns: dtype {patterns.dtype} does not hold {fmt.name}; "
            f"{unsigned(fmt)} is accepted"
        )
    if isinstance(fmt, Integer):
        return patterns.view(f"{'i' if fmt.signed else 'u'}{fmt.bits // 8}")
    if fmt.bits == 64:
        return patterns.view(np.float64)
    if fmt.bits == 32:
        return patterns.view(np.float32)
    if fmt is bf16:
        return np.asarray(patterns.astype(np.uint32) << 16).view(np.float32)
    if fmt is f16:
        return patterns.view(np.float16).astype(np.float32)
    return np.asarray(_decode_table(fmt)[patterns])


def _decode_table(fmt: Format) -> np.ndarray:
    """All values of an 8-bit format, by its definition."""
    patterns = np.arange(1 << fmt.bits, dtype=np.int64)
    exponent = (patterns >> fmt.fraction_bits) & ((1 << fmt.exponent_bits) - 1)
    fraction = patterns & ((1 << fmt.fraction_bits) - 1)
    significand = fraction + np.where(exponent > 0, 1 << fmt.fraction_bits, 0)
    magnitude = np.ldexp(
        significand.astype(np.float32), np.maximum(exponent, 1) - fmt.bias - fmt.fraction_bits
    )
    magnitude[is_infinity(patterns, fmt)] = np.inf
    magnitude[is_nan(patterns, fmt)] = np.nan
    return np.where(patterns >> (fmt.bits - 1), -magnitude, magnitude)


def encode(values: Array, fmt: AnyFormat) -> np.ndarray:
    """Bit patterns of values that `fmt` holds exactly.

    Args:
        values: f32 or f64 NumPy values (integers for an `Integer`).
        fmt: the format.

    Raises:
        ValueError: a value is not representable; round it first.
    """
    values = np.asarray(values)
    patterns = np.asarray(_encode_unchecked(values, fmt))
    back = decode(patterns, fmt)
    wrong = (back != values) & ((back == back) | (values == values))
    if np.any(wrong):
        raise ValueError(
            f"values: {values[wrong].ravel()[0]!r} is not a value of {fmt.name}; round it first"
        )
    return patterns


def _encode_unchecked(values: np.ndarray, fmt: AnyFormat) -> np.ndarray:
    """The patterns; where a value is not one of the format, those of another value."""
    with np.errstate(all="ignore"):
        if isinstance(fmt, Integer):
            return values.astype(f"{'i' if fmt.signed else 'u'}{fmt.bits // 8}").view(unsigned(fmt))
        if fmt.bits == 64:
            return values.astype(np.float64).view(np.uint64)
        single = values.astype(np.float32)
        if fmt is tf32:
            kept = single.view(np.uint32) >> fmt.padding << fmt.padding
            return np.where(np.isnan(single), np.uint32(tf32.nan_pattern), kept)
        if fmt.bits == 32:
            return single.view(np.uint32)
        if fmt is bf16:
            high = (single.view(np.uint32) >> 16).astype(np.uint16)
            return np.where(np.isnan(single), np.uint16(bf16.nan_pattern), high)
        if fmt is f16:
            return single.astype(np.float16).view(np.uint16)
        return _encode_fp8(single, fmt)


def _encode_fp8(values: np.ndarray, fmt: Format) -> np.ndarray:
    positive = _decode_table(fmt)[: 1 << (fmt.bits - 1)]
    finite = int(np.sum(np.isfinite(positive)))
    patterns = np.searchsorted(positive[:finite], np.abs(values)).clip(0, finite - 1)
    if fmt.infinities:
        patterns = np.where(np.isinf(values), fmt.infinity_pattern, patterns)
    patterns = np.where(np.isnan(values), fmt.nan_pattern, patterns)
    return (patterns | (np.signbit(values).astype(np.int64) << (fmt.bits - 1))).astype(np.uint8)


def as_payload(x: Any) -> tuple[Array, Format]:
    """A float tensor as carrier values and its format; the entry to a reference.

    NumPy arrays and CPU tensors become NumPy arrays; CUDA tensors stay on their device.

    Raises:
        TypeError: not an array of a float format.
    """
    fmt = format_of(x)
    if not isinstance(fmt, Format):
        raise TypeError(f"a tensor of {fmt.name} has no float payload; floats are accepted")
    if is_torch(x) and x.is_cuda:
        return arrays.astype(x, "float64" if fmt is f64 else "float32"), fmt
    return Bits.of(x).values(), fmt


def from_payload(payload: Array, fmt: Format) -> Bits:
    """The bits of carrier values, rounded already; a CUDA tensor is brought to the CPU."""
    if is_torch(payload):
        payload = payload.cpu().numpy()
    return Bits(encode(payload, fmt), fmt)


def magnitudes(patterns: np.ndarray, fmt: Format) -> np.ndarray:
    """The patterns without their sign bit."""
    return patterns & unsigned(fmt).type((1 << (fmt.bits - 1)) - 1)


def is_nan(patterns: np.ndarray, fmt: Format) -> np.ndarray:
    """Which patterns are NaN."""
    magnitude = patterns & ((1 << (fmt.bits - 1)) - 1)
    if fmt.nan is NaNRule.ALL_ONES:
        return magnitude == fmt.nan_pattern
    return magnitude > fmt.infinity_pattern


def is_infinity(patterns: np.ndarray, fmt: Format) -> np.ndarray:
    """Which patterns are an infinity."""
    if not fmt.infinities:
        return np.zeros(np.shape(patterns), bool)
    return (patterns & ((1 << (fmt.bits - 1)) - 1)) == fmt.infinity_pattern


def is_zero(patterns: np.ndarray, fmt: Format) -> np.ndarray:
    """Which patterns are +0 or −0."""
    return (patterns & ((1 << (fmt.bits - 1)) - 1)) == 0


def is_subnormal(patterns: np.ndarray, fmt: Format) -> np.ndarray:
    """Which patterns are subnormal (zero is not)."""
    magnitude = patterns & ((1 << (fmt.bits - 1)) - 1)
    return (magnitude != 0) & (magnitude < (1 << (fmt.fraction_bits + fmt.padding)))


def ordered_keys(patterns: np.ndarray, fmt: AnyFormat) -> np.ndarray:
    """int64 keys in the order of the values; neighbours differ by 1, ±0 share the key 0.

    NaN patterns get keys beyond infinity. The distance of two f64 keys may need 64 unsigned
    bits: subtract them as uint64.
    """
    if isinstance(fmt, Integer):
        if fmt.name == "u64":
            return (patterns ^ np.uint64(1 << 63)).view(np.int64)
        return decode(patterns, fmt).astype(np.int64)
    magnitude = (magnitudes(patterns, fmt) >> unsigned(fmt).type(fmt.padding)).astype(np.int64)
    negative = (patterns >> unsigned(fmt).type(fmt.bits - 1)).astype(bool)
    return np.where(negative, -magnitude, magnitude)
