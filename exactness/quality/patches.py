"""Which norms of a model are replaced, and by what: `--patch 'pattern=claim[:variant]'`."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exactness.catalogue import Catalogue
from exactness.claim import Claim, Variant
from exactness.errors import UsageError
from exactness.machines import Machine
from exactness.quality.legs import EXACT
from exactness.quality.models import LanguageModel
from exactness.quality.norms import Norm, scales_of
from exactness.quality.patched import Patched, check_claim


@dataclass(frozen=True)
class Patch:
    """One rule.

    Attributes:
        pattern: of the names of norms; `*` matches any text.
        claim: the claim whose arithmetic replaces them.
        variant: of the second leg; the claim's only one if None.
    """

    pattern: str
    claim: str
    variant: str | None = None

    @classmethod
    def parse(cls, text: str) -> Patch:
        """Read `pattern=claim[:variant]`.

        Raises:
            UsageError: it is written otherwise.
        """
        found = re.fullmatch(r"([^=]+)=(\w+)(?::(\w+))?", text)
        if found is None:
            raise UsageError(
                f"--patch {text!r}: pattern=claim or pattern=claim:variant is accepted"
            )
        return cls(*found.groups())

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.pattern}={self.claim}" + (f":{self.variant}" if self.variant else "")


USUAL = tuple(
    Patch(pattern, "qnorm")
    for pattern in (
        "*.q_norm",
        "*.k_norm",
        "*.q_a_norm",
        "*.q_b_norm",
        "*.kv_norm",
        "*.q_a_layernorm",
        "*.kv_a_layernorm",
        "*.query_layernorm",
        "*.key_layernorm",
    )
)
"""Norms of queries and keys in Qwen3, Gemma, DeepSeek and Hunyuan models of transformers."""


def chosen(norms: Mapping[str, Norm], patches: Sequence[Patch]) -> dict[str, Patch]:
    """The first rule that matches each norm, by its name.

    Args:
        norms: of the model.
        patches: the rules; the usual ones if there are none.

    Raises:
        UsageError: a given rule, or all usual ones, match nothing.
    """
    for patch in patches:
        if not fnmatch.filter(norms, patch.pattern):
            raise UsageError(f"--patch {patch}: no norm matches; {_named(norms)}")
    found: dict[str, Patch] = {}
    for patch in patches or USUAL:
        for name in fnmatch.filter(norms, patch.pattern):
            found.setdefault(name, patch)
    if not found:
        patterns = ", ".join(patch.pattern for patch in USUAL)
        raise UsageError(f"no norm matches {patterns}; {_named(norms)}; give --patch")
    return {name: found[name] for name in norms if name in found}


def _named(norms: Mapping[str, Norm]) -> str:
    """The names with their numbers left out."""
    if not norms:
        return "the model has no RMS norm that can be replaced"
    names = dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) for name in norms)
    return f"the model's norms are {', '.join(names)}"


def bound(
    model: LanguageModel, patches: Sequence[Patch], catalogue: Catalogue, machine: Machine
) -> list[Patched]:
    """The norms to replace, each with its claim.

    Args:
        model: whose norms.
        patches: the rules; the usual ones if there are none.
        catalogue: of claims.
        machine: runs kernels; where it refuses one, the reference stands for it.

    Raises:
        UsageError: nothing matches, a claim is unknown, is no norm or not that of the model, no
            claim has a variant.
    """
    rules = chosen(model.norms, patches)
    claims = _claims(rules, catalogue)
    made = [
        _bind(model.norms[name], claims[patch.claim], patch, catalogue, machine)
        for name, patch in rules.items()
    ]
    for each, patch in zip(made, rules.values(), strict=True):
        _check_scale(each, patch, model)
    if all(each.variant is None for each in made):
        names = ", ".join(claims)
        raise UsageError(f"nothing to compare: no opt-in variant in claim {names}")
    return made


def _claims(rules: Mapping[str, Patch], catalogue: Catalogue) -> dict[str, Claim]:
    """The claims that rules name.

    Raises:
        UsageError: one is not in the catalogue.
    """
    known = {entry.claim.name: entry.claim for entry in catalogue.entries}
    for patch in rules.values():
        if patch.claim not in known:
            raise UsageError(_unknown(patch, catalogue, known))
    return {patch.claim: known[patch.claim] for patch in rules.values()}


def _unknown(patch: Patch, catalogue: Catalogue, known: Mapping[str, Claim]) -> str:
    """Why there is no such claim, and what to do."""
    where = f"in the catalogue of {catalogue.project.root}"
    what = f"claim {patch.claim!r} is unknown {where}"
    broken = list(catalogue.broken.values())
    if broken:
        more = f" (one of {len(broken)})" if len(broken) > 1 else ""
        return f"{what}; {broken[0]}{more}"
    if patch in USUAL:
        return (
            f"without --patch, claim {patch.claim} replaces the norms, and there is none {where}; "
            "run in a checkout of exactness, name one by --project, or give --patch"
        )
    return f"{what}; known are {', '.join(known) or 'none'}"


def _bind(
    norm: Norm, claim: Claim, patch: Patch, catalogue: Catalogue, machine: Machine
) -> Patched:
    check_claim(claim)
    if "weight" in claim.inputs.tensors and norm.weight is None:
        raise UsageError(f"claim {claim.name} multiplies by a weight; {norm.name} has none")
    variant = _variant(claim, patch)
    reference = catalogue.reference(claim.reference)
    opted = catalogue.reference(variant.reference) if variant else reference
    runs = None if machine.refuses(claim) else machine
    return Patched(norm, claim, runs, reference, variant, opted)


def _check_scale(patched: Patched, patch: Patch, model: LanguageModel) -> None:
    """Compare what the claim makes of a row with what the model's norm makes of it.

    Raises:
        UsageError: the claim multiplies by something else, or computes no RMS norm.
    """
    import torch

    norm, dtype = patched.norm, getattr(torch, model.dtype)
    exact = functools.partial(patched.normalised, leg=EXACT)
    found = scales_of(exact, norm.weight, dtype, model.device)
    if norm.scale not in found:
        does = f"multiplies by {found[0].value}" if found else "computes no RMS norm of rows"
        raise UsageError(
            f"--patch {patch}: claim {patched.claim.name} {does}; {norm.name} is an RMS norm that "
            f"multiplies by {norm.scale.value}"
        )


def _variant(claim: Claim, patch: Patch) -> Variant | None:
    if patch.variant is None:
        return claim.variants[0] if claim.variants else None
    try:
        return claim.variant(patch.variant)
    except KeyError as error:
        raise UsageError(f"--patch {patch}: {error.args[0]}") from None
