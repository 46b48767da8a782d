"""Figures of a paired comparison: two arithmetics predict the same tokens.

Differences are paired token by token, so that what both find hard cancels. Neighbouring tokens
are not independent; the block bootstrap draws whole windows again (Künsch, "The jackknife and the
bootstrap for general stationary observations", 1989).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
LEVEL = 1.96
"""Standard errors within which a difference is noise, at 95 %."""
POWER = 0.84
"""Standard errors more, for a chance of 80 % to see a difference of the size found."""

_DRAWS = 1 << 22
"""Indices of a bootstrap that are drawn at once."""


@dataclass(frozen=True)
class LogRatio:
    """ln(perplexity of a leg / perplexity of the first leg), and how far it may be off.

    Attributes:
        mean: the log ratio, nats per token.
        by_token: standard error as if tokens were independent.
        by_block: standard error from the block bootstrap; None of a single window.
        tokens: how many there are.
    """

    mean: float
    by_token: float
    by_block: float | None
    tokens: int

    @classmethod
    def of(cls, difference: np.ndarray, window: np.ndarray) -> LogRatio:
        """From the paired differences of the negative log probabilities.

        Args:
            difference: f64 [tokens], the leg's minus the first leg's.
            window: int [tokens], ascending: the window of each token.
        """
        n = difference.size
        by_token = float(difference.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
        return cls(float(difference.mean()), by_token, block_error(difference, window), n)

    @property
    def error(self) -> float:
        """The larger standard error."""
        return max(self.by_token, self.by_block or 0.0)

    @property
    def is_distinguishable(self) -> bool:
        """Whether the log ratio is further from 0 than noise at 95 %."""
        return abs(self.mean) > LEVEL * self.error

    @property
    def tokens_needed(self) -> float:
        """Tokens with which a difference of this size shows with a chance of 80 %; inf if it is 0.

        The standard error falls with the root of the number of tokens.
        """
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            errors = np.float64((LEVEL + POWER) * self.error) / abs(self.mean)
            needed = float(np.ceil(self.tokens * errors**2))
        return math.inf if self.mean == 0.0 else needed


def block_error(values: np.ndarray, window: np.ndarray, seed: int = 0) -> float | None:
    """Standard error of the mean, from windows drawn again with replacement.

    Args:
        values: f64 [tokens].
        window: int [tokens], ascending.
        seed: of the draws.

    Returns:
        The standard deviation of the means, or None if there is only one window.
    """
    starts = np.flatnonzero(np.r_[True, window[1:] != window[:-1]])
    if starts.size < 2:
        return None
    sums = np.add.reduceat(values, starts)
    counts = np.diff(np.r_[starts, values.size])
    generator = np.random.default_rng(seed)
    means: list[np.ndarray] = []
    at_once = max(_DRAWS // starts.size, 1)
    for begin in range(0, RESAMPLES, at_once):
        size = (min(at_once, RESAMPLES - begin), starts.size)
        drawn = generator.integers(starts.size, size=size)
        means.append(sums[drawn].sum(1) / counts[drawn].sum(1))
    return float(np.concatenate(means).std(ddof=1))


@dataclass(frozen=True)
class Divergence:
    """Kullback-Leibler divergences of a leg's predictions from the first leg's, nats."""

    mean: float
    median: float
    p99: float
    p999: float
    max: float

    @classmethod
    def of(cls, values: np.ndarray) -> Divergence:
        """From the divergence at every token, f64 [tokens]."""
        median, p99, p999 = np.quantile(values, (0.5, 0.99, 0.999))
        return cls(
            float(values.mean()), float(median), float(p99), float(p999), float(values.max())
        )


@dataclass(frozen=True)
class Comparison:
    """A leg beside the first leg.

    Attributes:
        perplexity: of the leg.
        ratio: paired log ratio of the perplexities.
        divergence: Kullback-Leibler divergence.
        top1_changed: fraction of tokens whose most likely successor is another.
        largest_logit_difference: over all tokens and scores, f32.
        logits_differing: logits that have other bits; +0 and −0 are two.
        tokens_touched: tokens with any logit that is another.
        first_touched: the first of them; None if there is none.
    """

    perplexity: float
    ratio: LogRatio
    divergence: Divergence
    top1_changed: float
    largest_logit_difference: float
    logits_differing: int
    tokens_touched: int
    first_touched: int | None

    @classmethod
    def of(
        cls,
        first: np.ndarray,
        loss: np.ndarray,
        divergence: np.ndarray,
        changed: np.ndarray,
        largest: np.ndarray,
        differing: np.ndarray,
        window: np.ndarray,
    ) -> Comparison:
        """From what was kept of every token.

        Args:
            first: f64 [tokens], negative log probabilities of the first leg, nats.
            loss: likewise of this leg.
            divergence: f64 [tokens], nats.
            changed: bool [tokens], the most likely successor is another.
            largest: f32 [tokens], largest absolute difference of a logit.
            differing: int64 [tokens], logits that have other bits.
            window: int [tokens], ascending.
        """
        touched = np.flatnonzero(differing)
        return cls(
            perplexity(loss),
            LogRatio.of(loss - first, window),
            Divergence.of(divergence),
            float(changed.mean()),
            float(largest.max()),
            int(differing.sum()),
            int(touched.size),
            int(touched[0]) if touched.size else None,
        )

    @property
    def is_zero(self) -> bool:
        """Whether every figure, and every bit of the logits, is that of the first leg."""
        ratio, kl = self.ratio, self.divergence
        figures = [ratio.mean, ratio.by_token, ratio.by_block or 0.0, self.top1_changed]
        figures += [kl.mean, kl.median, kl.p99, kl.p999, kl.max, self.largest_logit_difference]
        return self.logits_differing == 0 and all(figure == 0.0 for figure in figures)


def perplexity(loss: np.ndarray) -> float:
    """What the mean negative log probability, f64 [tokens] in nats, is the logarithm of."""
    return float(np.exp(loss.mean()))
