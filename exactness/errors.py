"""Errors that every part of the engine shares."""

from __future__ import annotations

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


class UsageError(Exception):
    """The user asked for something that is not there or cannot be read.

    The message is one line that says what to do; the exit status is 2.
    """
