"""What depends on one register of a kernel, as tables over that register's patterns.

A register that an edit cannot change may be the root of a table: one of 16 bits with all its
patterns, one of 32 with a sample. What is computed from one root alone is a table, too, with the
edit and without; so a difference can be followed until it ends or leaves the tables.
"""

from __future__ import annotations

import numpy as np

from exactness.virtual.edited import EditedKernel, narrowing, registers_read
from exactness.virtual.operation import Elementwise, Operation
from exactness.virtual.state import Bits

_NOWHERE, _CONSTANT = -1, -2
"""Origins of what is no function of one register, and of none."""

PATTERNS: Bits = np.arange(1 << 16, dtype=np.uint16)[None, :]
"""All of 16 bits."""


class Tables:
    """Tables of an edited kernel, made when they are needed."""

    def __init__(self, kernel: EditedKernel, sample: Bits | None) -> None:
        """Tables over 16-bit registers, and if there is a sample, u32 [1, count], over 32-bit."""
        self._kernel, self._sample = kernel, sample
        self._origins: dict[int, int] = {}
        self._values: dict[int, tuple[Bits, Bits]] = {}
        self._expressions: dict[int, int] = {}
        self._downstream = self._reached()

    def escaping(self, edited: Operation) -> dict[int, Bits] | None:
        """Follow the difference that an edited operation makes.

        Returns:
            Width of a root to its patterns, 1-D, for which the difference leaves the tables; empty
            if it always ends in them; None if the operation's result is in none.
        """
        if self._origin(edited.targets[0]) == _NOWHERE:
            return None
        pending, seen = [edited], set[int]()
        found: dict[int, Bits] = {}
        while pending:
            operation = pending.pop()
            before, after = self._table(operation.targets[0])
            differs = np.ravel(before != after)
            if id(operation) in seen or not differs.any():
                continue
            seen.add(id(operation))
            inside, outside = self._readers(operation)
            pending += inside
            escapes = np.zeros_like(differs)
            for reader in outside:
                escapes |= self._differs_for(reader, before, after)
            if escapes.any():
                width, patterns = self._patterns(operation.targets[0], escapes)
                known = found.get(width)
                found[width] = patterns if known is None else np.union1d(known, patterns)
        return found

    def _differs_for(self, reader: Operation | None, before: Bits, after: Bits) -> Bits:
        """Where a reader whose result is in no table gets something else.

        A conversion that packs two values is one: it has two roots, but treats each alike.
        """
        convert = narrowing(reader)
        if convert is not None:
            with np.errstate(all="ignore"):
                before, after = convert(before), convert(after)
        return np.ravel(before != after)

    def shape(self, edited: Operation) -> int:
        """The same for operations that are computed, and whose results are used, alike."""
        pending, parts = [edited], dict[int, int]()
        while pending:
            operation = pending.pop()
            if id(operation) not in parts:
                inside, outside = self._readers(operation)
                pending += inside
                names = frozenset(r.instruction.name if r else "" for r in outside)
                parts[id(operation)] = hash((self._expression(operation.targets[0]), names))
        return hash(frozenset(parts.values()))

    def _readers(self, operation: Operation) -> tuple[list[Operation], list[Operation | None]]:
        """The readers of a result whose own results are in tables, and the others."""
        readers = self._kernel.readers.get(operation.targets[0], [])
        inside: list[Operation] = [
            reader
            for reader in readers
            if isinstance(reader, Elementwise)
            and len(reader.targets) == 1
            and self._origin(reader.targets[0]) != _NOWHERE
        ]
        return inside, [reader for reader in readers if reader not in inside]

    def _patterns(self, register: int, chosen: Bits) -> tuple[int, Bits]:
        """The width and the patterns of a register's root; a constant stands for itself."""
        origin = self._origin(register)
        if origin == _CONSTANT:
            return 32, np.ravel(self._table(register)[1]).astype(np.uint32)
        width = self._kernel.program.builder.widths[origin]
        return width, np.ravel(self._inputs(width))[chosen]

    def _inputs(self, width: int) -> Bits:
        if width == 16:
            return PATTERNS
        assert self._sample is not None
        return self._sample

    def _reached(self) -> set[int]:
        """Registers that the edit may change."""
        kernel = self._kernel
        reached: set[int] = set()
        size = -1
        while size < len(reached):
            size = len(reached)
            for operation in kernel.operations():
                edited = id(operation) in kernel.originals
                if edited or not reached.isdisjoint(registers_read(operation)):
                    reached.update(operation.targets)
        return reached

    def _origin(self, register: int) -> int:
        """The root that a register is a function of."""
        if register not in self._origins:
            self._origins[register] = _NOWHERE  # for loops, which lead back here
            self._origins[register] = self._found_origin(register)
        return self._origins[register]

    def _found_origin(self, register: int) -> int:
        builder = self._kernel.program.builder
        if register in builder.literals:
            return _CONSTANT
        width, given = builder.widths[register], register not in self._downstream
        origin = self._origin_of_writer(register)
        if given and width == 16 and origin != _CONSTANT:
            return register  # all patterns are tried, wherever they come from
        if given and width == 32 and origin == _NOWHERE and self._sample is not None:
            return register
        return origin

    def _origin_of_writer(self, register: int) -> int:
        kernel = self._kernel
        writer = kernel.writers.get(register, [None])[0]
        if not kernel.is_single(register) or not isinstance(writer, Elementwise):
            return _NOWHERE
        before = kernel.originals.get(id(writer), writer)
        origins = {self._origin(source) for source in (*before.sources, *writer.sources)}
        roots = origins - {_CONSTANT}
        if len(roots) > 1 or len(writer.targets) > 1:
            return _NOWHERE
        return next(iter(roots), _CONSTANT)

    def _table(self, register: int) -> tuple[Bits, Bits]:
        """The values of a register whose origin is known, without the edit and with it."""
        if register not in self._values:
            with np.errstate(all="ignore"):
                self._values[register] = self._evaluated(register)
        return self._values[register]

    def _evaluated(self, register: int) -> tuple[Bits, Bits]:
        kernel = self._kernel
        builder = kernel.program.builder
        if register in builder.literals:
            return builder.literals[register], builder.literals[register]
        if self._origin(register) == register:
            inputs = self._inputs(builder.widths[register])
            return inputs, inputs
        writer = kernel.writers[register][0]
        assert isinstance(writer, Elementwise)
        after = writer.function(*(self._table(source)[1] for source in writer.sources))
        if register not in self._downstream:
            return after, after
        before = kernel.originals.get(id(writer), writer)
        return before.function(*(self._table(source)[0] for source in before.sources)), after

    def _expression(self, register: int) -> int:
        """A hash of how a register is computed from its root."""
        if register not in self._expressions:
            self._expressions[register] = self._hashed(register)
        return self._expressions[register]

    def _hashed(self, register: int) -> int:
        kernel = self._kernel
        builder = kernel.program.builder
        if register in builder.literals:
            return hash((builder.widths[register], builder.literals[register].tobytes()))
        origin = self._origin(register)
        if origin in (_NOWHERE, register):
            return hash((builder.widths[register], origin == _NOWHERE))
        writer = kernel.writers[register][0]
        before = kernel.originals.get(id(writer), writer)
        sides = [
            (each.instruction.name, tuple(self._expression(source) for source in each.sources))
            for each in (before, writer)
        ]
        return hash(tuple(sides))
