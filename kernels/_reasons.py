"""Checks of the reasons why a mutant of a reference cannot be seen."""

import numpy as np

from exactness.hopper import cuda_math, special


def _tiny(largest_exponent: int) -> np.ndarray:
    """±2^e from the smallest subnormal up, and the largest subnormals."""
    powers = np.ldexp(np.float32(1), np.arange(-149, largest_exponent + 1)).astype(np.float32)
    magnitudes = np.append(powers, np.nextafter(np.float32(2**-126), np.float32(0)))
    return np.concatenate([magnitudes, -magnitudes])


def expf_of_tiny_is_one() -> bool:
    """`expf` is monotonic and 1 at both ends of ±2^-100, so in between."""
    return bool(np.all(cuda_math.expf(_tiny(-100)) == 1))


def ex2_of_subnormal_is_one() -> bool:
    """`ex2.approx` truncates its argument to a multiple of 2^-23; that of 0 gives 1."""
    return bool(np.all(special.ex2_approx(_tiny(-126), ftz=False) == 1))


def nan_spreads_over_a_softmax() -> bool:
    """Whichever maximum is subtracted, a row with a NaN is NaN throughout."""
    row = np.array([np.nan, 1, 2, -np.inf], np.float32)
    for largest in (np.float32(2), np.float32(np.nan)):
        power = cuda_math.expf(row - largest)
        if not np.all(np.isnan(power / power.sum())):
            return False
    return True


def scaling_of_expf_is_absorbed() -> bool:
    """`expf` ends with a product by a power of two, exact unless subnormal; 1 absorbs the rest.

    A subnormal product added without being rounded first can change sums below 2^-100 alone, and a
    row of a softmax holds e^0 = 1 besides.
    """
    rng = np.random.Generator(np.random.Philox(0))
    exponents = rng.integers(-160, 1, 100_000)
    products = np.ldexp(1 + rng.integers(0, 1 << 23, exponents.size) / 2**23, exponents)
    addends = np.ldexp(rng.random(exponents.size) + 1, rng.integers(-149, 1, exponents.size))
    addends = addends.astype(np.float32)
    rounded = products.astype(np.float32)
    exact = rounded == products
    twice = addends + rounded
    once = (addends.astype(np.float64) + products).astype(np.float32)
    absorbed = (np.float32(1) + twice == 1) & (np.float32(1) + once == 1)
    equal = np.all(exact | (twice == once) | absorbed) and np.all(exact | (products < 2.0**-126))
    return bool(equal) and bool(cuda_math.expf(np.zeros(1, np.float32))[0] == 1)
