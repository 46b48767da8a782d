"""The language model that ships: bytes, and queries normalised per head over 512 dimensions.

A decoder of RMS norms, attention and a gated feed-forward layer over the 256 byte values. Its
attention follows DeepSeek V4's: every query head is normalised over `head_dim` dimensions without a
weight, all heads share one key-value head, the last `rope_dim` dimensions are rotated.

The weights are a plain mapping, so that training, scoring and patching share one function. Their
dtype is that of the activations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from exactness.errors import UsageError
from exactness.writing import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

VOCABULARY = 256

NormFunction: TypeAlias = "Callable[[str, Tensor], Tensor]"
"""Normalises the last dimension of a tensor: the name of the norm, its input."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the model.

    Attributes:
        layers: blocks of attention and feed-forward.
        width: dimensions of the residual stream.
        heads: query heads.
        head_dim: dimensions of a head.
        rope_dim: dimensions of a head that are rotated, the last ones; even.
        hidden: dimensions within the feed-forward layer.
        context: tokens of the longest window it was trained on.
        eps: added to the mean square in every norm.
    """

    layers: int = 3
    width: int = 192
    heads: int = 2
    head_dim: int = 512
    rope_dim: int = 64
    hidden: int = 512
    context: int = 256
    eps: float = 1e-6

    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight by name; matrices are [out, in]."""
        block = {
            "attention_norm": (self.width,),
            "query": (self.heads * self.head_dim, self.width),
            "key_value": (self.head_dim, self.width),
            "key_value_norm": (self.head_dim,),
            "output": (self.width, self.heads * self.head_dim),
            "feed_forward_norm": (self.width,),
            "gate": (self.hidden, self.width),
            "up": (self.hidden, self.width),
            "down": (self.width, self.hidden),
        }
        blocks = {f"layers.{i}.{name}": s for i in range(self.layers) for name, s in block.items()}
        return {"embedding": (VOCABULARY, self.width), **blocks, "final_norm": (self.width,)}

    @property
    def query_norms(self) -> tuple[str, ...]:
        """The names of the norms over the heads of the queries, in order."""
        return tuple(f"layers.{i}.q_norm" for i in range(self.layers))


def drawn(shape: Shape, seed: int) -> dict[str, Tensor]:
    """Weights to begin training with: f32, normal matrices, norms of 1.

    Args:
        shape: sizes of the model.
        seed: of the generator.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    residual = (2 * shape.layers) ** -0.5
    made: dict[str, Tensor] = {}
    for name, size in shape.weights().items():
        if len(size) == 1:
            made[name] = torch.ones(size)
            continue
        scale = 0.02 * (residual if name.endswith(("output", "down")) else 1.0)
        made[name] = torch.randn(size, generator=generator) * scale
    return made


def logits(
    shape: Shape,
    weights: Mapping[str, Tensor],
    tokens: Tensor,
    norm: NormFunction | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Scores of every next byte.

    Args:
        shape: sizes of the model.
        weights: as `Shape.weights` names them, all of one dtype.
        tokens: int64 [windows, tokens].
        norm: normalises the queries, [windows, tokens, heads, head_dim] in the dtype of the
            activations; torch's own function if None.
        dropout: probability with which an element of a block's output is dropped, for training.

    Returns:
        f32 [windows, tokens, 256].
    """
    from torch.nn import functional

    def drop(x: Tensor) -> Tensor:
        return functional.dropout(x, dropout) if dropout else x

    x = functional.embedding(tokens, weights["embedding"])
    turns = _turns(shape, tokens)
    for i in range(shape.layers):
        layer = _Layer(shape, weights, f"layers.{i}", norm, turns)
        x = x + drop(layer.attention(layer.normalised(x, "attention_norm")))
        x = x + drop(layer.feed_forward(layer.normalised(x, "feed_forward_norm")))
    final = functional.rms_norm(x, (shape.width,), weights["final_norm"], shape.eps)
    # In f32: bf16 scores of 16 and more would only tell eighths apart.
    return functional.linear(final.float(), weights["embedding"].float())


