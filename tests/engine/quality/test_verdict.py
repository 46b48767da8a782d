"""What is said about figures."""

import pytest

from exactness.quality.statistics import Comparison, Divergence, LogRatio
from exactness.quality.verdict import Finding, Verdict


def leg(mean=0.0, error=0.0, kl=0.0, tokens=10_000):
    divergence = Divergence(kl, kl, kl, kl, kl)
    touched = int(kl > 0)
    ratio = LogRatio(mean, error, error / 2, tokens)
    return Comparison(3.0, ratio, divergence, 0.0, kl, 7 * touched, touched, None)


def judged(variant, again=None, chain=None, reordered=None):
    zero = leg()
    legs = {"again": again or zero, "chain": chain or zero, "variant": variant}
    return Verdict.of({**legs, "reordered": reordered or leg(kl=1e-5)}, "f32_acc")


@pytest.mark.parametrize(
    ("mean", "finding"),
    [
        (1e-3, Finding.WORSE),
        (-1e-3, Finding.BETTER),
        (1e-4, Finding.NOT_DISTINGUISHABLE),
        (-1e-4, Finding.NOT_DISTINGUISHABLE),
    ],
)
def test_finding(mean, finding):
    assert judged(leg(mean, 2e-4, 1e-5)).finding is finding


def test_not_distinguishable_says_how_many_tokens_would_tell():
    text = judged(leg(1e-4, 2e-4, 1e-5)).text
    assert "not distinguishable from the default at this sample size" in text
    assert "+1.00e-04 ± 2.0e-04" in text
    # 10,000 tokens times (2.8 standard errors of 2 differences)²: 313,600.
    assert "about 320,000 tokens" in text


def test_a_difference_of_zero_needs_no_number():
    assert "no number of tokens would tell" in judged(leg(0.0, 2e-4, 1e-5)).text


def test_worse_says_by_how_much():
    text = judged(leg(1e-2, 2e-4, 1e-5)).text
    assert "f32_acc is worse than the default beyond noise at 95 %" in text
    assert "1.0000 % of perplexity" in text


def test_noise_gives_the_scale():
    """What a mere change of order does to the perplexity stands beside what the variant does."""
    text = judged(leg(1e-2, 2e-4, 3e-5), reordered=leg(-2e-3, 4e-4, 1e-5)).text
    assert "worse than the default beyond noise" in text
    assert "in another order: -2.00e-03 ± 4.0e-04" in text
    assert "Mean KL divergence 3.00e-05 nats, of that order 1.00e-05: a ratio of 3." in text
    assert "in another order changes nothing" in judged(leg(1e-4, 2e-4, 3e-5), reordered=leg()).text


def test_the_same_logits_are_identical():
    verdict = judged(leg())
    assert verdict.finding is Finding.IDENTICAL
    assert "the same bits in every logit, over 10,000 tokens." in verdict.text


def test_one_token_is_not_tokens():
    assert judged(leg(tokens=1)).text.endswith("over 1 token.")
    assert "over 1 token;" in judged(leg(1e-4, 2e-4, 1e-5, tokens=1)).text


@pytest.mark.parametrize(
    ("leg_name", "text"),
    [("again", "does not repeat its own logits"), ("chain", "are not the reference's")],
)
def test_a_broken_control_leaves_no_verdict(leg_name, text):
    verdict = judged(leg(1e-2, 2e-4, 1e-5), **{leg_name: leg(0.0, 0.0, 1e-9)})
    assert verdict.finding is Finding.NONE
    assert text in verdict.text
    assert "(7 of them, largest difference 1e-09" in verdict.text
    assert "better" not in verdict.text
    assert "worse" not in verdict.text
