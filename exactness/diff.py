"""Compare two files of tensors, name by name: the data behind `exactness diff`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from exactness.bits import Bits
from exactness.compare import BitDiff, Verdict, compare
from exactness.files import TensorFile, UnreadableError, open_tensors

FAMILY = 3
"""From how many equal tensors on a family of dumps is suspect."""

PIECE = 1 << 18
"""Elements compared at a time when looking for such families."""

__all__ = ["FileDiff", "Stale", "TensorDiff", "UnreadableError", "diff_files", "stale_families"]


@dataclass(frozen=True, slots=True)
class TensorDiff:
    """One tensor of both files.

    Attributes:
        name: its name, as the expected file calls it.
        diff: what the comparison found.
    """

    name: str
    diff: BitDiff


@dataclass(frozen=True, slots=True)
class Stale:
    """Tensors of one file whose names differ in numbers only and whose bits are all the same.

    Dumps of layer after layer look so when every one of them shows the last buffer, for example
    under CUDA graph capture: the dump is not live, and comparing it shows little.

    Attributes:
        path: the file.
        names: the tensors, in file order.
    """

    path: Path
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """What a comparison of two files found.

    Attributes:
        actual: the file under test.
        expected: the file it is held against.
        same_file: both paths name one file; nothing was compared.
        tensors: the tensors in both files, in the order of the expected file.
        missing: names in the expected file only.
        extra: names in the actual file only.
        skipped: entries of either file that are not tensors and were not compared.
        stale: families of tensors that look like dumps of one buffer.
    """

    actual: Path
    expected: Path
    same_file: bool = False
    tensors: tuple[TensorDiff, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    stale: tuple[Stale, ...] = ()

    @property
    def first_diverging(self) -> TensorDiff | None:
        """The first tensor, in file order, that differs."""
        return next((each for each in self.tensors if _differs(each)), None)

    @property
    def diverging(self) -> int:
        """How many tensors differ."""
        return sum(map(_differs, self.tensors))

    @property
    def elements(self) -> int:
        """Pairs of elements compared."""
        return sum(each.diff.elements for each in self.tensors)

    @property
    def mismatches(self) -> int:
        """Pairs of elements that differ."""
        return sum(each.diff.mismatches for each in self.tensors)

    @property
    def verdict(self) -> Verdict:
        """Different if a tensor or the sets of names are; vacuous if nothing was compared."""
        if self.missing or self.extra or self.first_diverging:
            return Verdict.DIFFERENT
        return Verdict.EQUAL if self.elements and not self.same_file else Verdict.VACUOUS


def _differs(tensor: TensorDiff) -> bool:
    return tensor.diff.verdict is Verdict.DIFFERENT


def diff_files(
    actual: Path | str,
    expected: Path | str,
    *,
    zero_signs: bool = True,
    nan_payloads: bool = False,
) -> FileDiff:
    """Compare two files of tensors bit by bit.

    Tensors are matched by name. A file whose only tensor has no name (.npy, a bare tensor in a
    .pt) is matched with the only tensor of the other file.

    Args:
        actual: .safetensors, .npz, .npy or .pt file under test.
        expected: the file to hold it against; it may be of another kind.
        zero_signs: +0 and −0 are a mismatch.
        nan_payloads: NaN with different patterns are a mismatch.

    Raises:
        UnreadableError: a file cannot be read as tensors.
    """
    actual, expected = Path(actual), Path(expected)
    left, right = open_tensors(actual), open_tensors(expected)
    if actual.samefile(expected):
        return FileDiff(actual=actual, expected=expected, same_file=True)
    partners = _partners(left, right)
    tensors = tuple(
        TensorDiff(
            name,
            compare(left[partner], right[name], zero_signs=zero_signs, nan_payloads=nan_payloads),
        )
        for name, partner in partners.items()
    )
    return FileDiff(
        actual=actual,
        expected=expected,
        tensors=tensors,
        missing=tuple(name for name in right if name not in partners),
        extra=tuple(name for name in left if name not in partners.values()),
        skipped=tuple(dict.fromkeys(left.skipped + right.skipped)),
        stale=stale_families(left) + stale_families(right),
    )


def _partners(left: TensorFile, right: TensorFile) -> dict[str, str]:
    """Expected name to actual name of every tensor in both files."""
    if len(left) == len(right) == 1 and not (left.named and right.named):
        return {next(iter(right)): next(iter(left))}
    return {name: name for name in right if name in left}


def stale_families(file: TensorFile) -> tuple[Stale, ...]:
    """Families of at least three equal tensors; constant tensors (zeros, ones) are no evidence."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in file:
        families[re.sub(r"\d+", "#", name)].append(name)
    return tuple(
        Stale(file.path, tuple(names))
        for names in families.values()
        if len(names) >= FAMILY and _one_buffer(file, names)
    )


def _one_buffer(file: TensorFile, names: list[str]) -> bool:
    first = file[names[0]]
    equal = all(_equal(file[name], first) for name in names[1:])
    return equal and not _constant(first.patterns)


def _equal(one: Bits, other: Bits) -> bool:
    if one.format != other.format or one.shape != other.shape:
        return False
    pairs = zip(_pieces(one.patterns), _pieces(other.patterns), strict=True)
    return all(np.array_equal(left, right) for left, right in pairs)


def _constant(patterns: np.ndarray) -> bool:
    return all((piece == patterns.flat[0]).all() for piece in _pieces(patterns))


def _pieces(patterns: np.ndarray) -> Iterator[np.ndarray]:
    """1-D pieces in memory order, so that unequal tensors are told apart early and cheaply."""
    flat = patterns.reshape(-1) if patterns.flags.c_contiguous else patterns.flat
    for start in range(0, patterns.size, PIECE):
        yield flat[start : start + PIECE]
