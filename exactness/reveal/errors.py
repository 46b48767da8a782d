"""Why a callable's order cannot be revealed."""

from __future__ import annotations

from exactness.errors import UsageError


class RevealError(UsageError):
    """What was probed shows no order of summation; the message is one line that says why."""
