"""A short proof that a unary f32 function has the recorded bits, on any machine.

The inputs are every 4093rd of the 2^32 bit patterns, which meets every binade, and every 97th in
±[2^-7, 10), where the polynomials and table look-ups of `exactness.hopper` do their work. The
fingerprint is the SHA-256 of the results in that order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_CANONICAL_NAN = 0x7FFFFFFF


def inputs() -> NDArray[np.float32]:
    """The 2,822,197 inputs in the order in which their results are hashed."""
    every = np.arange(0, 1 << 32, 4093, dtype=np.uint32)
    dense = np.arange(0x3C000000, 0x41200000, 97, dtype=np.uint32)
    return np.concatenate([every, dense, dense | np.uint32(1 << 31)]).view(np.float32)


def fingerprint(function: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> str:
    """SHA-256 of the results of `function`.

    Args:
        function: f32 of shape [n] to f32 of shape [n].

    Returns:
        64 hexadecimal digits; results are hashed as little-endian f32, every NaN as 0x7fffffff.
    """
    results = np.array(function(inputs()), "<f4")
    patterns = results.view("<u4")
    patterns[np.isnan(results)] = _CANONICAL_NAN
    return hashlib.sha256(patterns.tobytes()).hexdigest()
