"""Probes of a summation: one big term, its negative, and units that are lost between them.

A unit that is added to the big term M is rounded away; one that is added after M and −M have
cancelled counts. So the sum is the number of units outside the smallest subtree that holds both
masks: one number of terms a probe (FPRev, arXiv 2411.00442).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exactness.formats import Format, bf16, f16, f32, f64
from exactness.reveal.errors import RevealError


@dataclass(frozen=True)
class Probe:
    """M at term `plus`, −M at term `minus`, a unit at each of `units`, zero elsewhere."""

    plus: int
    minus: int
    units: tuple[int, ...]


@dataclass(frozen=True)
class Masks:
    """Magnitudes for terms of a format.

    Attributes:
        mask: M; no accumulator up to f64 keeps a unit beside it.
        unit: what is counted; small powers of two, so that every count is exact.
        terms: the most terms; with more, lost units would add up to what M keeps.
    """

    mask: float
    unit: float
    terms: int

    @classmethod
    def of(cls, fmt: Format) -> Masks:
        """The masks for terms of `fmt`, summed in `fmt` or anything wider.

        The range of f16 is narrow: its unit is subnormal, so that an f32 accumulator loses
        2^14 of them beside M, and an f64 accumulator loses none.

        Raises:
            RevealError: no masks are known for the format.
        """
        if fmt in (f32, bf16):
            return cls(2.0**100, 1.0, 1 << 22)
        if fmt is f64:
            return cls(2.0**900, 1.0, 1 << 22)
        if fmt is f16:
            return cls(2.0**15, 2.0**-24, 1 << 14)
        raise RevealError(f"format {fmt.name} is not accepted; f64, f32, f16 and bf16 are")


class Summation(abc.ABC):
    """Something that sums `n` terms of a format, several rows a call if its rows are alike.

    Attributes:
        name: for reports.
        n: number of terms.
        format: of the terms.
        rows: how many rows of terms one call takes.
        signed: whether terms of either sign are added; if not, their squares are.
        plain: whether a sum shows as it is, and not scaled.
        result_bits: bits of the significand of a result, once one was seen.
        slack: bits of it that rounding of a scaled result may cost.
        calls: how often it was called.
        probes: how many probes were made; several are made in a call that takes rows.
    """

    name: str
    n: int
    format: Format
    rows: int = 1
    signed: bool = True
    plain: bool = True
    result_bits: int | None = None
    slack: int = 0

    def __init__(self) -> None:
        self.calls = 0
        self.probes = 0
        self._trusted: int | None = None

    @property
    def countable(self) -> int:
        """The most units whose sum a result shows exactly.

        It is what the terms' own format counts, or less where the result is narrower. Only if
        that is not enough for n terms, one more call sees whether the sum of an odd number of
        units comes out exactly, and so whether everything behind it is as wide as the result.
        """
        own = self.format.precision
        if self._trusted is None:
            self._trusted = own
            if self.n - 2 > 1 << (own - self.slack):
                odd, unit = self.n - 1 + self.n % 2, Masks.of(self.format).unit
                units = np.where(np.arange(self.n) < odd, unit, 0.0)
                if self.sums(units[None])[0] == odd * unit:
                    self._trusted = self.result_bits or own
        return 1 << (min(self._trusted, self.result_bits or own) - self.slack)

    @abc.abstractmethod
    def call(self, terms: np.ndarray) -> np.ndarray:
        """Sum each row once, and set `result_bits`.

        Args:
            terms: f64 [rows, n], values of the format.

        Returns:
            f64 [rows].
        """

    def sums(self, terms: np.ndarray) -> np.ndarray:
        """The sums of any number of rows, in as few calls as they fit.

        Args:
            terms: f64 [any, n], values of the format.

        Returns:
            f64 [any]; rows that only fill a call are left out.
        """
        found = np.empty(len(terms))
        for start in range(0, len(terms), self.rows):
            part = terms[start : start + self.rows]
            filled = np.concatenate([part, np.repeat(part[:1], self.rows - len(part), axis=0)])
            found[start : start + len(part)] = self.call(filled)[: len(part)]
            self.calls += 1
        self.probes += len(terms)
        return found


def counts(summation: Summation, masks: Masks, probes: Sequence[Probe]) -> list[float]:
    """For each probe the number of its units that were not lost; no integer if it is no sum."""
    found: list[float] = []
    # Rows are made as they are needed: all at once they would be as many as terms squared.
    block = max(summation.rows, 1 << 20 >> summation.n.bit_length())
    for start in range(0, len(probes), block):
        part = probes[start : start + block]
        terms = np.zeros((len(part), summation.n))
        for row, probe in zip(terms, part, strict=True):
            row[list(probe.units)] = masks.unit
            row[probe.plus], row[probe.minus] = masks.mask, -masks.mask
        found += (summation.sums(terms) / masks.unit).tolist()
    return found
