"""The model and the text that come with the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from exactness.quality import byte_model
from exactness.quality.byte_model import Shape
from exactness.quality.norms import Function, Norm
from exactness.quality.windows import Text, Tokens

if TYPE_CHECKING:
    from torch import Tensor

_DATA = Path(__file__).parent / "data"
WEIGHTS = _DATA / "model.safetensors"
TEXT = _DATA / "heldout.txt"


@dataclass(frozen=True, eq=False)
class ByteModel:
    """A model of bytes; see `models.LanguageModel`."""

    name: str
    digest: str
    device: str
    shape: Shape
    weights: Mapping[str, Tensor]

    vocabulary = byte_model.VOCABULARY
    limit = None

    @classmethod
    def open(cls, path: Path, device: str = "cpu") -> ByteModel:
        """Read weights.

        Args:
            path: the file.
            device: "cpu" or "cuda".

        Raises:
            UsageError: the file is missing, damaged or of another kind.
        """
        shape, weights = byte_model.load(path, device)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        name = "the shipped model of bytes" if path == WEIGHTS else str(path)
        return cls(name, digest, device, shape, weights)

    @property
    def dtype(self) -> str:
        """The dtype of weights and activations."""
        return str(self.weights["embedding"].dtype).removeprefix("torch.")

    @property
    def context(self) -> int:
        """What it was trained on."""
        return self.shape.context

    @property
    def norms(self) -> dict[str, Norm]:
        """The norms of the queries."""
        return {name: Norm(name, self.shape.eps) for name in self.shape.query_norms}

    def tokens(self, text: Text, most: int) -> Tokens:
        """Every byte is a token, and all are given."""
        return Tokens(text, np.frombuffer(text.content, np.uint8).astype(np.int64), True)

    def logits(self, tokens: Tensor, replaced: Mapping[str, Function]) -> Tensor:
        """Scores of every next byte, f32; on one CPU thread, so that cores do not decide bits."""
        import torch
        from torch.nn import functional

        def norm(name: str, x: Tensor) -> Tensor:
            if name in replaced:
                return replaced[name](x)
            return functional.rms_norm(x, (x.shape[-1],), eps=self.shape.eps)

        with torch.no_grad(), _one_thread():
            return byte_model.logits(self.shape, self.weights, tokens, norm)


@contextmanager
def _one_thread() -> Iterator[None]:
    """More threads than that wait for each other longer than such small matrices take."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
