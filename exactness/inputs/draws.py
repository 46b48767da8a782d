"""Drawn inputs as data: small, printable, the same bits on every machine.

A `TensorDraw` is a recipe for a tensor (format, shape, family, seed, single patched elements,
memory layout); an `Example` is one set of arguments of a kernel. Hypothesis draws and shrinks
recipes, a failure prints one as a line of JSON, and `exactness verify --example` replays it.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np

from exactness.bits import Bits, unsigned
from exactness.formats import INTEGERS, Format, Integer, format_named
from exactness.inputs.grids import GRIDS
from exactness.inputs.patterns import FAMILIES, generator

_FAMILIES = {**FAMILIES, **GRIDS}


class Layout(enum.Enum):
    """How a tensor lies in memory."""

    CONTIGUOUS = "contiguous"
    STRIDED_ROWS = "strided rows"
    """Rows lie apart, as a slice of a wider tensor."""
    STRIDED_BLOCKS = "strided blocks"
    """Every second element of a longer first dimension: the first two of three do not merge."""
    OFFSET = "offset"
    """The first element is not aligned to more than the element size."""
    STRIDED_COLUMNS = "strided columns"
    """Neighbours in a row lie apart; for kernels that take any strides."""

    def view(self, plain: Any, between: float) -> Any:
        """A copy of a contiguous torch tensor that lies like this, `between` in the gaps."""
        if self is Layout.OFFSET:
            base = plain.new_zeros(plain.numel() + 1)
            base[1:] = plain.reshape(-1)
            return base[1:].reshape(plain.shape)
        if self is Layout.STRIDED_COLUMNS and plain.ndim:
            return _part_of(plain.new_full((*plain.shape, 2), between)[..., 0], plain)
        if self is Layout.STRIDED_ROWS and plain.ndim > 1:
            n = plain.shape[-1]
            return _part_of(plain.new_full((*plain.shape[:-1], n + 3), between)[..., :n], plain)
        if self is Layout.STRIDED_BLOCKS and plain.ndim > 1:
            first, *rest = plain.shape
            return _part_of(plain.new_full((first, 2, *rest), between)[:, 0], plain)
        return plain


def _part_of(view: Any, plain: Any) -> Any:
    """A view of a wider tensor, filled with the elements of `plain`."""
    view.copy_(plain)
    return view


@dataclass(frozen=True, slots=True)
class TensorDraw:
    """A recipe for one float tensor.

    Attributes:
        format: name of the format.
        shape: the shape.
        family: name of the family of patterns.
        seed: seed of the family's generator.
        patches: (flat index, pattern) of single elements.
        layout: how it lies in memory.
    """

    format: str
    shape: tuple[int, ...]
    family: str = "normal"
    seed: int = 0
    patches: tuple[tuple[int, int], ...] = ()
    layout: Layout = Layout.CONTIGUOUS

    def __post_init__(self) -> None:
        """Refuse unknown names, impossible shapes and seeds, and patches that do not fit."""
        fmt = format_named(self.format)
        if self.family not in _FAMILIES:
            raise ValueError(f"family {self.family!r} is unknown; known are {', '.join(_FAMILIES)}")
        _check_place(self.shape, self.seed, self.patches)
        for _, pattern in self.patches:
            if not 0 <= pattern < 1 << fmt.bits or pattern & ((1 << fmt.padding) - 1):
                raise ValueError(f"patches: {pattern:#x} is no pattern of {fmt.name}")

    def patterns(self) -> np.ndarray:
        """The bit patterns, contiguous."""
        fmt: Format = format_named(self.format)
        drawn = _FAMILIES[self.family](generator(self.seed), fmt, self.shape)
        drawn = np.ascontiguousarray(drawn).astype(unsigned(fmt)).reshape(self.shape)
        for index, pattern in self.patches:
            drawn.flat[index] = pattern
        return drawn

    def tensor(self, device: str) -> Any:
        """The torch tensor on `device`, in its layout."""
        plain = Bits(self.patterns(), format_named(self.format)).torch(device)
        return self.layout.view(plain, math.nan)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; defaults are left out."""
        data: dict[str, Any] = {"format": self.format, "shape": list(self.shape)}
        data |= {"family": self.family, "seed": self.seed}
        if self.patches:
            data["patches"] = [[index, hex(pattern)] for index, pattern in self.patches]
        if self.layout is not Layout.CONTIGUOUS:
            data["layout"] = self.layout.value
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TensorDraw:
        """The inverse of `to_dict`.

        Raises:
            ValueError: a field is missing, unknown or out of range.
        """
        try:
            _check_fields(cls, data)
            return cls(
                format=data["format"],
                shape=tuple(int(size) for size in data["shape"]),
                family=data.get("family", "normal"),
                seed=int(data.get("seed", 0)),
                patches=tuple((int(i), int(p, 16)) for i, p in data.get("patches", ())),
                layout=Layout(data.get("layout", "contiguous")),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"tensor {data!r}: {_said(error)}") from None


def _check_fields(draw: type[TensorDraw | IntegerDraw], data: Mapping[str, Any]) -> None:
    if not isinstance(data, Mapping):
        raise ValueError(f"tensor {data!r}: an object is accepted")
    known = {field.name for field in fields(draw)}
    unknown = sorted(set(data) - known)
    if unknown:
        names = ", ".join(sorted(known))
        raise ValueError(f"tensor: unknown field {unknown[0]!r}; known are {names}")


