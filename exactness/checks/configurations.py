"""Every configuration of an autotuned kernel has the right bits, not only the one that won."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import reproduction, runs
from exactness.checks.outcome import Evidence
from exactness.claim import GPU, Claim

_FAMILIES = ("normal", "cancelling", "specials")


def autotuned_kernels(claim: Claim) -> dict[str, Any]:
    """The autotuned Triton kernels that the claim's launcher can see, by name.

    They are looked for among the globals of the launcher, where a kernel file defines or imports
    them.
    """
    if claim.runs_on != GPU or importlib.util.find_spec("triton") is None:
        return {}
    from triton.runtime.jit import KernelInterface

    from exactness.virtual import configurations

    function = inspect.unwrap(claim.kernel)
    return {
        name: value
        for name, value in getattr(function, "__globals__", {}).items()
        if isinstance(value, KernelInterface) and configurations(value)
    }


class ConfigurationsCheck(Check):
    """Runs each configuration alone on the claim's cases."""

    kind = "configurations"

    def __init__(self, entry: Entry, kernels: dict[str, Any]) -> None:
        super().__init__(entry, "configurations")
        self.kernels = kernels

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Outputs are poisoned before each run, so that no configuration profits from another."""
        from exactness.virtual import configurations

        if not runs(self, context, evidence):
            return
        count = 0
        for name, kernel in self.kernels.items():
            for configuration in configurations(kernel):
                count += 1
                with configuration:
                    self._compare(context, evidence, f"{name} {configuration}: ")
        evidence.note(f"{count} configurations compared")

    def _compare(self, context: Context, evidence: Evidence, note: str) -> None:
        for case in self.claim.cases:
            for family in _FAMILIES:
                label = f"{self.node_id}/{family}/{context.seed}"
                example = self.claim.inputs.example(label, family=family, **case)
                context.compare_kernel(evidence, self.claim, example, note=note)
                if evidence.failed and not evidence.reproduction:
                    evidence.reproduction = reproduction(self, example)
