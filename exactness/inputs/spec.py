"""What a claim says about its inputs, and the Hypothesis strategies made from it.

Sizes are named and drawn from their whole range, edges more often: 0, 1, powers of two and their
neighbours, primes, 255/256/257. They are never rounded to a multiple.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from exactness.formats import Format, Integer
from exactness.inputs import dims as dimensions
from exactness.inputs.dims import Dim
from exactness.inputs.draws import Draw, Example, IntegerDraw, Layout, TensorDraw
from exactness.inputs.patterns import FAMILIES, generator, seed_of, special_patterns

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

_EDGES = sorted(
    {0, 1, 2, 3, 5, 7, 13, 17, 31, 97, 127, 251, 255, 256, 257, 509, 1021, 2039, 4093}
    | {2**k + d for k in range(2, 14) for d in (-1, 0, 1)}
)

ELEMENTS = 1 << 15
"""Elements of the largest tensor of one drawn example; larger sizes are drawn one at a time."""


USUAL_LAYOUTS = (
    Layout.CONTIGUOUS,
    Layout.STRIDED_ROWS,
    Layout.STRIDED_BLOCKS,
    Layout.OFFSET,
)
"""What every kernel takes that does not ask for contiguous tensors."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument.

    Attributes:
        format: its format, or the name of one of the formats of its `Inputs`.
        dims: its dimensions: fixed numbers, names of sizes, or expressions as "2*n".
        families: the families of patterns it may be filled with; all if empty.
        layouts: how it may lie in memory.
    """

    format: Format | str
    dims: tuple[Dim, ...]
    families: tuple[str, ...] = ()
    layouts: tuple[Layout, ...] = USUAL_LAYOUTS

    def __post_init__(self) -> None:
        """Refuse a family that does not exist."""
        unknown = [family for family in self.families if family not in FAMILIES]
        if unknown:
            raise ValueError(f"family {unknown[0]!r} is unknown; known are {', '.join(FAMILIES)}")

    @property
    def accepted(self) -> tuple[str, ...]:
        """The families it may be filled with."""
        return self.families or tuple(FAMILIES)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for given sizes."""
        return tuple(dimensions.value(dim, sizes) for dim in self.dims)

    @property
    def sizes(self) -> frozenset[str]:
        """The names of the sizes its shape depends on."""
        return frozenset().union(*map(dimensions.names, self.dims))


