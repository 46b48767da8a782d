"""Write a small causal language model with drawn weights, for `exactness ppl --model`.

    python scripts/random_quality_model.py qwen3 build/quality/qwen3
    exactness ppl --model build/quality/qwen3

It predicts nothing; it has the norms of its family, with heads of 512 dimensions, and a tokenizer
of bytes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

SIZES: dict[str, Any] = {
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "max_position_embeddings": 512,
}
EXPERTS: dict[str, Any] = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "q_lora_rank": 64,
}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 64,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "head_dim": 16,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("Qwen3Config", {}),
    "gemma3": ("Gemma3TextConfig", {}),
    "deepseek_v3": ("DeepseekV3Config", EXPERTS | LATENT),
    "deepseek_v4": ("DeepseekV4Config", EXPERTS),
}


def write(family: str, folder: Path, seed: int = 0) -> None:
    torch.manual_seed(seed)
    name, more = FAMILIES[family]
    config = getattr(transformers, name)(**(SIZES | more))
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):
            # As drawn they are all 1, or all 0 where 1 is added; a wrong factor would not show.
            weight.data += 0.2 * torch.randn_like(weight)
    model.to(torch.bfloat16).save_pretrained(folder)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=sorted(FAMILIES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write(options.family, options.folder, options.seed)


if __name__ == "__main__":
    main()
