"""The RMS norms of a model that can be replaced, and what they multiply by."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

Function: TypeAlias = "Callable[[Tensor], Tensor]"
"""Normalises the last dimension of a tensor of any rank."""

_SEEN = 0.02
"""How far a norm may be from one of the three scales, relative to it: bf16 and eps, no more."""


class Scale(enum.Enum):
    """What a normalised row is multiplied by."""

    NONE = "1"
    WEIGHT = "weight"
    ONE_MORE = "1 + weight"

    def factor(self, weight: Tensor | None, dtype: Any) -> Tensor | None:
        """The factor of a row in `dtype`; None if there is none."""
        if self is Scale.NONE or weight is None:
            return None
        wide = weight.detach().to(dtype)
        return 1.0 + wide if self is Scale.ONE_MORE else wide


@dataclass(frozen=True, eq=False)
class Norm:
    """An RMS norm over the last dimension.

    Attributes:
        name: the path of the module.
        eps: added to the mean square.
        weight: [n], or None.
        scale: how the weight is used.
    """

    name: str
    eps: float
    weight: Tensor | None = None
    scale: Scale = Scale.NONE


def scale_of(function: Function, weight: Tensor | None, like: Tensor) -> Scale | None:
    """What an RMS norm multiplies by, seen from what it makes of a row.

    The row is large, so that eps does not matter, and neither constant nor centred, so that a norm
    that subtracts the mean is found out.

    Args:
        function: the norm.
        weight: its weight, or None.
        like: a tensor of the dtype, device and last dimension that the norm takes.

    Returns:
        The scale that explains the result within bf16's precision; None if none does.
    """
    import torch

    n = like.shape[-1]
    row = 32.0 * (2.0 + torch.sin(torch.arange(n, device=like.device, dtype=torch.float32)))
    row = row.to(like.dtype)
    with torch.no_grad():
        seen = function(row.expand(1, 1, 1, n).contiguous()).double().reshape(n)
    wide = row.double()
    normal = wide / wide.square().mean().sqrt()
    for scale in (Scale.NONE,) if weight is None else (Scale.WEIGHT, Scale.ONE_MORE, Scale.NONE):
        factor = scale.factor(weight, torch.float64)
        expected = normal if factor is None else normal * factor
        if float((seen - expected).norm()) <= _SEEN * float(expected.norm()):
            return scale
    return None
