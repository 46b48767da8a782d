"""What the A/B asks of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from exactness.quality.norms import Function, Norm
from exactness.quality.windows import Text, Tokens

if TYPE_CHECKING:
    from torch import Tensor


class LanguageModel(Protocol):
    """A causal language model whose norms can be replaced for a call.

    Attributes:
        name: for the report.
        digest: identifies the weights and how they are used.
        dtype: of the activations, as torch names it.
        device: where tokens go.
        vocabulary: number of tokens there are.
        context: tokens of a window unless another number is asked for.
        limit: tokens of the longest window it takes, or None.
        norms: what can be replaced, by name, in the order of the model.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def device(self) -> str: ...  # noqa: D102
    @property
    def vocabulary(self) -> int: ...  # noqa: D102
    @property
    def context(self) -> int: ...  # noqa: D102
    @property
    def limit(self) -> int | None: ...  # noqa: D102
    @property
    def norms(self) -> Mapping[str, Norm]: ...  # noqa: D102

    def tokens(self, text: Text, most: int) -> Tokens:
        """The text's first tokens.

        Args:
            text: what is to be scored.
            most: tokens that are needed, at most; at least as many come if the text has them.

        Raises:
            UsageError: the tokenizer does not fit the model or the text.
        """
        ...

    def logits(self, tokens: Tensor, replaced: Mapping[str, Function]) -> Tensor:
        """Scores of every next token: f32 [windows, tokens, vocabulary].

        Args:
            tokens: int64 [windows, tokens] on `device`.
            replaced: name of a norm to what computes it instead.
        """
        ...
