"""What the kernels replace, in torch: chains of eager operations, torch's fused ones, Liger's.

Each takes the arguments of the kernel and gives its outputs, in place where the kernel does. They
follow the formula and the count of launches, not the bits: torch sums in orders of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def qnorm(x: Tensor, eps: float) -> Tensor:
    """Seven launches, as candle's: sqr, sum, affine, affine, recip, sqrt, mul."""
    total = (x * x).sum(-1, keepdim=True)
    mean = total * (1.0 / x.shape[-1])
    return x * (mean + eps).reciprocal().sqrt()


def qnorm_fused(x: Tensor, eps: float) -> Tensor:
    """Torch's own norm, without a weight."""
    return functional.rms_norm(x, (x.shape[-1],), None, eps)


def swiglu_clamp(gate: Tensor, up: Tensor, limit: float) -> Tensor:
    """Eight launches, as candle's; like there, each bound is a tensor that the host uploads."""
    clamped = torch.minimum(gate.float(), _uploaded(limit, gate))
    above = torch.maximum(up.float(), _uploaded(-limit, up))
    bounded = torch.minimum(above, _uploaded(limit, up))
    return (functional.silu(clamped) * bounded).to(gate.dtype)


def _uploaded(value: float, like: Tensor) -> Tensor:
    return torch.tensor(value, dtype=torch.float32, device=like.device)


def sinkhorn(x: Tensor, iterations: int, eps: float) -> Tensor:
    """About six launches an iteration, as candle's."""
    power = (x - x.amax(-1, keepdim=True)).exp()
    result = power / power.sum(-1, keepdim=True) + eps
    result = result / (result.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        result = result / (result.sum(-1, keepdim=True) + eps)
        result = result / (result.sum(-2, keepdim=True) + eps)
    return result


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """In f32, rounded once."""
    return _normalised(x.to(weight.dtype).float(), weight, eps).to(x.dtype)


def rms_norm_f32copy(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`rms_norm`, and the same before its last rounding."""
    out = _normalised(x.to(weight.dtype).float(), weight, eps)
    return out.to(x.dtype), out


def rms_norm_residual(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, residual_after: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm of the sum, the new residual, and the result in f32."""
    total = x.float() + residual.float()
    wide = _normalised(total.to(weight.dtype).float(), weight, eps)
    out = wide.to(x.dtype)
    return out, out if residual_after else total.to(residual.dtype), wide


def _normalised(h: Tensor, weight: Tensor, eps: float) -> Tensor:
    return h * torch.rsqrt((h * h).mean(-1, keepdim=True) + eps) * weight.float()


def k_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """In f32, rounded once; the heads are not rounded before."""
    return _normalised(x.float(), weight, eps).to(x.dtype)


def rms_norm_fused(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Torch's own norm."""
    return functional.rms_norm(x, (x.shape[-1],), weight, eps)


def rms_norm_liger(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Liger-Kernel's norm, which casts as Hugging Face's Llama does."""
    from liger_kernel.transformers.functional import liger_rms_norm

    return liger_rms_norm(x, weight, eps, in_place=False)


def rope_yarn_partial(
    q: Tensor,
    k: Tensor,
    positions: Tensor,
    cos_sin: Tensor,
    rows_by: str = "position",
) -> None:
    """Neox halves of the last dimensions, in f32; in place."""
    rows = cos_sin[positions] if rows_by == "position" else cos_sin[: k.shape[0]]
    cos, sin = rows[:, None].chunk(2, dim=-1)
    for x in (q, k):
        rotated = x[..., x.shape[-1] - cos_sin.shape[1] :]
        x1, x2 = rotated.float().chunk(2, dim=-1)
        rotated.copy_(torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1))


def k_rms_norm_rope(
    q: Tensor, k: Tensor, weight: Tensor, positions: Tensor, cos_sin: Tensor, eps: float
) -> Tensor:
    """`k_rms_norm`, then `rope_yarn_partial` of its result and of q."""
    normed = k_rms_norm(k, weight, eps)
    rope_yarn_partial(q, normed, positions, cos_sin)
    return normed


def attention_gate_sigmoid_mul(gate: Tensor, value: Tensor) -> None:
    """The sigmoid is rounded; the product replaces `value`."""
    value.mul_(torch.sigmoid(gate))


def expert_bias_topk(scores: Tensor, bias: Tensor, topk: int) -> tuple[Tensor, Tensor]:
    """Torch breaks ties in an order of its own."""
    ids = torch.topk(scores + bias, topk, dim=-1).indices
    return scores.gather(-1, ids), ids


def silu_and_mul(x: Tensor) -> Tensor:
    """Two launches."""
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def silu_and_mul_once(x: Tensor) -> Tensor:
    """One rounding."""
    gate, up = x.float().chunk(2, dim=-1)
    return (functional.silu(gate) * up).to(x.dtype)


def silu_and_mul_liger(x: Tensor) -> Tensor:
    """Liger-Kernel's, on contiguous halves."""
    from liger_kernel.transformers.functional import liger_swiglu

    gate, up = x.chunk(2, dim=-1)
    return liger_swiglu(gate.contiguous(), up.contiguous())


def oe_lookup_concat(
    ids: Tensor,
    table0: Tensor,
    table1: Tensor,
    table2: Tensor,
    table3: Tensor,
    starts: tuple[int, ...] = (0, 0, 0, 0),
) -> Tensor:
    """Each table's rows, zeros where another rank has them."""
    parts = []
    for branch, table in enumerate((table0, table1, table2, table3)):
        local = ids[:, branch] - starts[branch]
        here = (local >= 0) & (local < table.shape[0])
        rows = table[torch.where(here, local, 0)]
        parts.append(torch.where(here[:, None], rows, 0.0))
    return torch.cat(parts, dim=-1)


def oe_hash(
    ids: Tensor, g2: Tensor, g3: Tensor, token_vocabulary: int, vocabularies: tuple[int, ...]
) -> Tensor:
    """Products of int64 wrap at 2^64, which leaves the 32 bits that count."""
    low = 0xFFFFFFFF
    r2 = (ids + g2 * token_vocabulary) & low
    r3 = (r2 + g3 * (token_vocabulary * token_vocabulary & low)) & low
    h2, h3 = ((r * 2654435761) & low for r in (r2, r3))
    buckets = [h % v for h, v in zip((h2, h2, h3, h3), vocabularies, strict=True)]
    return torch.stack(buckets, dim=-1)


def oe_hash_lookup_concat(
    ids: Tensor,
    g2: Tensor,
    g3: Tensor,
    table0: Tensor,
    table1: Tensor,
    table2: Tensor,
    table3: Tensor,
    token_vocabulary: int,
    vocabularies: tuple[int, ...],
    starts: tuple[int, ...] = (0, 0, 0, 0),
) -> Tensor:
    """The hash, then the rows."""
    buckets = oe_hash(ids, g2, g3, token_vocabulary, vocabularies)
    return oe_lookup_concat(buckets, table0, table1, table2, table3, starts)
