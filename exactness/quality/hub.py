"""Causal language models of Hugging Face's transformers, with their norms replaced for a call."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from exactness.errors import UsageError
from exactness.quality.norms import Function, Norm, scales_of
from exactness.quality.windows import Text, Tokens

if TYPE_CHECKING:
    from torch import Tensor

CONTEXT = 512
"""Tokens of a window, where the model takes that many."""

AHEAD = 1024
"""Tokens behind the last one that is needed which are tokenized as well, where the text is cut."""

_CHARACTERS = 8
"""Characters that a token is expected to have, at most; where it has more, more text is taken."""

_SECONDS = 10
"""How long the hub may take to answer."""

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
                a causal language model, lacks weights, or has no tokenizer.
        """
        transformers = _transformers()
        local = _is_local(name)
        config = _loaded(name, local, transformers.AutoConfig.from_pretrained)
        if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
            raise _not_causal(name, config)
        import torch

        load = functools.partial(
            transformers.AutoModelForCausalLM.from_pretrained,
            dtype=torch.bfloat16,
            output_loading_info=True,
        )
        network, report = _loaded(name, local, load)
        # What predicts masked tokens sees those behind, unless it is told to be a decoder.
        if type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING:
            if not getattr(network.config, "is_decoder", False):
                raise _not_causal(name, config)
        _check_complete(name, network, report)
        load = transformers.AutoTokenizer.from_pretrained
        tokenizer = _loaded(name, local, load, "its tokenizer: ")
        return cls(name, device, network.to(device).eval(), tokenizer)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over the configuration and the names, dtypes, shapes and bytes of all weights."""
        import torch

        found = hashlib.sha256(self.network.config.to_json_string().encode())
        for name, weight in self.network.state_dict().items():
            found.update(f"\n{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
            found.update(weight.detach().cpu().reshape(-1).view(torch.uint8).numpy())
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
        """The modules that turn out to be RMS norms over the last dimension, and nothing more."""
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
        if weight is not None and weight.ndim != 1:
            return None
        if len(inspect.signature(module.forward).parameters) != 1:
            return None  # a gated norm: the rows are not all that it takes
        try:
            scales = scales_of(module, weight, torch.bfloat16, self.device)
        except Exception:
            return None  # it does not take rows
        return Norm(name, eps, weight, scales[0]) if scales else None

    def tokens(self, text: Text, most: int) -> Tokens:
        """The text's first tokens, by the model's tokenizer.

        The text is tokenized from its beginning, and only as far as needed. They are the tokens of
        the whole text as long as none depends on what comes more than `AHEAD` tokens behind it.

        Args:
            text: what is to be scored.
            most: tokens that are needed, at most.

        Raises:
            UsageError: it is not UTF-8, or the tokenizer gives no tokens, or unknown ones.
        """
        decoded = text.decoded()
        end = _CHARACTERS * (most + AHEAD)
        found = self._encoded(decoded[:end])
        while end < len(decoded) and found.size < most + AHEAD:
            end *= 2
            found = self._encoded(decoded[:end])
        complete = end >= len(decoded)
        found = found if complete else found[:-AHEAD]
        if not found.size:
            raise UsageError(f"--model {self.name}: its tokenizer is empty or missing: no tokens")
        if int(found.max()) >= self.vocabulary:
            raise UsageError(
                f"--model {self.name}: its tokenizer gives token {int(found.max())}, the model has "
                f"{self.vocabulary}: they do not belong together"
            )
        return Tokens(text, found, complete)

    def _encoded(self, text: str) -> np.ndarray:
        """Tokens of a text, int64 [tokens]."""
        encoded = self.tokenizer(text, add_special_tokens=False, verbose=False)
        return np.asarray(encoded["input_ids"], np.int64)

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
    # Errors come as one line of this package's; reports of what was loaded are read, not shown.
    found.logging.disable_progress_bar()
    found.logging.set_verbosity_error()
    return found


def _is_local(name: str) -> bool:
    """Whether a model is to be had on this machine only: in a folder, or without a network.

    The hub is asked once; the loaders would ask again and again, for half a minute.

    Raises:
        UsageError: this is the name of neither a folder nor a model.
    """
    path = Path(name)
    if not name.strip() or path.is_file():
        raise UsageError(f"--model {name!r}: a folder or a name on the hub is accepted")
    if path.is_dir():
        return True
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(f"--model {name}: no such directory")
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    try:
        huggingface_hub.HfApi().model_info(name, timeout=_SECONDS)
    except (HfHubHTTPError, ValueError):
        return False  # it answered, or the name is none; the loader says what is wrong
    except Exception:
        return True
    return False


def _loaded(name: str, local: bool, load: Any, what: str = "") -> Any:
    """Call a loader; its errors become one line."""
    try:
        return load(name, local_files_only=local)
    except Exception as error:
        first = next(iter(str(error).splitlines()), "") or type(error).__name__
        if not Path(name).is_dir():
            asked = "the hub cannot be reached" if local else "the hub does not give it"
            what = f"no such directory, and {asked}: {what}"
        raise UsageError(f"--model {name}: {what}{first:.200}") from None


def _not_causal(name: str, config: Any) -> UsageError:
    return UsageError(
        f"--model {name}: {config.model_type} ({type(config).__name__}) is not a causal language "
        "model"
    )


def _check_complete(name: str, network: Any, report: Mapping[str, Any]) -> None:
    """Refuse a model some of whose weights were drawn because its files lack them.

    Args:
        name: for the message.
        network: the model.
        report: what transformers loaded. It does not count as missing what is tied to another
            weight, or what the model computes.
    """
    missing = sorted(report["missing_keys"])
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(
            f"--model {name}: its files lack {missing[0]}{more}, which {type(network).__name__} "
            "needs"
        )
