"""Checks: one a file, each comparing two corners of the triangle golden, reference, kernel."""

from __future__ import annotations

from exactness.checks.base import Check, Context
from exactness.checks.outcome import Evidence, Mismatch, Outcome, Status
from exactness.checks.plan import plan

__all__ = ["Check", "Context", "Evidence", "Mismatch", "Outcome", "Status", "plan"]
