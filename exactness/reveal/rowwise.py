"""Kernels that sum rows, one row a probe: what claims and PTX entries share."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from exactness.formats import f32
from exactness.reveal.errors import RevealError
from exactness.reveal.opened import opened
from exactness.reveal.probes import Summation
from exactness.reveal.targets import largest_finite, nearest, read


class RowKernel(Summation):
    """A kernel whose rows are probed independently of each other.

    Attributes:
        squares: whether it sums squares.
        opened: whether they are opened, so that terms of either sign reach their sum.
    """

    squares: bool
    opened: bool

    def prepare(self, rows: int, *, squares: bool, on_hopper: bool) -> None:
        """Say what the kernel is.

        Args:
            rows: rows of one launch.
            squares: whether it sums squares: a norm.
            on_hopper: whether its PTX can be edited, and its squares so be opened.

        Raises:
            RevealError: an opened norm needs a row more.
        """
        self.squares, self.opened = squares, squares and on_hopper
        self.signed, self.plain = self.opened or not squares, not squares
        # One row of an opened norm shows by what its sums are multiplied.
        self.rows = rows - self.opened
        self._precision: int | None = None
        if self.rows < 1:
            raise RevealError(f"{self.name}: {rows} rows are not accepted; 2 and more are")

    @property
    def countable(self) -> int:
        """The most units whose sum shows exactly; of an opened norm, one call finds it.

        The mean is a product with 1/n, which may round twice before it is read. A norm that
        rounds in the format of its rows shows so at sums of odd numbers of units.
        """
        if not self.opened:
            return super().countable
        if self._precision is None:
            self._precision = f32.precision
            most = self.n - 1 + self.n % 2
            wanted = np.array([max(most - 2 * k, 1) for k in range(min(self.rows, 16))])
            units = (np.arange(self.n) < wanted[:, None]).astype(np.float64)
            if not np.array_equal(self.sums(units), wanted):
                self._precision = self.format.precision
        return 1 << (self._precision - (3 if self.n & (self.n - 1) else 0))

    @abc.abstractmethod
    def launch(self, terms: np.ndarray) -> list[Any]:
        """Launch the kernel once on all rows.

        Args:
            terms: f64 [rows of a launch, n].

        Returns:
            Its float outputs, a row each for a row of terms.
        """

    def call(self, terms: np.ndarray) -> np.ndarray:
        """One launch."""
        if self.opened:
            terms = np.concatenate([terms, np.eye(1, self.n)])
        # Norms may return their rows before the last rounding, too.
        found = [read(output, self.name) for output in self._launched(terms)]
        values, fmt = max(found, key=lambda each: each[1].precision)
        values = values.reshape(len(terms), -1)
        if not self.squares:
            self.result_bits = fmt.precision
            return values[:, 0]
        return self._means(terms, values) if self.opened else largest_finite(values)

    def _launched(self, terms: np.ndarray) -> list[Any]:
        try:
            with np.errstate(all="ignore"):
                return self.launch(terms)
        except RevealError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise RevealError(f"{self.name} cannot be probed: {what}") from error

    def _means(self, terms: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Sums of an opened norm, from the smallest term of each row and its result."""
        places = np.argmin(np.where(terms == 0, np.inf, np.abs(terms)), axis=1)[:, None]
        factors = np.take_along_axis(values, places, 1) / np.take_along_axis(terms, places, 1)
        return nearest(factors[:-1, 0] / factors[-1, 0], self._precision or f32.precision)

    def on_hopper(self, launch: Callable[[], Any]) -> Any:
        """Launch on the virtual Hopper, squares opened if they are to be."""
        from exactness import virtual

        with virtual.hopper(opened if self.opened else None):
            return launch()
