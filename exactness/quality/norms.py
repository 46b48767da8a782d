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

_WIDTH = 64
"""Elements of the row that a norm without a weight is tried on."""


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


def scales_of(
    function: Function, weight: Tensor | None, dtype: Any, device: str
) -> tuple[Scale, ...]:
    """What an RMS norm may multiply by, seen from what it makes of a row.

    The row is large, so that eps does not matter, and neither constant nor centred, so that a norm
    that subtracts the mean is found out.

    Args:
        function: the norm.
        weight: its weight, [n], or None.
        dtype: torch dtype that the norm takes.
        device: where it takes it.

    Returns:
        The scales that explain the result within bf16's precision; more than one if the weight does
        not tell them apart, none if this is no RMS norm.
    """
    import torch

    n = _WIDTH if weight is None else weight.shape[-1]
    row = 32.0 * (2.0 + torch.sin(torch.arange(n, device=device, dtype=torch.float32)))
    row = row.to(dtype)
    with torch.no_grad():
        seen = function(row.expand(1, 1, 1, n).contiguous()).double().reshape(n)
    wide = row.double()
    normal = wide / wide.square().mean().sqrt()

    def explains(scale: Scale) -> bool:
        factor = scale.factor(weight, torch.float64)
        expected = normal if factor is None else normal * factor
        return float((seen - expected).norm()) <= _SEEN * float(expected.norm())

    candidates = (Scale.NONE,) if weight is None else (Scale.WEIGHT, Scale.ONE_MORE, Scale.NONE)
    return tuple(filter(explains, candidates))
