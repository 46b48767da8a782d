"""The cases of the WeLMv4 kernel benchmark and of the DeepSeek V4 fusions, in their order.

A case runs as soon as a claim has it; the reason stands for those that none has yet.
"""

from __future__ import annotations

from collections.abc import Mapping

_PROJECTION = "a bf16 product of cuBLAS, for which there is no claim yet"
_ATTENTION = "attention with sinks has no claim yet"


def planned() -> Mapping[str, str]:
    """Name to why no claim covers it."""
    unclaimed = {
        "attention_gate_projection": _PROJECTION,
        "attention_prefill_sink_local": _ATTENTION,
        "attention_prefill_sink_global": _ATTENTION,
        "router_linear": "a tf32 product of a Triton kernel, for which there is no claim yet",
        "shared_gate_up_projection": _PROJECTION,
        "shared_down_projection": _PROJECTION,
    }
    return {name: unclaimed.get(name, "there is no claim yet") for name in _ORDER}


_ORDER = (
    "rms_norm",
    "k_rms_norm",
    "rope_yarn_partial",
    "attention_gate_projection",
    "attention_gate_sigmoid_mul",
    "attention_prefill_sink_local",
    "attention_prefill_sink_global",
    "o_norm",
    "router_linear",
    "expert_bias_topk",
    "shared_gate_up_projection",
    "silu_and_mul",
    "shared_down_projection",
    "oe_lookup_concat",
    "qnorm",
    "swiglu_clamp",
    "sinkhorn",
)
