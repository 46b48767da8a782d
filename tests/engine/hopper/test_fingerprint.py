"""The engine against what an H200 gave, as recorded by scripts/measure_special_functions.py."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from exactness.hopper import cuda_math, special
from exactness.hopper.fingerprint import fingerprint, inputs

RECORD = Path(__file__).parent / "data" / "h200.json"
FUNCTIONS = {
    f"{stem}.approx{'.ftz' * ftz}.f32": functools.partial(function, ftz=ftz)
    for stem, function in {
        "ex2": special.ex2_approx,
        "rsqrt": special.rsqrt_approx,
        "rcp": special.rcp_approx,
        "sqrt": special.sqrt_approx,
    }.items()
    for ftz in (True, False)
} | {"expf": cuda_math.expf, "tanhf": cuda_math.tanhf, "erff": cuda_math.erff}


@functools.cache
def record():
    return json.loads(RECORD.read_text())


def test_the_record_is_of_an_h200_that_agreed_everywhere():
    assert record()["machine"]["gpu"] == "NVIDIA H200"
    assert {row["name"]: row["differing"] for row in record()["rows"] if row["differing"]} == {}
    exhaustive = {row["name"] for row in record()["rows"] if row["compared"] == 2**32}
    assert {name for name in FUNCTIONS if "approx" in name} <= exhaustive


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_record(name):
    assert fingerprint(FUNCTIONS[name]) == record()["fingerprints"][name]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("input_", [0x00000000, 0x3F800000], ids=hex)
def test_one_ulp_changes_the_fingerprint(input_):
    def off_by_one(x):
        bits = np.sqrt(np.abs(x)).view(np.uint32)
        bits[x.view(np.uint32) == nearest] += 1
        return bits.view(np.float32)

    patterns = inputs().view(np.uint32)
    nearest = patterns[np.argmin(np.abs(patterns.astype(np.int64) - input_))]
    assert fingerprint(off_by_one) != fingerprint(lambda x: np.sqrt(np.abs(x)))


def test_nan_payloads_do_not_count():
    def nans(pattern):
        return lambda x: np.full(x.shape, pattern, np.uint32).view(np.float32)

    assert fingerprint(nans(0x7FC00000)) == fingerprint(nans(0xFF800001))
    assert fingerprint(nans(0x7FC00000)) != fingerprint(nans(0x7F800000))


def test_inputs_meet_every_binade():
    exponents = np.unique(inputs().view(np.uint32) >> 23)
    assert inputs().size == 2_822_197
    assert exponents.tolist() == list(range(512))
