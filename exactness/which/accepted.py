"""Whether a claim's kernel accepts given parameters: its own checks say so, and nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exactness.claim import GPU_ONLY, Claim
from exactness.which.fit import Misfit


def check_accepted(claim: Claim, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that the kernel refuses.

    It is called on the smallest tensors of the claim, which for most are empty: nothing is
    launched. Only an error whose message begins with the name of a parameter counts, as the
    errors of our launchers do; a kernel that says nothing about them is none the wiser.

    Args:
        claim: the claim.
        parameters: those that the user gave.

    Raises:
        Misfit: the kernel refuses one of them.
    """
    if not parameters or claim.runs_on == GPU_ONLY:
        return
    smallest: dict[str, Any] = {name: low for name, (low, _) in claim.inputs.sizes.items()}
    example = claim.inputs.example("accepted", **smallest)
    said = _refusal(claim, {**example.arguments("cpu"), **parameters})
    if said.startswith(tuple(f"{name}: " for name in parameters)):
        raise Misfit(said)


def _refusal(claim: Claim, arguments: Mapping[str, Any]) -> str:
    try:
        claim.call(arguments)
    except Exception as error:
        return " ".join(str(error).split())
    return ""