@dataclass(frozen=True)
class IntegerTensor:
    """An integer tensor argument, such as positions or ids.

    Attributes:
        format: its format.
        dims: its dimensions, as those of `Tensor`.
        low: the smallest value.
        end: one more than the largest value; may depend on sizes. The greatest of several.
        layouts: how it may lie in memory.
    """

    format: Integer
    dims: tuple[Dim, ...]
    low: int
    end: Dim | tuple[Dim, ...]
    layouts: tuple[Layout, ...] = (Layout.CONTIGUOUS,)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for given sizes."""
        return tuple(dimensions.value(dim, sizes) for dim in self.dims)

    @property
    def sizes(self) -> frozenset[str]:
        """The names of the sizes its shape and values depend on."""
        return frozenset().union(*map(dimensions.names, (*self.dims, *self._ends)))

    @property
    def _ends(self) -> tuple[Dim, ...]:
        return self.end if isinstance(self.end, tuple) else (self.end,)

    def draw(self, sizes: Mapping[str, int], seed: int) -> IntegerDraw:
        """Values over the whole range; a range that is empty is taken as `low` alone."""
        end = max(dimensions.value(end, sizes) for end in self._ends)
        high = max(end - 1, self.low)
        return IntegerDraw(self.format.name, self.shape(sizes), self.low, high, seed)


@dataclass(frozen=True)
class Inputs:
    """The arguments of a kernel as a space to draw from.

    Attributes:
        sizes: name to (smallest, largest), inclusive.
        tensors: argument name to tensor.
        parameters: argument name to the values it may take; the first is the default.
        formats: name to the formats that tensors of this format have, all at once; the first is
            the default.
        at_most: name of a size to what it does not exceed within its range: an expression of
            sizes that stand behind it in `sizes`.
    """

    sizes: Mapping[str, tuple[int, int]]
    tensors: Mapping[str, Tensor | IntegerTensor]
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    formats: Mapping[str, tuple[Format, ...]] = field(default_factory=dict)
    at_most: Mapping[str, Dim] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse empty ranges, dimensions without a size and parameters without a value."""
        for name, (low, high) in self.sizes.items():
            if not 0 <= low <= high:
                raise ValueError(f"sizes: {name}=({low}, {high}) is not a range from 0 up")
        order = list(self.sizes)
        for name, dim in self.at_most.items():
            behind = order[order.index(name) + 1 :] if name in order else ()
            if not behind or not dimensions.names(dim) <= set(behind):
                raise ValueError(f"at_most: {name} {dim!r} does not depend on sizes behind it")
        for name, tensor in self.tensors.items():
            unknown = sorted(tensor.sizes - set(self.sizes))
            if unknown:
                raise ValueError(f"tensors: {name} has dimension {unknown[0]!r} without a size")
            named = tensor.format if isinstance(tensor.format, str) else None
            if named is not None and named not in self.formats:
                raise ValueError(f"tensors: {name} has format {tensor.format!r}, none of `formats`")
        for name, values in (*self.parameters.items(), *self.formats.items()):
            if not values:
                raise ValueError(f"parameters: {name} has no value; the first is the default")

    def defaults(self) -> dict[str, Any]:
        """The first value of every parameter."""
        return {name: values[0] for name, values in self.parameters.items()}

    def example(self, label: str, *, family: str = "normal", **given: Any) -> Example:
        """A seeded example of given sizes, parameters and formats.

        Args:
            label: seeds the tensors.
            family: the family that fills them; a tensor that does not accept it takes its first.
            **given: every size; parameters, and formats by name, that differ from their default.

        Raises:
            ValueError: a size is missing or a name is unknown.
        """
        missing = [name for name in self.sizes if name not in given]
        accepted = [*self.sizes, *self.parameters, *self.formats]
        if missing or not set(given) <= set(accepted):
            known = ", ".join(accepted)
            raise ValueError(f"case {given}: needs every size and takes only {known}")
        formats = {
            name: self._format_named(name, given.get(name, values[0].name))
            for name, values in self.formats.items()
        }
        tensors: dict[str, Draw] = {}
        for name, tensor in self.tensors.items():
            seed = seed_of(f"{label}/{name}")
            if isinstance(tensor, IntegerTensor):
                tensors[name] = tensor.draw(given, seed)
            else:
                fmt = _format(tensor, formats).name
                held = family if family in tensor.accepted else tensor.accepted[0]
                tensors[name] = TensorDraw(fmt, tensor.shape(given), held, seed)
        chosen = {k: v for k, v in given.items() if k in self.parameters}
        return Example(tensors, {**self.defaults(), **chosen})

    def large_examples(self, seed: int) -> Iterator[Example]:
        """Endless seeded examples that fill the budget of elements, without Hypothesis.

        Every family in turn; sizes are uniform over their range, the first one as large as fits.
        """
        rng = generator(seed)
        first = next(iter(self.sizes))
        for number in itertools.count():
            sizes = {name: int(rng.integers(*r, endpoint=True)) for name, r in self.sizes.items()}
            for name in reversed(list(self.sizes)):
                low, _ = self.sizes[name]
                sizes[name] = low + (sizes[name] - low) % (self.largest(name, sizes) - low + 1)
            sizes[first] = self._room(first, {**sizes, first: 1})
            choices = {
                **self.parameters,
                **{name: [fmt.name for fmt in values] for name, values in self.formats.items()},
            }
            chosen = {
                name: values[int(rng.integers(len(values)))] for name, values in choices.items()
            }
            family = tuple(FAMILIES)[number % len(FAMILIES)]
            label = f"{seed}/{number}"
            yield self.example(label, family=family, **sizes, **chosen)

    def largest(self, name: str, sizes: Mapping[str, int]) -> int:
        """The largest value of a size beside the sizes behind it."""
        low, high = self.sizes[name]
        bound = dimensions.value(self.at_most[name], sizes) if name in self.at_most else high
        return max(low, min(high, bound))

    def _room(self, name: str, others: Mapping[str, int]) -> int:
        """The largest value of a size within its range and the budget of elements."""
        low, high = self.sizes[name][0], self.largest(name, others)
        room = min(
            (
                ELEMENTS // max(math.prod(tensor.shape({**others, name: 1})), 1)
                for tensor in self.tensors.values()
                if name in tensor.sizes
            ),
            default=high,
        )
        return max(low, min(high, room))

    def _format_named(self, name: str, wanted: str) -> Format:
        for fmt in self.formats[name]:
            if fmt.name == wanted:
                return fmt
        known = ", ".join(fmt.name for fmt in self.formats[name])
        raise ValueError(f"case {name}={wanted!r}: {known} are accepted")

    def strategy(self) -> SearchStrategy[Example]:
        """Examples over all sizes, formats, families, layouts and parameters."""
        from hypothesis import strategies as st

        @st.composite
        def examples(draw: DrawFn) -> Example:
            sizes = self._draw_sizes(draw)
            formats = {
                name: draw(st.sampled_from(values), label=name)
                for name, values in self.formats.items()
            }
            tensors = {
                name: _draw_integers(draw, tensor, sizes, name)
                if isinstance(tensor, IntegerTensor)
                else _draw_tensor(draw, tensor, _format(tensor, formats), sizes, name)
                for name, tensor in self.tensors.items()
            }
            parameters = {
                name: draw(st.sampled_from(values), label=name)
                for name, values in self.parameters.items()
            }
            return Example(tensors, parameters)

        return examples()

    def _draw_sizes(self, draw: DrawFn) -> dict[str, int]:
        """Sizes drawn in order from the last; earlier ones yield to the budget of elements."""
        sizes: dict[str, int] = {}
        for name in reversed(list(self.sizes)):
            low, _ = self.sizes[name]
            others = {other: sizes.get(other, 1) for other in self.sizes}
            sizes[name] = draw(_size(low, self._room(name, others)), label=name)
        return sizes


