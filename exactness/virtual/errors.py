"""What can go wrong in the virtual Hopper, one class for each kind.

An error is raised where it is noticed, with what was wrong; the machine adds the kernel, the
instruction and its source line on the way out (`at`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exactness.virtual.ptx import Instruction


class VirtualHopperError(Exception):
    """Base of every error of the virtual Hopper.

    Attributes:
        what: what was wrong, one sentence.
        kernel: the kernel, once known.
        instruction: the PTX instruction, once known.
    """

    def __init__(
        self, what: str, *, kernel: str | None = None, instruction: Instruction | None = None
    ) -> None:
        """Keep the parts; `__str__` joins them."""
        super().__init__(what)
        self.what = what
        self.kernel = kernel
        self.instruction = instruction

    def at(self, kernel: str, instruction: Instruction | None) -> VirtualHopperError:
        """Fill in the place where it happened, unless a deeper one is known, and return self."""
        self.kernel = self.kernel or kernel
        self.instruction = self.instruction or instruction
        return self

    def __str__(self) -> str:
        """The sentence, then kernel, instruction and source line, each on its line."""
        lines = [self.what]
        if self.kernel is not None:
            lines.append(f"  kernel: {self.kernel}")
        if self.instruction is not None:
            text, line = self.instruction.text, self.instruction.line
            lines.append(f"  instruction: {text}  (PTX line {line})")
            if self.instruction.location is not None:
                lines.append(f"  source: {self.instruction.location}")
        return "\n".join(lines)


class PTXSyntaxError(VirtualHopperError, ValueError):
    """The PTX text cannot be read."""


class UnsupportedInstructionError(VirtualHopperError, NotImplementedError):
    """An opcode, modifier, type or special register without a bit model."""


class LaunchError(VirtualHopperError, ValueError):
    """A grid, block or parameter list that does not fit the kernel."""


class OutOfBoundsError(VirtualHopperError):
    """An access outside the memory that the kernel was given."""


class MisalignedAccessError(VirtualHopperError):
    """An access whose address is not a multiple of its size."""


class UndefinedValueError(VirtualHopperError):
    """An undefined value reached a store, an address, a branch or a matrix operand."""


class BarrierDivergenceError(VirtualHopperError):
    """Threads that a barrier, a shuffle or a vote waits for never come to it."""


class SharedRaceError(VirtualHopperError):
    """Two warps touch a shared byte between barriers, one of them writing."""


class WriteConflictError(VirtualHopperError):
    """Two threads write different values to one global address in a launch."""


class OrderDependenceError(VirtualHopperError):
    """A result that depends on the order in which the hardware runs threads."""
