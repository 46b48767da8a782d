"""Causal language models of Hugging Face's transformers, with their norms replaced for a call."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from exactness.errors import UsageError
from exactness.quality.norms import Function, Norm, scale_of

if TYPE_CHECKING:
    from torch import Tensor

CONTEXT = 512
"""Tokens of a window, where the model takes that many."""

_EPS = ("eps", "variance_epsilon", "epsilon")


@dataclass(frozen=True, eq=False)
class HubModel:
    """A model of transformers in bf16; see `models.LanguageModel`."""

    name: str
    device: str
    network: Any
    tokenizer: Any

    dtype = "bfloat16"

    @classmethod
    def open(cls, name: str, device: str) -> HubModel:
        """Load a model and its tokenizer.

        Args:
            name: a folder, or a name on the hub where there is a network.
            device: "cpu" or "cuda".

        Raises:
            UsageError: transformers is not installed, there is no such folder or model, it is not
                a causal language model, or it has no tokenizer.
        """
        transformers = _transformers()
        if not Path(name).exists() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
            raise UsageError(f"--model {name}: no such directory")
        config = _loaded(name, transformers.AutoConfig.from_pretrained)
        causal = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
        if type(config) not in causal:
            raise UsageError(
                f"--model {name}: {config.model_type} ({type(config).__name__}) is not a causal "
                "language model"
            )
        import torch

        load = functools.partial(
            transformers.AutoModelForCausalLM.from_pretrained, dtype=torch.bfloat16
        )
        network = _loaded(name, load).to(device).eval()
        tokenizer = _loaded(name, transformers.AutoTokenizer.from_pretrained, "its tokenizer: ")
        return cls(name, device, network, tokenizer)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over the names, shapes and summed bit patterns of all weights."""
        import torch

        found = hashlib.sha256()
        for name, weight in self.network.state_dict().items():
            patterns = weight.reshape(-1).view(torch.uint8).sum(dtype=torch.int64)
            found.update(f"{name} {tuple(weight.shape)} {int(patterns)}\n".encode())
        return found.hexdigest()

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return int(self.network.get_input_embeddings().weight.shape[0])

    @property
    def limit(self) -> int | None:
        """The positions that the model has."""
        config = self.network.config.get_text_config()
        found = getattr(config, "max_position_embeddings", None)
        return None if found is None else int(found)

    @property
    def context(self) -> int:
        """A usual window."""
        return min(CONTEXT, self.limit or CONTEXT)

    @functools.cached_property
    def norms(self) -> dict[str, Norm]:
        """The modules that turn out to be RMS norms over the last dimension."""
        found = {}
        for name, module in self.network.named_modules():
            norm = self._norm(name, module)
            if norm is not None:
                found[name] = norm
        return found

    def _norm(self, name: str, module: Any) -> Norm | None:
        import torch

        eps = next((getattr(module, each) for each in _EPS if hasattr(module, each)), None)
        if not isinstance(eps, float) or "norm" not in type(module).__name__.lower():
            return None
        weight = getattr(module, "weight", None)
        width = 64 if weight is None else weight.shape[-1]
        like = torch.empty(width, dtype=torch.bfloat16, device=self.device)
        scale = scale_of(module, weight, like)
        return None if scale is None else Norm(name, eps, weight, scale)

    def tokens(self, text: bytes) -> np.ndarray:
        """The text through the model's tokenizer.

        Raises:
            UsageError: it is not UTF-8, or the tokenizer gives no tokens, or unknown ones.
        """
        try:
            decoded = text.decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"--text: not UTF-8: {error.reason} at byte {error.start}") from None
        encoded = self.tokenizer(decoded, add_special_tokens=False, verbose=False)["input_ids"]
        found = np.asarray(encoded, np.int64)
        if not found.size:
            raise UsageError(f"--model {self.name}: its tokenizer is empty or missing: no tokens")
        if int(found.max()) >= self.vocabulary:
            raise UsageError(
                f"--model {self.name}: its tokenizer gives token {int(found.max())}, the model has "
                f"{self.vocabulary}: they do not belong together"
            )
        return found

    def logits(self, tokens: Tensor, replaced: Mapping[str, Function]) -> Tensor:
        """Scores of every next token, f32."""
        import torch

        with torch.no_grad(), ExitStack() as stack:
            for name, function in replaced.items():
                stack.enter_context(_forward(self.network.get_submodule(name), function))
            return self.network(input_ids=tokens, use_cache=False).logits.float()


@contextmanager
def _forward(module: Any, function: Function) -> Iterator[None]:
    """Let a module compute something else for a while."""
    module.forward = function
    try:
        yield
    finally:
        del module.forward


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise UsageError(
            "--model needs transformers; pip install 'exactness[quality]' brings it"
        ) from None
    found: Any = transformers
    found.logging.disable_progress_bar()
    return found


def _loaded(name: str, load: Any, what: str = "") -> Any:
    """Call a loader; its errors become one line."""
    local = Path(name).is_dir()
    try:
        return load(name, local_files_only=local)
    except Exception as error:
        first = next(iter(str(error).splitlines()), "") or type(error).__name__
        where = "" if local else " (no such directory, and not to be had from the hub)"
        raise UsageError(f"--model {name}{where}: {what}{first:.200}") from None
