"""How far a norm is from its value in exact arithmetic, on inputs that a model gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.quality.legs import CHAIN, EXACT, How, Leg
from exactness.quality.norms import Function
from exactness.quality.patched import Patched

if TYPE_CHECKING:
    from torch import Tensor

SAMPLE = 64
"""Rows of a call that are looked at, evenly spaced."""

OPTED = Leg("variant", "reference of the variant", How.CHAIN, opt_in=True)

FIGURES = ("default_gain", "default_error", "variant_gain", "variant_error")
"""What is kept of a row, for the bit-identical default and for the opt-in variant.

The gain is the factor by which the whole row is too long, less 1: the error of the accumulator. The
error is the length of the difference over that of the exact row; it also has the last rounding.
"""


@dataclass(eq=False)
class Watched:
    """Collects the errors of the calls of one norm.

    Attributes:
        patched: the norm.
        rows: f64 [rows, figures] of each call.
    """

    patched: Patched
    rows: list[np.ndarray]

    def around(self, function: Function) -> Callable[[Tensor], Tensor]:
        """The function, its inputs looked at."""

        def watched(x: Tensor) -> Tensor:
            self.rows.append(errors(self.patched, x))
            return function(x)

        return watched

    def figures(self) -> np.ndarray:
        """Of all calls, f64 [rows, figures]."""
        return np.concatenate([np.zeros((0, len(FIGURES))), *self.rows])


def errors(patched: Patched, x: Tensor) -> np.ndarray:
    """The figures of some rows, f64 [rows, 4]; rows of zeros are left out."""
    flat = x.reshape(-1, *x.shape[-2:] if _rank(patched) == 3 else x.shape[-1:])
    some = flat[:: max(len(flat) // SAMPLE, 1)][:SAMPLE]
    exact, default, variant = (_rows(patched, some, leg) for leg in (EXACT, CHAIN, OPTED))
    square = (exact * exact).sum(-1)
    there = square > 0.0
    columns: list[np.ndarray] = []
    for found in (default, variant):
        columns.append(((found * exact).sum(-1) - square)[there] / square[there])
        columns.append(np.sqrt(((found - exact) ** 2).sum(-1)[there] / square[there]))
    return np.stack(columns, -1)


def _rank(patched: Patched) -> int:
    return len(patched.claim.inputs.tensors["x"].dims)


def _rows(patched: Patched, x: Tensor, leg: Leg) -> np.ndarray:
    """The result of a leg as f64 [rows, n], rounded only where the leg rounds."""
    computed = patched.computed(patched.rows(x), leg)
    wide: Array = patched.scaled(computed, x)
    if not arrays.is_numpy(wide):
        wide = wide.cpu().numpy()
    return np.asarray(wide, np.float64).reshape(-1, x.shape[-1])


@dataclass(frozen=True)
class Errors:
    """The errors of an arithmetic over the rows of a run.

    Attributes:
        gain: mean gain, with its sign.
        gain_size: its root mean square.
        gain_max: the largest absolute one.
        error: mean relative error.
    """

    gain: float
    gain_size: float
    gain_max: float
    error: float

    @classmethod
    def of(cls, gain: np.ndarray, error: np.ndarray) -> Errors:
        """From f64 [rows] each; without rows all are 0."""
        if not gain.size:
            return cls(0.0, 0.0, 0.0, 0.0)
        size = np.sqrt((gain * gain).mean())
        return cls(float(gain.mean()), float(size), float(np.abs(gain).max()), float(error.mean()))


@dataclass(frozen=True)
class NormError:
    """The errors of one norm over a run.

    Attributes:
        name: of the norm.
        rows: rows that were looked at.
        default: errors of the bit-identical default.
        variant: errors of the opt-in variant.
    """

    name: str
    rows: int
    default: Errors
    variant: Errors

    @classmethod
    def of(cls, name: str, parts: Sequence[np.ndarray]) -> NormError:
        """From the figures of all chunks, f64 [rows, 4] each."""
        rows = np.concatenate(parts)
        default, variant = (Errors.of(rows[:, i], rows[:, i + 1]) for i in (0, 2))
        return cls(name, len(rows), default, variant)
