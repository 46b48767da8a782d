"""What the figures say, in words."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

from exactness.quality.legs import AGAIN, CHAIN, REORDERED, VARIANT
from exactness.quality.statistics import Comparison


class Finding(enum.Enum):
    """What the opt-in variant does to the perplexity."""

    BETTER = "better"
    WORSE = "worse"
    NOT_DISTINGUISHABLE = "not distinguishable"
    IDENTICAL = "identical"
    NONE = "no verdict"


@dataclass(frozen=True)
class Verdict:
    """The finding, and the sentences that give its numbers."""

    finding: Finding
    text: str

    @classmethod
    def of(cls, comparisons: Mapping[str, Comparison], opt_in: str) -> Verdict:
        """Judge a run.

        Args:
            comparisons: by key of the leg.
            opt_in: what the variant is called.
        """
        broken = [_broken(leg.key, comparisons[leg.key]) for leg in (AGAIN, CHAIN)]
        broken = [text for text in broken if text]
        if broken:
            return cls(Finding.NONE, "No verdict: " + "; ".join(broken) + ".")
        variant = comparisons[VARIANT.key]
        finding = _finding(variant)
        words = f"{opt_in} is {_words(variant, finding)}"
        if finding is not Finding.IDENTICAL:
            words += f" {_scale(variant, comparisons[REORDERED.key])}"
        return cls(finding, words)


def _broken(key: str, comparison: Comparison) -> str:
    """What is wrong with a leg that must equal the first one; empty if it does."""
    if comparison.is_zero:
        return ""
    what = {
        AGAIN.key: "the default leg does not repeat its own logits",
        CHAIN.key: "the kernel's logits are not the reference's",
    }[key]
    return (
        f"{what} ({comparison.logits_differing:,} of them, largest difference "
        f"{comparison.largest_logit_difference:.3g}, ln ratio {comparison.ratio.mean:+.3g})"
    )


def _finding(variant: Comparison) -> Finding:
    if variant.is_zero:
        return Finding.IDENTICAL
    if not variant.ratio.is_distinguishable:
        return Finding.NOT_DISTINGUISHABLE
    return Finding.BETTER if variant.ratio.mean < 0.0 else Finding.WORSE


def _words(variant: Comparison, finding: Finding) -> str:
    ratio = variant.ratio
    if finding is Finding.IDENTICAL:
        return f"identical: the same bits in every logit, over {_tokens(ratio.tokens)}."
    change = (
        f"ln(perplexity ratio) {_ratio(variant)} (standard error), "
        f"{100 * abs(ratio.mean):.4f} % of perplexity, over {_tokens(ratio.tokens)}"
    )
    if finding is not Finding.NOT_DISTINGUISHABLE:
        return f"{finding.value} than the default beyond noise at 95 %: {change}."
    more = _needed(ratio.tokens_needed)
    return f"not distinguishable from the default at this sample size: {change}; {more}"


def _needed(tokens: float) -> str:
    if math.isinf(tokens):
        return "no number of tokens would tell a difference so near to 0."
    return (
        f"a true difference of this size would take about {_tokens(_rounded(int(tokens)))} to "
        "tell (95 % level, 80 % power)."
    )


def _scale(variant: Comparison, reordered: Comparison) -> str:
    """What an unrelated change of the order does to the same figures."""
    moved, noise = variant.divergence.mean, reordered.divergence.mean
    if noise == 0.0:
        return f"Mean KL divergence {moved:.2e} nats; adding in another order changes nothing."
    return (
        f"For comparison, the default with the same squares added in another order: "
        f"{_ratio(reordered)}. Mean KL divergence {moved:.2e} nats, of that order {noise:.2e}: "
        f"a ratio of {moved / noise:.2g}."
    )


def _ratio(comparison: Comparison) -> str:
    return f"{comparison.ratio.mean:+.2e} ± {comparison.ratio.error:.1e}"


def _tokens(number: int) -> str:
    return f"{number:,} token{'' if number == 1 else 's'}"


def _rounded(number: int) -> int:
    """To two digits, upwards."""
    unit = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // unit) * unit
