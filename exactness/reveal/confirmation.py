"""Replay a revealed tree on random terms: does the callable add so, and in which format?"""

from __future__ import annotations

import numpy as np

from exactness.arithmetic.ieee import reduce_along
from exactness.formats import FORMATS, Format, f32, f64
from exactness.reveal.errors import RevealError
from exactness.reveal.probes import Summation
from exactness.reveal.tree import Tree
from exactness.rounding import round_to


def accumulator(summation: Summation, tree: Tree, trials: int, seed: int = 0) -> Format:
    """The format in which a summation adds, if it adds as the tree says.

    Terms are drawn with magnitudes over 12 binades, so that most additions round.

    Args:
        summation: one whose sums show as they are.
        tree: its tree, all additions binary.
        trials: rows of random terms.
        seed: of the terms.

    Returns:
        The narrowest format, of the terms or wider, whose sums are the callable's on all rows.

    Raises:
        RevealError: there is none: the order depends on the values, or additions are fused,
            compensated or not correctly rounded.
    """
    if not summation.plain:
        raise RevealError(f"{summation.name} does not show its sums; its tree is not confirmed")
    if tree.widest > 2:
        raise RevealError(
            f"{summation.name}: fused additions of {tree.widest} terms do not round as IEEE "
            "additions; the tree is not confirmed"
        )
    rng = np.random.default_rng(seed)
    scale = np.exp2(rng.uniform(-6, 6, (trials, tree.n)))
    drawn = rng.standard_normal((trials, tree.n)) * scale
    terms = np.asarray(round_to(drawn, summation.format), np.float64)
    actual = summation.sums(terms)
    for fmt in _wider(summation.format):
        expected = _summed(terms, tree, fmt)
        if any(_same(actual, expected, result) for result in (fmt, summation.format)):
            return fmt
    raise RevealError(
        f"{summation.name} does not add random terms in the order of its probes: the order depends "
        "on the values, or additions are compensated, fused with a product, or not rounded to "
        "nearest"
    )


def _wider(fmt: Format) -> list[Format]:
    return [fmt, *(wide for wide in (f32, f64) if wide.precision > fmt.precision)]


def _summed(terms: np.ndarray, tree: Tree, fmt: Format) -> np.ndarray:
    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(round_to(a + b, fmt), np.float64)

    order = tree.order()
    return np.asarray(reduce_along(terms, order, -1, add, 0.0)[..., 0], np.float64)


def _same(actual: np.ndarray, sums: np.ndarray, result: Format) -> bool:
    return np.array_equal(actual, np.asarray(round_to(sums, FORMATS[result.name]), np.float64))
