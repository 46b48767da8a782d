"""The benchmark's cases: those of the claims, and names that no claim covers yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exactness.bench.model import Amount
from exactness.catalogue import Catalogue, Entry
from exactness.claim import SEQUENCE, Bench, Work
from exactness.errors import UsageError
from exactness.inputs import Inputs
from exactness.inputs import dims as dimensions

PLANNED = "_benchmark:planned"
"""Where the folder of references may list cases without a claim, each with the reason."""

OWN = "triton"
"""The implementation of attention that a catalogue holds itself."""


@dataclass(frozen=True)
class Case:
    """A claim's kernel at one shape.

    Attributes:
        entry: the claim.
        bench: its benchmark case.
        tokens: tokens, or the length of the sequence.
    """

    entry: Entry
    bench: Bench
    tokens: int

    @property
    def name(self) -> str:
        """What selects it."""
        return self.bench.name

    @property
    def shape(self) -> str:
        """As the report names it."""
        return f"{self.bench.axis}={self.tokens}"

    @property
    def inputs(self) -> Inputs:
        """The space its arguments come from."""
        return self.bench.inputs or self.entry.claim.inputs

    @property
    def sizes(self) -> dict[str, int]:
        """Every size of the inputs."""
        given = self.bench.sizes
        tokens = {"tokens": self.tokens}
        return {name: dimensions.value(given[name], tokens) for name in self.inputs.sizes}

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter of the call."""
        given = self.bench.sizes
        defaults = self.inputs.defaults()
        return {name: given.get(name, value) for name, value in defaults.items()}

    @property
    def formats(self) -> dict[str, str]:
        """Every format that the inputs choose by name."""
        given = self.bench.sizes
        return {
            name: given.get(name, values[0].name) for name, values in self.inputs.formats.items()
        }

    @property
    def amount(self) -> Amount:
        """Logical bytes and operations of a call."""
        known = {**self.parameters, "tokens": self.tokens, **self.sizes}
        integers = {name: value for name, value in known.items() if isinstance(value, int)}
        return Amount(_work(self.bench.bytes, integers), _work(self.bench.flops, integers))


def _work(work: Work, known: Mapping[str, int]) -> int:
    return work(known) if callable(work) else dimensions.value(work, known)


@dataclass(frozen=True)
class Unsupported:
    """A case that does not run, and why.

    Attributes:
        name: the case.
        reason: one line.
        on_request: it runs when another option asks for it, and counts as no failure until then.
    """

    name: str
    reason: str
    on_request: bool = False


@dataclass(frozen=True)
class Selection:
    """What was asked for; see `exactness bench --help`."""

    names: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()
    sequences: tuple[int, ...] = ()
    attention: str = OWN
    large: bool = False


@dataclass(frozen=True)
class Cases:
    """The cases of a catalogue.

    Attributes:
        benches: name to the claim and its benchmark case.
        planned: name to why no claim covers it.
        names: every name, in the order of the list.
        broken: about kernel files that cannot be imported.
    """

    benches: Mapping[str, tuple[Entry, Bench]]
    planned: Mapping[str, str]
    names: tuple[str, ...]
    broken: tuple[str, ...] = ()

    @classmethod
    def of(cls, catalogue: Catalogue) -> Cases:
        """Read the catalogue.

        Raises:
            UsageError: two claims have a case of one name.
        """
        found: dict[str, tuple[Entry, Bench]] = {}
        for entry in catalogue.entries:
            for bench in entry.claim.bench:
                if bench.name in found:
                    other = found[bench.name][0].claim.name
                    raise UsageError(
                        f"bench case {bench.name!r} stands in both {other} and {entry.claim.name}"
                    )
                found[bench.name] = entry, bench
        planned = _planned(catalogue)
        missing = {name: why for name, why in planned.items() if name not in found}
        ordered = tuple(dict.fromkeys((*planned, *found)))
        return cls(found, missing, ordered, tuple(catalogue.broken.values()))

    def named(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """The names that were asked for, all if none is given.

        Raises:
            UsageError: a name is unknown.
        """
        unknown = [name for name in wanted if name not in self.names]
        if unknown:
            known = "; ".join((", ".join(self.names), *self.broken))
            raise UsageError(f"--cases: {unknown[0]!r} is unknown; known are {known}")
        return tuple(wanted) or self.names

    def select(self, wanted: Selection) -> list[Case | Unsupported]:
        """The cases that were asked for, all if no name is given.

        Raises:
            UsageError: a name is unknown; all are asked for and a kernel file is broken.
        """
        chosen = self.named(wanted.names)
        if self.broken and not wanted.names:
            raise UsageError(self.broken[0])
        return [each for name in chosen for each in self._cases(name, wanted)]

    def _cases(self, name: str, wanted: Selection) -> Iterator[Case | Unsupported]:
        if name in self.planned:
            yield Unsupported(name, self.planned[name])
            return
        entry, bench = self.benches[name]
        if bench.large and not wanted.large:
            asked = name in wanted.names
            yield Unsupported(name, f"{bench.large}; --include-oe runs it", on_request=not asked)
        elif bench.axis == SEQUENCE and wanted.attention != OWN:
            yield Unsupported(
                name, f"the catalogue has no {wanted.attention} kernel; --attention-impl {OWN} runs"
            )
        else:
            given = wanted.sequences if bench.axis == SEQUENCE else wanted.tokens
            yield from (Case(entry, bench, tokens) for tokens in given or bench.tokens)


def _planned(catalogue: Catalogue) -> Mapping[str, str]:
    file = catalogue.project.references / f"{PLANNED.partition(':')[0]}.py"
    if not file.is_file():
        return {}
    listed: Callable[[], Mapping[str, str]] = catalogue.reference(PLANNED)
    return listed()


def names(text: str | None, option: str) -> tuple[str, ...]:
    """What a list of names such as "qnorm,sinkhorn" means; nothing if it is not given.

    Raises:
        UsageError: a name is empty.
    """
    if text is None:
        return ()
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise UsageError(f"{option}: {text!r} is not accepted; names, as qnorm,sinkhorn, are")
    return parts


def numbers(text: str | None, option: str) -> tuple[int, ...]:
    """What a list of numbers such as "1,32,128" means; nothing if it is not given.

    Raises:
        UsageError: not numbers from 1 up.
    """
    if text is None:
        return ()
    parts: Sequence[str] = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"{option}: {text!r} is not accepted; numbers from 1 up, as 1,32,128, are")
    return tuple(int(part) for part in parts)
