"""Random operands that bring out what a tensor core does, as torch tensors on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from exactness.formats import Format, Integer

Tensor = torch.Tensor
Formats = tuple[Format, Format, Format]

_DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "tf32": torch.float32,
    "e4m3fn": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "u8": torch.uint8,
}


@dataclass(frozen=True)
class Draw:
    """Operands of a · b + c: [M, K], [K, N] and [M, N]."""

    a: Tensor
    b: Tensor
    c: Tensor


@dataclass(frozen=True)
class Generator:
    """Draws bit patterns field by field."""

    device: str = "cuda"
    seed: int = 2511
    source: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        source = torch.Generator(self.device).manual_seed(self.seed)
        object.__setattr__(self, "source", source)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        """int64 in [low, high)."""
        return torch.randint(low, high, shape, generator=self.source, device=self.device)

    def bits(self, fmt: Format, shape: tuple[int, ...]) -> Tensor:
        """Any pattern, infinities and NaN among them; bits that tf32 ignores are drawn too."""
        return self.of_exponents(fmt, self.integers(0, 1 << fmt.exponent_bits, shape))

    def around(self, fmt: Format, shape: tuple[int, ...], middle: int, spread: int) -> Tensor:
        """Finite patterns with unbiased exponents from middle − spread to middle + spread."""
        biased = self.integers(middle - spread, middle + spread + 1, shape) + fmt.bias
        top = (1 << fmt.exponent_bits) - 2 + (not fmt.infinities)
        patterns = self.of_exponents(fmt, biased.clamp(0, top))
        if fmt.infinities:
            return patterns
        # The last pattern of the top exponent is NaN.
        return torch.where(patterns & fmt.nan_pattern == fmt.nan_pattern, patterns - 1, patterns)

    def of_exponents(self, fmt: Format, biased: Tensor) -> Tensor:
        low = fmt.fraction_bits + fmt.padding
        shape = tuple(biased.shape)
        return (
            self.integers(0, 2, shape) << (fmt.bits - 1)
            | biased << low
            | self.integers(0, 1 << low, shape)
        )

    def power_of_two(self, fmt: Format, exponent: Tensor) -> Tensor:
        """Patterns of 2^exponent, which the format holds."""
        normal = (exponent + fmt.bias) << (fmt.fraction_bits + fmt.padding)
        place = (exponent - fmt.quantum_exponent + fmt.padding).clamp(0, fmt.bits - 2)
        subnormal = torch.ones_like(exponent) << place
        return torch.where(exponent >= fmt.min_exponent, normal, subnormal)

    def chosen(self, x: Tensor, y: Tensor, one_in: int) -> Tensor:
        """`y` in one of so many places, else `x`."""
        return torch.where(self.integers(0, one_in, tuple(x.shape)) == 0, y, x)

    def zeros(self, fmt: Format, shape: tuple[int, ...]) -> Tensor:
        """+0 and −0."""
        return self.integers(0, 2, shape) << (fmt.bits - 1)

    def specials(self, fmt: Format, shape: tuple[int, ...]) -> Tensor:
        """Zeros, the ends of the subnormals and normals, 1, infinities, NaN, of both signs."""
        low = fmt.fraction_bits + fmt.padding
        one, nan = fmt.bias << low, fmt.nan_pattern
        edges = [0, 1 << fmt.padding, (1 << low) - 1, 1 << low, one, one + (1 << fmt.padding), nan]
        if fmt.infinities:
            edges += [fmt.infinity_pattern, fmt.infinity_pattern - 1, fmt.infinity_pattern + 1]
        values = torch.tensor(edges, device=self.device)
        return values[self.integers(0, len(edges), shape)] | self.zeros(fmt, shape)


def tensor(patterns: Tensor, fmt: Format | Integer) -> Tensor:
    """int64 patterns as a tensor of the format's dtype."""
    integer = {8: torch.int8, 16: torch.int16, 32: torch.int32}[fmt.bits]
    return patterns.to(integer).view(_DTYPES[fmt.name])


Drawer = Callable[[Generator, Formats, int, int], tuple[Tensor, ...]]


def _shapes(size: int, depth: int) -> tuple[tuple[int, int], ...]:
    return (size, depth), (depth, size), (size, size)


def _bits(g: Generator, formats: Formats, size: int, depth: int) -> tuple[Tensor, ...]:
    return tuple(g.bits(f, s) for f, s in zip(formats, _shapes(size, depth), strict=True))


def _around(middle: Callable[[Formats], tuple[int, int]], spread: int) -> Drawer:
    """Operands' exponents around the first number, the accumulator's around the second."""

    def draw(g: Generator, formats: Formats, size: int, depth: int) -> tuple[Tensor, ...]:
        operand, accumulator = middle(formats)
        centres = (operand, operand, accumulator)
        zipped = zip(formats, _shapes(size, depth), centres, strict=True)
        return tuple(g.around(fmt, shape, centre, spread) for fmt, shape, centre in zipped)

    return draw


