"""Inputs that tell apart the contracts which explain the same outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness.bits import Bits
from exactness.compare import Verdict, compare
from exactness.errors import UsageError
from exactness.inputs import TensorDraw
from exactness.inputs.patterns import FAMILIES, seed_of
from exactness.inputs.spec import Tensor
from exactness.which.contracts import Finding
from exactness.which.rows import Rows
from exactness.writing import write_atomically

ROWS = 16
"""Rows of the drawn inputs at most, where rows are independent."""

SEEDS = 2
"""Draws of each family of patterns."""


@dataclass(frozen=True)
class Drawn:
    """Inputs in the shapes and formats of the user's, filled anew.

    Attributes:
        family: the family of patterns.
        arguments: tensors and parameters.
        names: the tensors that were drawn; integer tensors stay the user's.
    """

    family: str
    arguments: Mapping[str, Any]
    names: tuple[str, ...]

    def write(self, path: Path) -> None:
        """Write tensors and parameters as a .safetensors file, without replacing one.

        Raises:
            UsageError: the file exists.
        """
        from safetensors.torch import save

        if path.exists():
            raise UsageError(f"{path} exists; name another file")
        tensors = {name: each for name, each in self.arguments.items() if isinstance(each, Bits)}
        metadata = {k: json.dumps(v) for k, v in self.arguments.items() if k not in tensors}
        data = save({name: bits.torch() for name, bits in tensors.items()}, metadata=metadata)
        write_atomically(path, data)


@dataclass(frozen=True)
class Groups:
    """Contracts grouped by their bits on some inputs.

    Attributes:
        names: the contracts of each group.
        differing: for each group, elements that differ from the first group's.
        compared: elements of the outputs compared.
    """

    names: tuple[tuple[str, ...], ...]
    differing: tuple[int, ...]
    compared: int


@dataclass(frozen=True)
class Apart:
    """What would tell contracts apart that explain the same outputs.

    Attributes:
        drawn: the inputs that make the most groups; None if none makes more than one.
        groups: the groups they make.
        other_outputs: outputs that the user's file lacks and on which contracts of one group
            differ.
        examples: inputs tried.
        elements: elements of the outputs compared, for each contract.
    """

    drawn: Drawn | None
    groups: Groups
    other_outputs: tuple[str, ...]
    examples: int
    elements: int


def apart(explaining: Sequence[Finding], seed: int = 0) -> Apart:
    """Draw inputs in the shapes and formats of the user's until all contracts differ.

    Args:
        explaining: at least two contracts that explain the same outputs.
        seed: added to every seed.
    """
    first = explaining[0]
    seen = tuple(name for name in first.diffs if all(name in each.diffs for each in explaining))
    unseen: set[str] = set()
    best: tuple[Drawn | None, Groups] | None = None
    examples = elements = 0
    for drawn in _draws(explaining, seed):
        outputs = [_outputs(each, drawn) for each in explaining]
        groups = _groups(explaining, outputs, seen)
        examples, elements = examples + 1, elements + groups.compared
        if best is None or len(groups.names) > len(best[1].names):
            best = (drawn if len(groups.names) > 1 else None), groups
        if len(groups.names) == len(explaining):
            break
        unseen |= set(_telling(explaining, outputs, seen, groups))
    assert best is not None
    whole = len(best[1].names) == len(explaining)
    return Apart(*best, () if whole else tuple(sorted(unseen)), examples, elements)


def _draws(explaining: Sequence[Finding], seed: int) -> Iterator[Drawn]:
    """Every family in turn, in all tensors that any of the contracts takes."""
    arguments = _some_rows(explaining)
    floats = {
        name: tensor
        for each in explaining
        for name, tensor in each.contract.claim.inputs.tensors.items()
        if isinstance(tensor, Tensor)
    }
    for number in range(SEEDS):
        for family in FAMILIES:
            drawn = {
                name: _draw(tensor, arguments[name], family, f"{family}/{name}/{number}", seed)
                for name, tensor in floats.items()
            }
            yield Drawn(family, {**arguments, **drawn}, tuple(floats))


def _some_rows(explaining: Sequence[Finding]) -> dict[str, Any]:
    """The arguments of all contracts together, cut if one of them takes them all."""
    together = {name: value for each in explaining for name, value in each.arguments.items()}
    most = max(explaining, key=lambda each: len(each.arguments))
    whole = most.arguments.keys() >= together.keys()
    return {**together, **(Rows.of(most, ROWS).arguments if whole else {})}


def _draw(tensor: Tensor, like: Bits, family: str, label: str, seed: int) -> Bits:
    held = family if family in tensor.accepted else tensor.accepted[0]
    draw = TensorDraw(like.format.name, like.shape, held, seed_of(label) + seed)
    return Bits(draw.patterns(), like.format)


def _outputs(finding: Finding, drawn: Drawn) -> dict[str, Bits]:
    """A contract's bits, under its own values of parameters that the others do not have."""
    return finding.contract.outputs(
        {name: drawn.arguments.get(name, given) for name, given in finding.arguments.items()}
    )


def _groups(
    explaining: Sequence[Finding], outputs: Sequence[Mapping[str, Bits]], seen: Sequence[str]
) -> Groups:
    groups: list[tuple[Mapping[str, Bits], list[str]]] = []
    for finding, bits in zip(explaining, outputs, strict=True):
        for held, names in groups:
            if not _differing(held, bits, seen):
                names.append(finding.contract.name)
                break
        else:
            groups.append((bits, [finding.contract.name]))
    first = groups[0][0]
    return Groups(
        tuple(tuple(names) for _, names in groups),
        tuple(_differing(bits, first, seen) for bits, _ in groups),
        sum(first[name].patterns.size for name in seen),
    )


def _differing(one: Mapping[str, Bits], other: Mapping[str, Bits], names: Sequence[str]) -> int:
    diffs = [compare(one[name], other[name]) for name in names]
    differ = [diff for diff in diffs if diff.verdict is Verdict.DIFFERENT]
    return sum(max(diff.mismatches, 1) for diff in differ)


def _telling(
    explaining: Sequence[Finding],
    outputs: Sequence[Mapping[str, Bits]],
    seen: Sequence[str],
    groups: Groups,
) -> Iterator[str]:
    """Outputs that the user's file lacks and that split a group."""
    by_name = {each.contract.name: out for each, out in zip(explaining, outputs, strict=True)}
    for names in groups.names:
        first = by_name[names[0]]
        for other in (by_name[name] for name in names[1:]):
            common = [name for name in first if name in other and name not in seen]
            yield from (name for name in common if _differing(first, other, [name]))