def _format(tensor: Tensor, chosen: Mapping[str, Format]) -> Format:
    return chosen[tensor.format] if isinstance(tensor.format, str) else tensor.format


def _size(low: int, high: int) -> SearchStrategy[int]:
    from hypothesis import strategies as st

    edges = [edge for edge in _EDGES if low <= edge <= high]
    uniform = st.integers(low, high)
    return st.one_of(st.sampled_from(edges), uniform) if edges else uniform


def _draw_integers(
    draw: DrawFn, tensor: IntegerTensor, sizes: Mapping[str, int], name: str
) -> IntegerDraw:
    from hypothesis import strategies as st

    drawn = tensor.draw(sizes, draw(st.integers(0, 2**32 - 1), label=f"{name} seed"))
    layout = draw(st.sampled_from(tensor.layouts), label=f"{name} layout")
    drawn = replace(drawn, layout=layout)
    count = math.prod(drawn.shape)
    if not count:
        return drawn
    edge = st.sampled_from([drawn.low, drawn.high])
    value = st.one_of(edge, st.integers(drawn.low, drawn.high))
    patch = st.tuples(st.integers(0, count - 1), value)
    patches = draw(st.lists(patch, max_size=4), label=f"{name} patches")
    return replace(drawn, patches=tuple(patches))


def _draw_tensor(
    draw: DrawFn, tensor: Tensor, fmt: Format, sizes: Mapping[str, int], name: str
) -> TensorDraw:
    from hypothesis import strategies as st

    shape = tensor.shape(sizes)
    count = math.prod(shape)
    family = draw(st.sampled_from(tensor.accepted), label=f"{name} family")
    pattern = st.one_of(
        st.sampled_from([int(p) for p in special_patterns(fmt)]),
        st.integers(0, (1 << (fmt.bits - fmt.padding)) - 1).map(lambda p: p << fmt.padding),
    )
    patches: tuple[tuple[int, int], ...] = ()
    if count:
        patch = st.tuples(st.integers(0, count - 1), pattern)
        most = 16 if count <= 16 else 3
        patches = tuple(draw(st.lists(patch, max_size=most), label=f"{name} patches"))
    layout = draw(st.sampled_from(tensor.layouts), label=f"{name} layout")
    seed = draw(st.integers(0, 2**32 - 1), label=f"{name} seed")
    return TensorDraw(fmt.name, shape, family, seed, patches, layout)


def rows(
    fmt: Format | tuple[Format, ...],
    *,
    n: tuple[int, int],
    rows: tuple[int, int] = (0, 300),
    name: str = "x",
    layouts: tuple[Layout, ...] = USUAL_LAYOUTS,
    **parameters: tuple[Any, ...],
) -> Inputs:
    """One tensor [rows, n] named `name`, and parameters with the values they may take.

    Several formats are a choice named `format`.
    """
    sizes = {"rows": rows, "n": n}
    if isinstance(fmt, tuple):
        tensor = Tensor("format", ("rows", "n"), layouts=layouts)
        return Inputs(sizes, {name: tensor}, parameters, {"format": fmt})
    return Inputs(sizes, {name: Tensor(fmt, ("rows", "n"), layouts=layouts)}, parameters)
