"""The number formats as one table: widths, bias, infinities and NaN rules.

A `Format` describes a binary floating-point format, an `Integer` a two's complement one. Both
have a `name` and a storage width in bits; nothing else in the engine knows a width by heart.

Sources: IEEE 754-2019 (f64, f32, f16); the PTX ISA, "Alternate floating-point data formats"
(bf16, tf32, e4m3, e5m2); the OCP 8-bit floating point specification 1.0 (fp8).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


class NaNRule(enum.Enum):
    """Which bit patterns are NaN."""

    IEEE = "exponent all ones, fraction not zero"
    ALL_ONES = "exponent and fraction all ones"


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format.

    Attributes:
        name: short name, as Triton and safetensors users write it.
        bits: width in storage; tf32 is kept in 32 bits with the low 13 bits zero.
        exponent_bits: width of the biased exponent.
        fraction_bits: explicit bits of the significand.
        infinities: whether the format has them; without, the top exponent holds numbers.
        nan: which patterns are NaN.
    """

    name: str
    bits: int
    exponent_bits: int
    fraction_bits: int
    infinities: bool = True
    nan: NaNRule = NaNRule.IEEE

    def __post_init__(self) -> None:
        """Refuse a layout wider than its storage."""
        if 1 + self.exponent_bits + self.fraction_bits > self.bits:
            raise ValueError(f"format {self.name}: fields are wider than {self.bits} bits")

    @property
    def precision(self) -> int:
        """Significand bits, the implicit one included."""
        return self.fraction_bits + 1

    @property
    def padding(self) -> int:
        """Low storage bits that are always zero (13 for tf32)."""
        return self.bits - 1 - self.exponent_bits - self.fraction_bits

    @property
    def bias(self) -> int:
        """What is subtracted from the biased exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite number."""
        return self.bias if self.infinities else self.bias + 1

    @property
    def quantum_exponent(self) -> int:
        """Exponent of the smallest subnormal number."""
        return self.min_exponent - self.fraction_bits

    @property
    def largest(self) -> float:
        """The largest finite number (exact in f64)."""
        significand = (1 << self.precision) - 1
        if self.nan is NaNRule.ALL_ONES:
            significand -= 1
        return float(significand) * 2.0 ** (self.max_exponent - self.fraction_bits)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number (exact in f64)."""
        return 2.0**self.min_exponent

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number (exact in f64)."""
        return 2.0**self.quantum_exponent

    @property
    def nan_pattern(self) -> int:
        """The quiet NaN that conversions give: every exponent and fraction bit for fp8 e4m3."""
        exponent = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        fraction = (1 << self.fraction_bits) - 1
        if self.nan is NaNRule.IEEE:
            fraction = 1 << (self.fraction_bits - 1)
        return (exponent | fraction) << self.padding

    @property
    def infinity_pattern(self) -> int:
        """The pattern of +inf.

        Raises:
            ValueError: the format has no infinity.
        """
        if not self.infinities:
            raise ValueError(f"format {self.name} has no infinity")
        return ((1 << self.exponent_bits) - 1) << (self.fraction_bits + self.padding)


@dataclass(frozen=True, slots=True)
class Integer:
    """A two's complement or unsigned integer format; `bool` is an unsigned one of 8 bits."""

    name: str
    bits: int
    signed: bool


f64 = Format("f64", 64, 11, 52)
f32 = Format("f32", 32, 8, 23)
tf32 = Format("tf32", 32, 8, 10)
bf16 = Format("bf16", 16, 8, 7)
f16 = Format("f16", 16, 5, 10)
e5m2 = Format("e5m2", 8, 5, 2)
e4m3fn = Format("e4m3fn", 8, 4, 3, infinities=False, nan=NaNRule.ALL_ONES)

FORMATS: Mapping[str, Format] = MappingProxyType(
    {fmt.name: fmt for fmt in (f64, f32, tf32, bf16, f16, e5m2, e4m3fn)}
)

INTEGERS: Mapping[str, Integer] = MappingProxyType(
    {
        "bool": Integer("bool", 8, signed=False),
        **{f"u{bits}": Integer(f"u{bits}", bits, signed=False) for bits in (8, 16, 32, 64)},
        **{f"i{bits}": Integer(f"i{bits}", bits, signed=True) for bits in (8, 16, 32, 64)},
    }
)


def format_named(name: str) -> Format:
    """The float format called `name`.

    Raises:
        ValueError: no such format; the message lists those that exist.
    """
    if name not in FORMATS:
        raise ValueError(f"format {name!r} is unknown; known are {', '.join(FORMATS)}")
    return FORMATS[name]
