"""Run cases one after the other: draw arguments, run the reference, time, account, compare."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from exactness.bench.against import CHAIN, comparators
from exactness.bench.buffers import ArgumentSet, draw_sets, set_bytes
from exactness.bench.cases import Case, Unsupported
from exactness.bench.device import Device
from exactness.bench.floors import Floors
from exactness.bench.launches import Accounting, account
from exactness.bench.measure import GRAPH_CALLS, Effort, Subject, measure
from exactness.bench.schema import Compared, Row, State
from exactness.catalogue import Catalogue

MEMORY = 4 << 30
"""Bytes that all sets of arguments of a case may take."""


@dataclass(frozen=True)
class Request:
    """What is asked of each case.

    Attributes:
        effort: how often things are timed.
        seed: added to every seed.
        against: comparators.
        launches: whether launches, allocations and copies are counted.
    """

    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    against: tuple[str, ...] = ()
    launches: bool = False


class Runner:
    """Measures cases on one device."""

    def __init__(self, catalogue: Catalogue, device: Device, request: Request) -> None:
        self._catalogue, self._device, self._request = catalogue, device, request
        self.floors = Floors(device, request.effort)

    def run(self, case: Case | Unsupported) -> Row:
        """One row; an exception becomes a row of state ERROR."""
        if isinstance(case, Unsupported):
            state = State.ON_REQUEST if case.on_request else State.UNSUPPORTED
            return Row(case.name, state, reason=case.reason)
        reason = self._device.refuses(case.entry.claim)
        if reason:
            return self._row(case, State.UNSUPPORTED, reason=reason)
        try:
            return self._measured(case)
        except Exception as error:
            return self._row(case, State.ERROR, reason=_one_line(error))
        finally:
            gc.collect()
            self._device.empty_cache()

    def _measured(self, case: Case) -> Row:
        sets = self._sets(case)
        kernel = Subject.kernel(case.entry.claim)
        measured = measure(self._device, kernel, sets, self._request.effort)
        launches = self._launches(case, kernel, sets[0]) if self._request.launches else {}
        against = [
            self._compared(found, sets)
            for found in comparators(self._catalogue, case, self._request.against)
        ]
        return self._row(
            case,
            State.MEASURED if measured.bits.right else State.WRONG_BITS,
            measured=measured,
            copy=self.floors.copy(case.amount.bytes, len(sets)),
            against=against,
            launches=launches,
        )

    def _sets(self, case: Case) -> list[ArgumentSet]:
        """As many sets of arguments as a graph has calls, fewer if they are large."""
        room = min(MEMORY, self._device.free_bytes() // 4)
        count = max(2, min(GRAPH_CALLS, room // max(set_bytes(case), 1)))
        program = self._catalogue.reference(case.entry.claim.reference)
        return draw_sets(case, program, count, self._device.place, self._request.seed)

    def _compared(self, found: Subject, sets: Sequence[ArgumentSet]) -> Compared:
        """A comparator that cannot run says why; it is not the kernel's failure."""
        try:
            return Compared(found.name, measure(self._device, found, sets, self._request.effort))
        except ImportError as error:
            return Compared(found.name, reason=f"not installed ({error})")
        except Exception as error:
            return Compared(found.name, reason=_one_line(error))

    def _launches(self, case: Case, kernel: Subject, given: ArgumentSet) -> dict[str, Accounting]:
        """Of the kernel, and of the chain it replaces."""
        found = {"kernel": account(self._device, kernel.call(given.arguments))}
        for chain in comparators(self._catalogue, case, (CHAIN,)):
            found[chain.name] = account(self._device, chain.call(given.arguments))
        given.restore()
        return found

    def _row(self, case: Case, state: State, **rest: Any) -> Row:
        claim = case.entry.claim
        root = self._catalogue.project.root
        return Row(
            case=case.name,
            state=state,
            shape=case.shape,
            claim=claim.name,
            kernel=getattr(getattr(claim.kernel, "func", claim.kernel), "__name__", claim.name),
            source=str(case.entry.file.relative_to(root)),
            source_hash=self._catalogue.source_hash(case.entry),
            given={**case.sizes, **case.parameters, **case.formats},
            amount=case.amount,
            **rest,
        )


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
