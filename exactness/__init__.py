"""Bit-exact numerics verification for fused GPU kernels, with the H200's bits on any CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Claim", "__version__", "assert_equal_bits"]

if TYPE_CHECKING:
    from exactness.claim import Claim
    from exactness.testing import assert_equal_bits

_LAZY = {"Claim": "exactness.claim", "assert_equal_bits": "exactness.testing"}


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that `import exactness` stays quick."""
    if name not in _LAZY:
        raise AttributeError(f"module 'exactness' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
