"""Entries of CUDA PTX as summations, on the virtual Hopper."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exactness import bits
from exactness.bits import Bits
from exactness.formats import f32
from exactness.reveal.errors import RevealError
from exactness.reveal.rowwise import RowKernel
from exactness.reveal.targets import Shape, format_for, kind_of

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")


@dataclass(frozen=True)
class Call:
    """How a PTX entry is launched; sizes are numbers, or `n`, `rows`, `columns`.

    Attributes:
        arguments: in order: `x` (the terms [rows, n]), `out` (the results), `ones` or `zeros`
            ([columns, n]), a size, or a number. `out:bf16` says a format; without, `out` is f32
            and the others are as the terms.
        grid: blocks along up to three axes.
        block: threads along up to three axes.
        shared: bytes of dynamic shared memory.
    """

    arguments: tuple[str, ...]
    grid: tuple[str, ...] = ("rows",)
    block: tuple[str, ...] = ("256",)
    shared: int = 0


class PTXEntry(RowKernel):
    """A kernel that `nvcc -ptx` wrote.

    Attributes:
        shape: sizes and format.
        how: how it is launched.
    """

    def __init__(self, address: str, shape: Shape, how: Call, kind: str | None = None) -> None:
        """Load the entry.

        Args:
            address: `file.ptx:entry`.
            shape: what to hand to it.
            how: how it is launched.
            kind: "norm" if it sums squares; from its name if None.

        Raises:
            UsageError: the file cannot be read or has no such entry.
            RevealError: the call names no terms, no results, or something unknown.
        """
        from exactness import virtual

        super().__init__()
        if shape.device != "cpu":
            raise RevealError(f"{address} runs on the virtual Hopper; --device cpu")
        path, _, entry = address.partition(".ptx:")
        try:
            self._kernel = virtual.load_ptx(Path(f"{path}.ptx"))[entry]
        except KeyError as error:
            raise RevealError(f"{path}.ptx: {error.args[0]}") from None
        self.name, self.shape, self.how = address, shape, how
        self.n, self.format = shape.n, shape.format
        squares = (kind or kind_of(entry)) == "norm"
        self.prepare(shape.rows, squares=squares, on_hopper=True)
        for word in ("x", "out"):
            if [name.partition(":")[0] for name in how.arguments].count(word) != 1:
                raise RevealError(f"--args {','.join(how.arguments)}: {word} is needed once")
        self._values(np.zeros((shape.rows, shape.n)))

    def launch(self, terms: np.ndarray) -> list[Any]:
        """Launch the entry once; results are NaN beforehand."""
        grid, block = (
            tuple(self._size(word) for word in words) for words in (self.how.grid, self.how.block)
        )
        values = self._values(terms)
        shared = self.how.shared
        self.on_hopper(lambda: self._kernel.launch(grid, block, *values, shared=shared))
        places = [name.partition(":")[0] for name in self.how.arguments]
        return [values[places.index("out")]]

    def _values(self, terms: np.ndarray) -> list[Any]:
        return [self._value(word, terms) for word in self.how.arguments]

    def _value(self, word: str, terms: np.ndarray) -> Any:
        name, _, format_name = word.partition(":")
        results = (len(terms), self.n if self.squares else self.shape.columns)
        weights = (self.shape.columns, self.n)
        arrays = {
            "x": (terms, self.format),
            "out": (np.full(results, np.nan), f32),
            "ones": (np.ones(weights), self.format),
            "zeros": (np.zeros(weights), self.format),
        }
        if name not in arrays:
            return self._size(word) if not _NUMBER.fullmatch(word) else _number(word)
        values, fmt = arrays[name]
        fmt = format_for(format_name) if format_name else fmt
        return Bits(bits.encode(values, fmt), fmt).torch()

    def _size(self, word: str) -> int:
        if word in ("n", "rows", "columns"):
            return int(getattr(self.shape, word))
        if word.isdecimal():
            return int(word)
        raise RevealError(
            f"{word!r} is not accepted: numbers, n, rows and columns are; as arguments also x, "
            "out, ones and zeros, with a format after a colon"
        )


def _number(word: str) -> int | float:
    return float(word) if set(word) & set(".e") else int(word)
