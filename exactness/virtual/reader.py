"""A position in PTX text, and how to move it."""

from __future__ import annotations

import re

from exactness.virtual.errors import PTXSyntaxError
from exactness.virtual.source_lines import location_table, strip_comments

_SPACE = re.compile(r"[\s]*")
_BRACE = re.compile(r"[{}]")


class Reader:
    """PTX text while it is read.

    Attributes:
        files: the `.file` table.
        locations: PTX line to source position.
        text: the text without comments.
        position: where reading goes on.
    """

    def __init__(self, text: str) -> None:
        """Start at the beginning."""
        self.files, self.locations = location_table(text)
        self.text = strip_comments(text)
        self.position = 0
        self.counted = 0
        self.line = 1

    def error(self, what: str) -> PTXSyntaxError:
        """An error at the present position."""
        rest = self.text[self.position :].strip().split("\n", 1)[0][:80]
        return PTXSyntaxError(f"PTX line {self.current_line()}: {what}: {rest!r}")

    def current_line(self) -> int:
        """The line of the present position; positions are asked for in ascending order."""
        self.line += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        return self.line

    def skip_space(self) -> bool:
        """Move to the next token; False at the end of the text."""
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return self.position < len(self.text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match `pattern` here and move past it."""
        match = pattern.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def take_line(self) -> str:
        """The rest of the line."""
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        line = self.text[self.position : end]
        self.position = end
        return line

    def take_braces(self) -> None:
        """Skip a balanced `{ … }` block."""
        depth = 0
        for match in _BRACE.finditer(self.text, self.position):
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                self.position = match.end()
                return
        raise self.error("a brace is not closed")
