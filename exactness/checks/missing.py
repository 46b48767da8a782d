"""A claim whose recordings are not there fails; it is not skipped."""

from __future__ import annotations

from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.outcome import Evidence


class MissingGoldenCheck(Check):
    """Stands in the place of recordings that a claim names and no file holds."""

    kind = "golden"

    def __init__(self, entry: Entry, prefix: str) -> None:
        super().__init__(entry, f"golden-{prefix}-missing")
        self.prefix = prefix

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Say what is missing and how to record it."""
        known = ", ".join(context.golden.prefixes()) or "nothing"
        hint = (
            f"record it with `exactness record {self.claim.name}`"
            if self.claim.baseline
            else "add the recording, or remove the prefix from the claim"
        )
        evidence.problem(
            f"no recorded case under {self.prefix!r}: the golden files hold {known}; {hint}"
        )
