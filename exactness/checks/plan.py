"""Which checks a claim gets; the same list for pytest and the command line."""

from __future__ import annotations

from exactness.catalogue import Entry
from exactness.checks import witnesses
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import CaseCheck, PropertyCheck, VariantCheck
from exactness.checks.codegen import CodegenCheck
from exactness.checks.configurations import ConfigurationsCheck, autotuned_kernels
from exactness.checks.controls import ControlsCheck
from exactness.checks.exhaustive import ExhaustiveCheck
from exactness.checks.golden import GoldenCheck
from exactness.checks.invariance import InvarianceCheck
from exactness.checks.kernel_mutants import KernelMutantsCheck
from exactness.checks.missing import MissingGoldenCheck
from exactness.checks.mutants import MutantsCheck
from exactness.checks.witness import WitnessCheck
from exactness.claim import GPU


def plan(entry: Entry, context: Context) -> list[Check]:
    """All checks of a claim, in the order in which they are most telling."""
    claim = entry.claim
    prefixes = tuple(claim.golden)
    cases = context.golden.cases(prefixes)
    recorded = {case.prefix for case in cases}
    checks: list[Check] = [GoldenCheck(entry, case) for case in cases]
    checks += [MissingGoldenCheck(entry, prefix) for prefix in prefixes if prefix not in recorded]
    checks += [CaseCheck(entry, case) for case in claim.cases]
    checks.append(PropertyCheck(entry))
    checks += [VariantCheck(entry, variant) for variant in claim.variants]
    if witnesses.path_of(context.catalogue.project, claim.name).is_file():
        checks.append(WitnessCheck(entry))
    checks += [ExhaustiveCheck(entry, exhaustive) for exhaustive in claim.exhaustive]
    tuned = autotuned_kernels(claim)
    if tuned:
        checks.append(ConfigurationsCheck(entry, tuned))
    checks += [InvarianceCheck(entry), ControlsCheck(entry), MutantsCheck(entry)]
    if claim.runs_on == GPU:
        checks += [CodegenCheck(entry), KernelMutantsCheck(entry)]
    return checks
