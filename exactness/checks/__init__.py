"""Checks: one a file, each comparing two corners of the triangle golden, reference, kernel."""

from __future__ import annotations

from exactness.checks.base import Check, Context
from exactness.checks.outcome import GOOD, Evidence, Mismatch, Outcome, Status
from exactness.checks.plan import plan

__all__ = ["GOOD", "Check", "Context", "Evidence", "Mismatch", "Outcome", "Status", "plan"]
