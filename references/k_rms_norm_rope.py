"""RMS norm of every key head, then the partial rotary embedding of queries and keys.

Baseline: the launches of `k_rms_norm` and `rope_yarn_partial`, in this order; two.
"""

from __future__ import annotations

from exactness.arithmetic import Value
from exactness.arrays import Array

from .k_rms_norm import k_rms_norm
from .rope_yarn_partial import rope_yarn_partial


def k_rms_norm_rope(
    q: Value, k: Value, weight: Value, positions: Array, cos_sin: Value, eps: float
) -> tuple[Value, Value]:
    """Normalise the heads of k, store them in the format of k, rotate them and those of q.

    Args:
        q: bf16, f16 or f32 [tokens, heads, head_dim].
        k: like `q`, with a number of heads of its own.
        weight: bf16, f16 or f32 [head_dim].
        positions: int64 [tokens].
        cos_sin: f32 [rows, rope_dim], cosines, then sines; row p is for position p.
        eps: host constant, f64 to f32.

    Returns:
        The new k, and q, which it replaces.
    """
    normed = k_rms_norm(k, weight, eps)
    q_out, k_out = rope_yarn_partial(q, normed, positions, cos_sin)
    return k_out, q_out