def _check_place(shape: tuple[int, ...], seed: int, patches: tuple[tuple[int, int], ...]) -> None:
    if min(shape, default=0) < 0 or seed < 0:
        raise ValueError(f"shape {shape} and seed {seed}: from 0 up is accepted")
    for index, _ in patches:
        if not 0 <= index < math.prod(shape):
            raise ValueError(f"patches: index {index} is outside of shape {shape}")


def _limits(fmt: Integer) -> tuple[int, int]:
    """The smallest and the largest value of an integer format."""
    if fmt.name == "bool":
        return 0, 1
    magnitude = fmt.bits - fmt.signed
    return (-(1 << magnitude) if fmt.signed else 0), (1 << magnitude) - 1


@dataclass(frozen=True, slots=True)
class IntegerDraw:
    """A recipe for one integer tensor.

    Attributes:
        format: name of the integer format.
        shape: the shape.
        low: smallest value.
        high: largest value.
        seed: seed of the generator.
        patches: (flat index, value) of single elements.
        layout: how it lies in memory.
    """

    format: str
    shape: tuple[int, ...]
    low: int
    high: int
    seed: int = 0
    patches: tuple[tuple[int, int], ...] = ()
    layout: Layout = Layout.CONTIGUOUS

    def __post_init__(self) -> None:
        """Refuse an unknown format, an empty range, and values that do not fit."""
        if self.format not in INTEGERS:
            raise ValueError(f"format {self.format!r} is unknown; known are {', '.join(INTEGERS)}")
        if self.low > self.high:
            raise ValueError(f"low {self.low} is greater than high {self.high}")
        smallest, largest = _limits(INTEGERS[self.format])
        if self.low < smallest or self.high > largest:
            raise ValueError(f"range {self.family} does not fit {self.format}")
        _check_place(self.shape, self.seed, self.patches)
        for _, value in self.patches:
            if not self.low <= value <= self.high:
                raise ValueError(f"patches: {value} is outside of {self.family}")

    @property
    def family(self) -> str:
        """For labels: the range."""
        return f"{self.low}..{self.high}"

    def tensor(self, device: str) -> Any:
        """The torch tensor on `device`, in its layout; the largest value lies in the gaps."""
        fmt = INTEGERS[self.format]
        dtype = np.int64 if self.low < 0 else np.uint64
        drawn = generator(self.seed).integers(self.low, self.high, self.shape, dtype, endpoint=True)
        values = np.asarray(drawn).astype(f"{'i' if fmt.signed else 'u'}{fmt.bits // 8}")
        for index, value in self.patches:
            values.flat[index] = value
        plain = Bits(values.view(unsigned(fmt)), fmt).torch(device)
        return self.layout.view(plain, _limits(fmt)[1])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        data: dict[str, Any] = {"format": self.format, "shape": list(self.shape)}
        data |= {"low": self.low, "high": self.high, "seed": self.seed}
        if self.patches:
            data["patches"] = [list(patch) for patch in self.patches]
        if self.layout is not Layout.CONTIGUOUS:
            data["layout"] = self.layout.value
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> IntegerDraw:
        """The inverse of `to_dict`.

        Raises:
            ValueError: a field is missing, unknown or out of range.
        """
        try:
            _check_fields(cls, data)
            return cls(
                format=data["format"],
                shape=tuple(int(size) for size in data["shape"]),
                low=int(data["low"]),
                high=int(data["high"]),
                seed=int(data.get("seed", 0)),
                patches=tuple((int(i), int(v)) for i, v in data.get("patches", ())),
                layout=Layout(data.get("layout", "contiguous")),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"tensor {data!r}: {_said(error)}") from None


Draw: TypeAlias = TensorDraw | IntegerDraw


def draw_from_dict(data: Mapping[str, Any]) -> Draw:
    """The draw that `to_dict` described.

    Raises:
        ValueError: it describes none.
    """
    of_integers = isinstance(data, Mapping) and "low" in data
    return (IntegerDraw if of_integers else TensorDraw).from_dict(data)


@dataclass(frozen=True, slots=True)
class Example:
    """One set of arguments: tensors as recipes, parameters as numbers."""

    tensors: Mapping[str, Draw]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, device: str) -> dict[str, Any]:
        """The keyword arguments, tensors on `device`."""
        made = {name: draw.tensor(device) for name, draw in self.tensors.items()}
        return {**made, **self.parameters}

    @property
    def label(self) -> str:
        """Sizes and families, as `x=bf16[7,96] ties, eps=1e-06`."""
        tensors = [
            f"{name}={draw.format}[{','.join(map(str, draw.shape))}] {draw.family}"
            for name, draw in self.tensors.items()
        ]
        return ", ".join(tensors + [f"{name}={value!r}" for name, value in self.parameters.items()])

    def to_json(self) -> str:
        """One line of JSON."""
        tensors = {name: draw.to_dict() for name, draw in self.tensors.items()}
        return json.dumps({"tensors": tensors, "parameters": dict(self.parameters)})

    @classmethod
    def from_json(cls, text: str) -> Example:
        """The inverse of `to_json`.

        Raises:
            ValueError: not an example; the message says what is wrong.
        """
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"example {text[:80]!r}: {error}") from None

    @classmethod
    def from_dict(cls, data: object) -> Example:
        """The example that the JSON of `to_json` holds.

        Raises:
            ValueError: not an example.
        """
        if not (isinstance(data, Mapping) and isinstance(data.get("tensors"), Mapping)):
            raise ValueError("an object with tensors is accepted")
        tensors = {name: draw_from_dict(draw) for name, draw in data["tensors"].items()}
        parameters = data.get("parameters", {})
        if not isinstance(parameters, Mapping):
            raise ValueError(f"parameters {parameters!r}: an object is accepted")
        return cls(tensors, dict(parameters))


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
