"""A run of checks over a project: what pytest and the command line have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness import environment
from exactness.catalogue import Catalogue, Entry
from exactness.checks import Check, Context, plan
from exactness.checks.golden import GoldenCheck
from exactness.checks.mutants import SAMPLE
from exactness.errors import UsageError
from exactness.golden import GoldenStore
from exactness.machines import choose
from exactness.project import Project
from exactness.report.schema import Report

EXAMPLES = 100
"""Hypothesis examples of a property check, unless asked otherwise."""


def number_of_mutants(text: str | None) -> int | None:
    """What an option of mutants means: a number, "all" (None) or nothing (the default sample).

    Raises:
        UsageError: neither a number nor "all".
    """
    if text is None:
        return SAMPLE
    if text == "all":
        return None
    if not text.isdecimal():
        raise UsageError(f"mutants: {text!r} is not accepted; a number or all is")
    return int(text)


@dataclass(frozen=True)
class Session:
    """A project's catalogue, its recordings and the machine that runs its kernels."""

    project: Project
    context: Context

    @classmethod
    def open(
        cls,
        project: Project,
        *,
        device: str = "auto",
        examples: int = EXAMPLES,
        mutants: int | None = SAMPLE,
        seed: int = 0,
        golden: Path | None = None,
    ) -> Session:
        """Open a session.

        Args:
            project: the project.
            device: "auto", "cpu" or "cuda".
            examples: Hypothesis examples of a property check, at least 1.
            mutants: how many mutants of a claim are judged, at least 1; None for all.
            seed: added to all seeds.
            golden: a single recording file in place of the project's folder.

        Raises:
            UsageError: something is missing, or this process flushes subnormals.
        """
        if examples < 1:
            raise UsageError(f"examples: {examples} is not accepted; at least 1 is")
        if mutants is not None and mutants < 1:
            raise UsageError(f"mutants: {mutants} is not accepted; at least 1 or all is")
        if environment.subnormals_are_flushed():
            raise UsageError(
                "this process flushes subnormals to zero (torch.set_flush_denormal, or a library "
                "built with -ffast-math): no reference is right here; switch it off"
            )
        store = GoldenStore([golden]) if golden else GoldenStore.of_folder(project.golden)
        context = Context(Catalogue(project), store, choose(device), examples, mutants, seed)
        return cls(project, context)

    @property
    def entries(self) -> list[Entry]:
        """All claims of the catalogue.

        Raises:
            UsageError: a kernel file cannot be imported.
        """
        return self.context.catalogue.select(())

    def checks(self, entry: Entry) -> list[Check]:
        """All checks of a claim."""
        return plan(entry, self.context)

    def replays(self, entries: Sequence[Entry]) -> list[Check]:
        """The recorded cases of the given claims alone.

        Raises:
            UsageError: there is none.
        """
        store = self.context.golden
        found: list[Check] = [
            GoldenCheck(entry, case)
            for entry in entries
            for case in store.cases(tuple(entry.claim.golden))
        ]
        if not found:
            wanted = ", ".join(entry.claim.name for entry in entries)
            held = ", ".join(store.prefixes()) or "no cases"
            raise UsageError(f"no recorded case of {wanted}: the recording holds {held}")
        return found

    def report(self, outcomes: Iterable[dict[str, Any]], deselected: int = 0) -> Report:
        """A report of finished checks."""
        outcomes = list(outcomes)
        checked = {outcome["claim"] for outcome in outcomes}
        catalogue = self.context.catalogue
        return Report(
            environment.collect(self.project.root).to_dict(),
            self.context.machine.name,
            outcomes,
            sources={
                entry.claim.name: catalogue.source_hash(entry)
                for entry in catalogue.entries
                if entry.claim.name in checked
            },
            variants_on=self.variants_on(),
            broken=list(catalogue.broken.values()),
            unclaimed=self.unclaimed(),
            deselected=deselected,
        )

    def variants_on(self) -> list[str]:
        """Opt-in variants that the environment switches on, as `qnorm f32_acc`."""
        return [
            f"{entry.claim.name} {variant.name} ({variant.env}=1)"
            for entry in self.context.catalogue.entries
            for variant in entry.claim.variants
            if variant.enabled
        ]

    def unclaimed(self) -> dict[str, int]:
        """Prefixes of recordings that no claim names, and their cases.

        Raises:
            UsageError: a claim of that very name exists and does not read them.
        """
        entries = self.context.catalogue.entries
        claimed = {prefix for entry in entries for prefix in entry.claim.golden}
        rest = {p: n for p, n in self.context.golden.prefixes().items() if p not in claimed}
        for entry in entries:
            if entry.claim.name in rest:
                raise UsageError(
                    f"{rest[entry.claim.name]} recorded cases under {entry.claim.name!r} are read "
                    f"by no check: claim {entry.claim.name} does not name the prefix in `golden`"
                )
        return rest