def _least(formats: Formats) -> tuple[int, int]:
    """Products about as small as the smallest accumulators, or as small as they get."""
    a, b, c = formats
    return max(c.quantum_exponent // 2, a.min_exponent, b.min_exponent), c.min_exponent - 2


def _greatest(formats: Formats) -> tuple[int, int]:
    a, b, c = formats
    return min(c.max_exponent // 2, a.max_exponent, b.max_exponent), c.max_exponent


def _tiny(g: Generator, formats: Formats, size: int, depth: int) -> tuple[Tensor, ...]:
    a, b, c = _around(_least, 6)(g, formats, size, depth)
    return a, b, g.chosen(c, g.zeros(formats[2], tuple(c.shape)), 2)


def _powers(g: Generator, formats: Formats, size: int, depth: int) -> tuple[Tensor, ...]:
    """Few powers of two, whose sums tie at the least bits of the result, and no accumulator.

    What lies far below decides a tie, if the alignment keeps it.
    """
    drawn = []
    for fmt, shape in zip(formats[:2], _shapes(size, depth)[:2], strict=True):
        lowest = max(fmt.quantum_exponent, formats[2].quantum_exponent // 2 - 13)
        exponent = g.integers(lowest, lowest + 15, shape)
        signed = g.power_of_two(fmt, exponent) | g.zeros(fmt, shape)
        drawn.append(g.chosen(g.zeros(fmt, shape), signed, 4))
    return *drawn, g.zeros(formats[2], (size, size))


def _cancelling(g: Generator, formats: Formats, size: int, depth: int) -> tuple[Tensor, ...]:
    """Products in pairs of opposite sign, but for a few, and a small accumulator."""
    a, b, c = _around(lambda f: (0, -12), 3)(g, formats, size, depth)
    opposite = a[:, ::2] ^ 1 << (formats[0].bits - 1)
    a[:, 1::2] = g.chosen(opposite, a[:, 1::2].clone(), 16)
    b[1::2] = g.chosen(b[::2], b[1::2].clone(), 16)
    return a, b, g.chosen(c, g.zeros(formats[2], tuple(c.shape)), 2)


def _zeros(g: Generator, formats: Formats, size: int, depth: int) -> tuple[Tensor, ...]:
    """Zeros of both signs beside the largest and other numbers."""
    drawn = _around(_greatest, 1)(g, formats, size, depth)
    middle = _around(lambda f: (0, 0), 8)(g, formats, size, depth)
    mixed = (g.chosen(x, y, 2) for x, y in zip(drawn, middle, strict=True))
    return tuple(
        g.chosen(x, g.zeros(f, tuple(x.shape)), 2) for f, x in zip(formats, mixed, strict=True)
    )


def _specials(g: Generator, formats: Formats, size: int, depth: int) -> tuple[Tensor, ...]:
    """One operand in sixteen is special."""
    drawn = _around(lambda f: (0, 0), 8)(g, formats, size, depth)
    zipped = zip(formats, drawn, strict=True)
    return tuple(g.chosen(x, g.specials(f, tuple(x.shape)), 16) for f, x in zipped)


DRAWERS: Mapping[str, Drawer] = {
    "bits": _bits,
    "near": _around(lambda f: (0, 0), 3),
    "wide": _around(lambda f: (0, 0), 16),
    "cancelling": _cancelling,
    "tiny": _tiny,
    "powers": _powers,
    "huge": _around(_greatest, 2),
    "zeros": _zeros,
    "specials": _specials,
}


def draws(formats: Formats, size: int, depth: int) -> Iterator[tuple[str, Draw]]:
    """Operands of every kind, by name."""
    for name, drawer in DRAWERS.items():
        drawn = drawer(Generator(), formats, size, depth)
        yield name, Draw(*(tensor(x, f) for x, f in zip(drawn, formats, strict=True)))


def integer_draws(
    formats: tuple[Integer, Integer], size: int, depth: int
) -> Iterator[tuple[str, Draw]]:
    """8-bit operands, with any accumulators and with some at the ends of int32."""
    g = Generator()
    left, right, whole = _shapes(size, depth)
    a, b = (tensor(g.integers(0, 256, s), f) for f, s in zip(formats, (left, right), strict=True))
    edges = torch.tensor([0, -1, -(1 << 31), (1 << 31) - 1], device=g.device)
    accumulators = {
        "bits": g.integers(-(1 << 31), 1 << 31, whole),
        "specials": edges[g.integers(0, 4, whole)] ^ g.integers(0, 1 << 18, whole),
    }
    for name, c in accumulators.items():
        yield name, Draw(a, b, c.to(torch.int32))
