"""Rates and shares of the roofline, by hand."""

import pytest

from exactness.bench.model import Amount, Peaks

PEAKS = Peaks(bandwidth_gbs=4000.0, bf16_tflops=800.0)


def test_a_copy_is_bound_by_memory():
    copy = Amount(bytes=4_000_000)
    assert copy.gbs(2.0) == 2000.0
    assert copy.roofline_us(PEAKS) == pytest.approx(1.0)
    assert copy.share(2.0, PEAKS) == pytest.approx(0.5)
    assert copy.rate(2.0, PEAKS) == (2000.0, "GB/s")


def test_a_product_is_bound_by_arithmetic():
    product = Amount(bytes=4_000_000, flops=8_000_000_000)
    assert product.arithmetic_us(PEAKS) == pytest.approx(10.0)
    assert product.is_arithmetic_bound(PEAKS)
    assert product.rate(20.0, PEAKS) == (400.0, "TFLOPS")
    assert product.share(20.0, PEAKS) == pytest.approx(0.5)


def test_few_operations_leave_it_bound_by_memory():
    assert Amount(bytes=4_000_000, flops=1_000_000).rate(1.0, PEAKS)[1] == "GB/s"


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_ceilings_are_above_zero(rate):
    with pytest.raises(ValueError, match="bandwidth_gbs"):
        Peaks(rate, 1.0)
    with pytest.raises(ValueError, match="bf16_tflops"):
        Peaks(1.0, rate)
