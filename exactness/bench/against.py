"""What a kernel is compared with in the same run: the chain it replaces, compilers, libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from exactness.bench.cases import Case, Cases
from exactness.bench.measure import Subject
from exactness.catalogue import Catalogue
from exactness.errors import UsageError

CHAIN = "chain"
"""The comparator that runs a claim's chain of operations in torch eager."""

COMPILE = "compile"
"""The same chain under `torch.compile`."""


def check_names(cases: Cases, names: Sequence[str]) -> None:
    """Refuse a comparator that no case of the catalogue names.

    Raises:
        UsageError: a name is unknown.
    """
    found = {name for _, bench in cases.benches.values() for name in bench.against}
    known = [*sorted(found), *([COMPILE] if CHAIN in found else [])]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"--against: {unknown[0]!r} is unknown; known are {', '.join(known) or 'none'}"
        )


def comparators(catalogue: Catalogue, case: Case, names: Sequence[str]) -> Iterator[Subject]:
    """The comparators that a case has.

    Args:
        catalogue: finds the functions.
        case: the case.
        names: which; `COMPILE` is made from the case's chain.
    """
    for name in names:
        address = case.bench.against.get(CHAIN if name == COMPILE else name)
        if address is not None:
            run = catalogue.reference(address)
            yield Subject(name, case.entry.claim, _compiled(run) if name == COMPILE else run)


def _compiled(chain: Callable[..., Any]) -> Callable[..., Any]:
    """The chain for one shape: shapes that vary would cost it speed."""
    import torch

    torch.compiler.reset()
    compiled: Callable[..., Any] = torch.compile(chain, dynamic=False)
    return compiled
