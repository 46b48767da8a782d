"""Matrix descriptors of `wgmma`: where an operand's 16-byte pieces lie in shared memory.

An operand is made of pieces of 16 bytes. Where its rows run along K (K-major), a piece holds
consecutive k of one row or column; where they run along M or N (transposed, 16-bit elements only),
it holds 8 rows or columns of one k. A swizzle exchanges the pieces within spans of 32, 64 or 128
bytes: address bits 4 to 6 are combined with bits 7 to 9.

Source: PTX ISA 9.0, section 9.7.15.5.1 (shared memory matrix layout, matrix descriptor); the
canonical layouts are those of CUTLASS's `mma_sm90_desc.hpp`, checked against Triton's kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exactness.virtual.errors import UnsupportedInstructionError
from exactness.virtual.state import Bits

PIECE = 16
_SPANS = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of the spans that each swizzling mode permutes."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The fields of some warpgroups' descriptors, each an i64 array [units].

    Attributes:
        start: address of the first piece.
        leading: the leading dimension's byte offset.
        stride: the stride dimension's.
        span: bytes of the swizzle's spans, one number for all.
    """

    start: Bits
    leading: Bits
    stride: Bits
    span: int

    @classmethod
    def decode(cls, words: Bits) -> Descriptors:
        """Take 64-bit descriptors [units] apart.

        Raises:
            UnsupportedInstructionError: a base offset, or several swizzles at once.
        """
        modes = np.unique(words >> np.uint64(62))
        if ((words >> np.uint64(49)) & np.uint64(7)).any():
            raise UnsupportedInstructionError("a matrix descriptor's base offset is not modelled")
        if modes.size > 1:
            raise UnsupportedInstructionError("warpgroups that swizzle differently")

        def field(low: int) -> Bits:
            units = (words >> np.uint64(low)) & np.uint64(0x3FFF)
            return units.astype(np.int64) * 16

        return cls(field(0), field(16), field(32), _SPANS[int(modes[0])])

    def addresses(self, lines: int, pieces: int, *, transposed: bool) -> Bits:
        """Shared addresses of an operand's pieces, i64.

        Args:
            lines: rows or columns (M or N) of the operand.
            pieces: pieces along K, 2.
            transposed: whether the pieces run along M or N.

        Returns:
            [units, lines, pieces], or [units, k, lines / 8] if transposed.
        """
        linear = self._transposed(lines) if transposed else self._straight(lines, pieces)
        bits = self.span // 16 - 1
        return linear ^ ((linear >> 3) & (bits << 4))

    def _straight(self, lines: int, pieces: int) -> Bits:
        line = np.arange(lines, dtype=np.int64)[None, :, None]
        piece = np.arange(pieces, dtype=np.int64)[None, None, :]
        start, leading, stride = (x[:, None, None] for x in (self.start, self.leading, self.stride))
        step = leading if self.span == PIECE else PIECE
        return start + line // 8 * stride + line % 8 * self.span + piece * step

    def _transposed(self, lines: int) -> Bits:
        k = np.arange(16, dtype=np.int64)[None, :, None]
        piece = np.arange(lines // 8, dtype=np.int64)[None, None, :]
        start, leading, stride = (x[:, None, None] for x in (self.start, self.leading, self.stride))
        if self.span == PIECE:
            return start + piece * stride + k % 8 * PIECE + k // 8 * leading
        width = self.span // PIECE
        across = piece % width * PIECE + piece // width * leading
        return start + across + k % 8 * self.span + k // 8 * stride
