"""Edits of a kernel that change nothing, proved by trying all inputs.

Where a value depends on a single 16-bit register, it is a table of 65,536 entries. Every operation
between that register and the point where the edited kernel agrees with the original again is run on
the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exactness.virtual.edited import Before, EditedKernel, registers_read
from exactness.virtual.instructions import Entry
from exactness.virtual.operation import Elementwise
from exactness.virtual.state import Bits

_PATTERNS = 1 << 16


def proved_without_effect(edited: Entry, before: Before) -> bool:
    """Whether an edit changes nothing for any input, because only 16 bits reach it.

    Every operation between 16-bit registers and the point where the two programs agree again is
    run on all 65,536 patterns, as long as it depends on one such register alone.
    """
    return _Exhaustion(EditedKernel(edited, before)).agrees()


@dataclass(frozen=True, slots=True)
class _Column:
    """A register's value for every pattern of one 16-bit register.

    Attributes:
        root: that register; None for a constant.
        before: without the edit, (1, 65536) or (1, 1).
        after: with it.
    """

    root: int | None
    before: Bits
    after: Bits


class _Exhaustion:
    """Evaluates what depends on one 16-bit register, backward from the edit, then forward."""

    def __init__(self, graph: EditedKernel) -> None:
        self._graph = graph
        self._columns: dict[int, _Column | None] = {}
        self._patterns = np.arange(_PATTERNS, dtype=np.uint16)[None, :]
        self._downstream = self._reached()

    def agrees(self) -> bool:
        """Whether every difference ends before it reaches anything but a 16-bit function."""
        graph = self._graph
        pending = [op for op in graph.operations() if id(op) in graph.originals]
        seen: set[int] = set()
        with np.errstate(all="ignore"):
            while pending:
                operation = pending.pop()
                if id(operation) in seen:
                    continue
                seen.add(id(operation))
                column = self._column(operation.targets[0])
                if column is None or len(operation.targets) != 1:
                    return False
                if not np.array_equal(column.before, column.after):
                    readers = graph.readers.get(operation.targets[0], [])
                    if not all(isinstance(reader, Elementwise) for reader in readers):
                        return False
                    pending += [reader for reader in readers if reader is not None]
        return True

    def _reached(self) -> set[int]:
        """Registers that the edit may change."""
        graph = self._graph
        reached: set[int] = set()
        size = -1
        while size < len(reached):
            size = len(reached)
            for operation in graph.operations():
                edited = id(operation) in graph.originals
                if edited or not reached.isdisjoint(registers_read(operation)):
                    reached.update(operation.targets)
        return reached

    def _column(self, register: int) -> _Column | None:
        if register not in self._columns:
            self._columns[register] = None  # a loop leads back here: no function of one input
            self._columns[register] = self._evaluated(register)
        return self._columns[register]

    def _evaluated(self, register: int) -> _Column | None:
        graph = self._graph
        builder = graph.program.builder
        if register in builder.literals:
            literal = builder.literals[register]
            return _Column(None, literal, literal)
        if builder.widths[register] == 16 and register not in self._downstream:
            return _Column(register, self._patterns, self._patterns)
        writer = graph.writers.get(register, [None])[0]
        if not graph.is_single(register) or not isinstance(writer, Elementwise):
            return None
        before = graph.originals.get(id(writer), writer)
        old = [self._column(source) for source in before.sources]
        new = [self._column(source) for source in writer.sources]
        known = [column for column in (*old, *new) if column is not None]
        roots = {column.root for column in known} - {None}
        if len(known) < len(old) + len(new) or len(roots) > 1 or len(writer.targets) > 1:
            return None
        return _Column(
            next(iter(roots), None),
            before.function(*(column.before for column in old if column is not None)),
            writer.function(*(column.after for column in new if column is not None)),
        )
