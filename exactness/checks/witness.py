"""Kernel against reference on the witnesses: inputs known to tell a mutant from the original."""

from __future__ import annotations

from exactness.catalogue import Entry
from exactness.checks import witnesses
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import reproduction, runs
from exactness.checks.outcome import Evidence


class WitnessCheck(Check):
    """All kept witnesses of a claim."""

    kind = "witnesses"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "witnesses")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Compare on each; the first that differs is the one to reproduce."""
        if not runs(self, context, evidence):
            return
        for witness in witnesses.load(context.catalogue.project, self.claim.name):
            context.compare_kernel(evidence, self.claim, witness.example)
            if evidence.failed and not evidence.reproduction:
                evidence.reproduction = reproduction(self, witness.example)