def _turns(shape: Shape, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angles of the rotary embedding, f32 [tokens, rope_dim / 2]."""
    import torch

    half = shape.rope_dim // 2
    frequency = 10000.0 ** (-torch.arange(half, device=tokens.device) / half)
    angle = torch.arange(tokens.shape[-1], device=tokens.device)[:, None] * frequency
    return angle.cos(), angle.sin()


@dataclass(frozen=True)
class _Layer:
    """One block."""

    shape: Shape
    weights: Mapping[str, Tensor]
    name: str
    norm: NormFunction | None
    turns: tuple[Tensor, Tensor]

    def normalised(self, x: Tensor, name: str) -> Tensor:
        from torch.nn import functional

        weight = self.weights[f"{self.name}.{name}"].to(x.dtype)
        return functional.rms_norm(x, tuple(weight.shape), weight, self.shape.eps)

    def times(self, x: Tensor, name: str) -> Tensor:
        from torch.nn import functional

        return functional.linear(x, self.weights[f"{self.name}.{name}"])

    def attention(self, x: Tensor) -> Tensor:
        from torch.nn import functional

        windows, count, _ = x.shape
        query = self.times(x, "query").reshape(
            windows, count, self.shape.heads, self.shape.head_dim
        )
        query = self._rotated(self._query_norm(query).transpose(1, 2))
        value = self.normalised(self.times(x, "key_value"), "key_value_norm")[:, None]
        value = value.to(query.dtype)
        key = self._rotated(value)
        shared = (windows, self.shape.heads, count, self.shape.head_dim)
        mixed = functional.scaled_dot_product_attention(
            query, key.expand(shared), value.expand(shared), is_causal=True
        )
        return self.times(mixed.transpose(1, 2).flatten(-2), "output")

    def _query_norm(self, query: Tensor) -> Tensor:
        from torch.nn import functional

        if self.norm is not None:
            return self.norm(f"{self.name}.q_norm", query)
        return functional.rms_norm(query, (self.shape.head_dim,), eps=self.shape.eps)

    def _rotated(self, x: Tensor) -> Tensor:
        """The last `rope_dim` dimensions of [windows, heads, tokens, head_dim], rotated in f32."""
        import torch

        cos, sin = self.turns
        size = self.shape.rope_dim
        plain, turned = x[..., :-size], x[..., -size:].float()
        first, second = turned[..., : size // 2], turned[..., size // 2 :]
        parts = (first * cos - second * sin, first * sin + second * cos)
        return torch.cat((plain, *(part.to(x.dtype) for part in parts)), -1)

    def feed_forward(self, x: Tensor) -> Tensor:
        from torch.nn import functional

        gate = functional.silu(self.times(x, "gate"))
        return self.times(gate * self.times(x, "up"), "down")


def save(path: Path, shape: Shape, weights: Mapping[str, Tensor]) -> None:
    """Write weights, rounded to bf16, and sizes into one .safetensors file."""
    import torch
    from safetensors.torch import save as to_bytes

    narrow = {
        name: w.detach().to("cpu", torch.bfloat16).contiguous() for name, w in weights.items()
    }
    write_atomically(path, to_bytes(narrow, {"shape": json.dumps(asdict(shape))}))


def load(path: Path, device: str = "cpu") -> tuple[Shape, dict[str, Tensor]]:
    """Read what `save` wrote.

    Raises:
        UsageError: the file is missing, damaged or of another kind.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt", device=device) as file:
            shape = Shape(**json.loads((file.metadata() or {})["shape"]))
            weights = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path}: not a model of this package ({error}); "
            "for one of transformers a folder or a name on the hub is accepted"
        ) from None
    _check(path, shape, weights)
    return shape, weights


def _check(path: Path, shape: Shape, weights: Mapping[str, Any]) -> None:
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    expected = shape.weights()
    wrong = sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )
    if wrong:
        name = wrong[0]
        raise UsageError(
            f"{path}: weight {name!r} is {found.get(name, 'absent')}, "
            f"expected {expected.get(name, 'none')}"
        )
