"""Runs of a compiled kernel on the virtual Hopper, as it is and gone wrong, against the reference.

A trial is one set of arguments. It knows what the reference gives, and what the kernel itself does
there: that it has the reference's bits, which programs it runs and how much they execute. A faulty
kernel is then told from the right one by its outputs, rounded and before the last rounding.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from exactness import machines
from exactness.bits import Bits
from exactness.checks.base import Context
from exactness.claim import GPU, Claim
from exactness.compare import Verdict, compare
from exactness.inputs import Example

if TYPE_CHECKING:
    from exactness.virtual.editing import Edit, Editing
    from exactness.virtual.launcher import Launch


def why_not_compiled(claim: Claim) -> str | None:
    """Why nothing can be compiled for a claim here, or None."""
    from exactness.virtual import sass

    if claim.runs_on != GPU:
        return f"the kernel runs on {claim.runs_on}: it is no Triton kernel"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed (the extra `triton` brings it)"
    try:
        sass.find_tool("ptxas")
        sass.find_tool("nvdisasm")
    except sass.ToolError as error:
        return error.what
    return None


class OtherHopper(machines.VirtualHopper):
    """The virtual Hopper with kernels edited, or compiled with other options.

    Attributes:
        launches: what was launched.
    """

    def __init__(
        self, edit: Edit | Editing | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        from exactness.virtual.editing import Editing

        # Kept from run to run, so that each program is edited once.
        kept = edit is None or isinstance(edit, Editing)
        self._edit = edit if kept else Editing(cast("Edit", edit))
        self._options = options
        self.launches: list[Launch] = []

    @property
    def spent(self) -> int:
        """Instructions executed by threads."""
        return sum(sum(launch.counts.values()) for launch in self.launches)

    @contextlib.contextmanager
    def session(self, claim: Claim) -> Iterator[Any]:
        """A block of `virtual.hopper` with the edit and the options."""
        from exactness import virtual

        with virtual.hopper(self._edit, self._options) as hopper:
            try:
                yield hopper
            finally:
                self.launches += hopper.launches


@dataclass(frozen=True)
class Seen:
    """What running the kernel, right or wrong, showed.

    Attributes:
        differing: elements that differ from the reference, of `compared`.
        compared: elements compared.
        unrounded_only: whether only outputs before the last rounding differ.
        error: what went wrong in place of differing elements: the kind of error that the machine
            raised.
    """

    differing: int = 0
    compared: int = 0
    unrounded_only: bool = False
    error: str = ""

    @property
    def is_different(self) -> bool:
        """Whether the run told the kernel from the reference."""
        return bool(self.differing or self.error)

    @property
    def what(self) -> str:
        """The difference in words."""
        return self.error or f"{self.differing} elements differ"


@dataclass(eq=False)
class Trial:
    """One set of arguments.

    Attributes:
        label: case and family.
        claim: whose kernel runs.
        make: gives the arguments.
        context: runs the reference.
        like: gives more arguments of these sizes, from a seed; None if that makes no sense.
        programs: kernels and their PTX that the right kernel ran here, in order of their first
            launch; filled by `prepare`.
        launches: what it launched.
    """

    label: str
    claim: Claim
    make: Callable[[], Mapping[str, Any]]
    context: Context
    like: Callable[[str], Example] | None = None
    programs: dict[tuple[str, str], None] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    _arguments: Mapping[str, Any] | None = None
    _expected: dict[bool, dict[str, Bits]] = field(default_factory=dict)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments, made once."""
        if self._arguments is None:
            self._arguments = self.make()
        return self._arguments

    def expect(self) -> None:
        """Run the reference, once."""
        if not self._expected:
            run = self.context.reference(self.claim, self.arguments)
            self._expected[False] = dict(run.outputs)
            if self.claim.unrounded is not None:
                self._expected[True] = {name: run.unrounded(name) for name in self.claim.outputs}

    def prepare(self) -> Seen:
        """Run the kernel as it is."""
        machine = OtherHopper(self._note)
        seen = self.run(machine)
        self.launches = machine.launches
        return seen

    def run(self, machine: machines.Machine) -> Seen:
        """Run a kernel in all its forms until one shows a difference.

        Raises:
            UnsupportedInstructionError: the fault is one that the machine has no model of, which
                says nothing about the checks.
        """
        from exactness.virtual.errors import UnsupportedInstructionError, VirtualHopperError

        self.expect()
        compared = 0
        for unrounded, expected in self._expected.items():
            try:
                actual = machine.run(self.claim, self._copied(), unrounded=unrounded)
            except UnsupportedInstructionError:
                raise
            except VirtualHopperError as error:
                return Seen(compared=compared, error=type(error).__name__)
            diffs = [compare(actual[name], bits) for name, bits in expected.items()]
            compared += sum(diff.elements for diff in diffs)
            if any(diff.verdict is Verdict.DIFFERENT for diff in diffs):
                differing = sum(diff.mismatches for diff in diffs)
                other = "" if differing else "outputs of another shape or dtype"
                return Seen(differing, compared, unrounded, other)
        return Seen(compared=compared)

    def _copied(self) -> dict[str, Any]:
        """Kernels may write into their arguments."""
        return {
            name: value.clone() if hasattr(value, "clone") else value
            for name, value in self.arguments.items()
        }

    @property
    def instructions(self) -> int:
        """Instructions executed by threads of the kernel as it is."""
        return sum(sum(launch.counts.values()) for launch in self.launches)

    def _note(self, text: str, kernel: str) -> str:
        """An edit that changes nothing."""
        self.programs[kernel, text] = None
        return text
