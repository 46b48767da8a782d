"""The few array operations that NumPy and torch spell differently.

Engine code that must run on NumPy arrays (CPU) and on CUDA tensors (GPU) with the same bits is
written once over these functions. torch is never imported here: an array that is not NumPy's
brings its own module. CPU tensors are turned into NumPy arrays beforehand (`bits.as_payload`),
because torch's CPU kernels are not correctly rounded (CONTRACTS, section 1).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A NumPy array or a CUDA tensor."""


def is_numpy(x: Array) -> bool:
    """Whether `x` is NumPy's (an array or a scalar of it)."""
    return isinstance(x, (np.ndarray, np.generic))


def namespace(x: Array) -> Any:
    """The module (`numpy` or `torch`) whose functions act on `x`."""
    return np if is_numpy(x) else sys.modules["torch"]


def dtype_of(x: Array, name: str) -> Any:
    """The dtype called `name` ("float32", "int64" …) in the module of `x`."""
    return getattr(namespace(x), name)


def dtype_name(x: Array) -> str:
    """The name of the dtype of `x`: "float32", "int64" …."""
    return str(x.dtype).rsplit(".", maxsplit=1)[-1]


def astype(x: Array, name: str) -> Array:
    """`x` converted by value to the dtype called `name`."""
    if is_numpy(x):
        return np.asarray(x).astype(name, copy=False)
    return x.to(dtype_of(x, name))


def view(x: Array, name: str) -> Array:
    """The bits of `x` read as the dtype called `name`, of the same width."""
    if is_numpy(x):
        x = np.asarray(x)
        return (x if x.flags.c_contiguous else np.ascontiguousarray(x)).view(name)
    return x.contiguous().view(dtype_of(x, name))


def where(condition: Array, x: Any, y: Any) -> Array:
    """`x` where the condition holds, else `y`; scalars take the other operand's dtype."""
    if is_numpy(condition):
        return np.where(condition, x, y)
    return sys.modules["torch"].where(condition, x, y)


def full(like: Array, shape: tuple[int, ...], value: float, dtype: str) -> Array:
    """An array of `value` beside `like` (same module, same device)."""
    if is_numpy(like):
        return np.full(shape, value, dtype)
    return sys.modules["torch"].full(shape, value, dtype=dtype_of(like, dtype), device=like.device)


def index_array(like: Array, indices: np.ndarray) -> Array:
    """`indices` as an index array beside `like`."""
    if is_numpy(like):
        return indices
    return sys.modules["torch"].as_tensor(indices, device=like.device)


def concatenate(parts: Sequence[Array], axis: int) -> Array:
    """`parts` one after the other along `axis`."""
    if is_numpy(parts[0]):
        with np.errstate(invalid="ignore"):  # a signalling NaN widened to f64
            return np.concatenate(parts, axis)
    return sys.modules["torch"].cat(list(parts), axis)


def broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    """`x` broadcast to `shape`, without a copy."""
    return np.broadcast_to(x, shape) if is_numpy(x) else x.expand(shape)


def smallest(x: Array, axis: int) -> Array:
    """The smallest element along `axis` (kept, size 1) of an integer array."""
    return namespace(x).amin(x, axis=axis, keepdims=True)
