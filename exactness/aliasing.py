"""Whether two tensors share memory: comparing a tensor with itself shows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from exactness.bits import Bits, is_torch

_WORK: Any = 1_000_000
"""Steps NumPy may take to solve the overlap exactly; beyond, overlapping spans count."""


def same_memory(actual: Any, expected: Any) -> bool:
    """Whether two tensors share an element's memory (interleaved views do not)."""
    devices = [str(x.device) if is_torch(x) else "cpu" for x in (actual, expected)]
    if devices[0] != devices[1]:
        return False
    views = [_addresses(x) for x in (actual, expected)]
    if views[0] is None or views[1] is None:
        return False
    try:
        return np.shares_memory(views[0], views[1], max_work=_WORK)
    except np.exceptions.TooHardError:
        return np.may_share_memory(views[0], views[1])


class _Span:
    """A tensor's addresses for NumPy's overlap test, which never reads what is there."""

    def __init__(self, tensor: Any) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "shape": tuple(tensor.shape),
            "strides": tuple(step * size for step in tensor.stride()),
            "data": (tensor.data_ptr(), True),
        }


def _addresses(tensor: Any) -> np.ndarray | None:
    if isinstance(tensor, Bits):
        return tensor.patterns
    if isinstance(tensor, np.ndarray):
        return tensor
    if not is_torch(tensor) or str(tensor.layout) != "torch.strided" or tensor.is_meta:
        return None
    return np.asarray(_Span(tensor)) if tensor.numel() else None
