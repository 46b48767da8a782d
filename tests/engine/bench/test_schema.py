"""States, ratios and warnings of a report."""

import pytest

from exactness.bench import tables
from exactness.bench.bitcheck import BitCheck
from exactness.bench.measure import Measurement
from exactness.bench.model import Amount, Peaks
from exactness.bench.schema import BenchReport, Compared, Row, State
from exactness.bench.timer import Timing


def measurement(event, graph=None):
    inside = None if graph is None else Timing(graph)
    return Measurement(Timing((event,)), Timing((1.0,)), inside, inside, BitCheck(elements=1))


def report(*rows):
    return BenchReport({}, "a GPU", Peaks(1000.0, 100.0), 1.0, {}, rows)


@pytest.mark.parametrize(
    ("state", "lenient", "strict"),
    [
        (State.MEASURED, 0, 0),
        (State.WRONG_BITS, 1, 1),
        (State.ERROR, 1, 1),
        (State.UNSUPPORTED, 0, 1),
        (State.ON_REQUEST, 0, 0),
    ],
)
def test_exit_status(state, lenient, strict):
    found = report(Row("a", State.MEASURED), Row("b", state))
    assert found.exit_status(strict=False) == lenient
    assert found.exit_status(strict=True) == strict


def test_ratios_are_taken_on_one_clock():
    kernel = measurement(10.0, (2.0,))
    assert Compared("x", measurement(50.0, (6.0,))).ratio(kernel) == 3.0
    assert Compared("x", measurement(50.0)).ratio(kernel) == 5.0
    assert Compared("x", measurement(50.0, (6.0,))).ratio(measurement(10.0)) == 5.0
    assert Compared("x", reason="not installed").ratio(kernel) is None


def test_a_row_that_was_not_measured_has_no_times():
    record = Row("a", State.ERROR, reason="why").to_dict(Peaks(1.0, 1.0))
    assert record["state"] == "error"
    assert "latency_ms" not in record


def test_rates_count_operations_where_arithmetic_is_the_limit():
    row = Row("a", State.MEASURED, amount=Amount(10, 2_000_000_000), measured=measurement(40.0))
    record = row.to_dict(Peaks(1000.0, 100.0))
    assert (record["performance"], record["unit"]) == (50.0, "TFLOPS")
    assert record["peak_share"] == pytest.approx(0.5)
    assert record["graph"] is None
    assert record["graph_peak_share"] == record["peak_share"]
    assert record["floors"]["times_copy"] is None


def test_noisy_times_are_warned_about():
    quiet = Row("a", State.MEASURED, measured=measurement(9.0, (1.0, 1.0, 1.1, 1.0)))
    noisy = Row("b", State.MEASURED, "tokens=4", measured=measurement(9.0, (1.0, 2.0, 1.0, 3.0)))
    assert [text.split(":")[0] for text in tables.warnings(report(quiet, noisy))] == ["b tokens=4"]
