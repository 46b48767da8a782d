"""Which windows of a text are scored, and which of their tokens count."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from exactness.errors import UsageError

LOGITS = 1 << 24
"""Logits of a leg that are held at once."""

TOKENS = 2048
"""Tokens of a chunk, at most; a chunk is what Ctrl-C can lose."""


@dataclass(frozen=True)
class Text:
    """A text and the file that it was read from.

    Attributes:
        path: for messages.
        content: its bytes.
    """

    path: Path
    content: bytes

    @classmethod
    def read(cls, path: Path) -> Text:
        """Read a file.

        Raises:
            UsageError: it cannot be read or is empty.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"--text {path}: {error.strerror}") from None
        if not content.strip():
            raise UsageError(f"--text {path}: the text is empty")
        return cls(path, content)

    def decoded(self) -> str:
        """As characters.

        Raises:
            UsageError: it is not UTF-8.
        """
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"--text {self.path}: not UTF-8: {error.reason} at byte {error.start}"
            ) from None


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens at the beginning of a text.

    Attributes:
        text: for messages.
        ids: int64 [tokens].
        complete: whether these are all tokens of the text.
    """

    text: Text
    ids: np.ndarray
    complete: bool


@dataclass(frozen=True, eq=False)
class Chunk:
    """Windows that are scored together.

    Attributes:
        number: of the chunk.
        tokens: int64 [windows, context + 1]; each token but the first of a window is predicted.
        counted: bool [windows, context]: predictions that no earlier window has made.
        window: int64 [counted]: the window of each counted prediction.
    """

    number: int
    tokens: np.ndarray
    counted: np.ndarray
    window: np.ndarray


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a text.

    Attributes:
        tokens: int64 [tokens].
        context: predictions that a window makes.
        stride: tokens from a window to the next.
        count: number of windows.
        vocabulary: scores of a prediction.
    """

    tokens: np.ndarray
    context: int
    stride: int
    count: int
    vocabulary: int

    @classmethod
    def over(
        cls,
        tokens: Tokens,
        context: int,
        stride: int,
        most: int,
        vocabulary: int,
        limit: int | None,
    ) -> Windows:
        """As many windows as the text has, for at most `most` predictions.

        Args:
            tokens: of the text, more than `most` unless the text has no more.
            context: predictions that a window makes.
            stride: tokens from a window to the next.
            most: predictions that count, at most.
            vocabulary: scores of a prediction.
            limit: tokens that the model takes at once, or None.

        Raises:
            UsageError: sizes out of range, or a text shorter than a window.
        """
        if context < 1 or not 1 <= stride <= context:
            raise UsageError(
                f"--context {context} --stride {stride}: a context from 1 up and a stride from 1 "
                "to the context are accepted"
            )
        if limit is not None and context > limit:
            raise UsageError(f"--context {context}: the model takes at most {limit} tokens")
        if most < context:
            raise UsageError(f"--max-tokens {most}: at least one window of {context} is needed")
        size = tokens.ids.size
        if size <= context:
            raise UsageError(
                f"--text {tokens.text.path}: a window of {context} needs {context + 1} tokens, "
                f"this text has {size}; give a longer one or a smaller --context"
            )
        available = (size - 1 - context) // stride + 1
        wanted = (most - context) // stride + 1
        return cls(tokens.ids, context, stride, min(available, wanted), vocabulary)

    @property
    def predictions(self) -> int:
        """Predictions that count."""
        return self.context + (self.count - 1) * self.stride

    @property
    def read(self) -> np.ndarray:
        """The tokens that some window reads, int64 [predictions + 1]."""
        return self.tokens[: self.predictions + 1]

    @property
    def chunk(self) -> int:
        """Windows of a chunk."""
        return max(min(TOKENS, LOGITS // self.vocabulary) // self.context, 1)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.count // self.chunk)

    def __getitem__(self, number: int) -> Chunk:
        """The chunk of this number."""
        first = number * self.chunk
        indices = np.arange(first, min(first + self.chunk, self.count))
        reach = np.arange(self.context + 1)
        tokens = self.tokens[indices[:, None] * self.stride + reach]
        counted = np.ones((indices.size, self.context), bool)
        counted[indices > 0, : self.context - self.stride] = False
        return Chunk(number, tokens, counted, np.repeat(indices, counted.sum(1)))
