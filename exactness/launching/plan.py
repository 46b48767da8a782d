"""What a plan says: the kernel, its grid and arguments, and what is returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")


class Part(NamedTuple):
    """An argument that is a view of a parameter, such as half of its columns.

    Attributes:
        of: the parameter; the view starts at a distance from it that the signature decides.
        view: what to pass.
    """

    of: Any
    view: Any


class Launch(Generic[R]):
    """What a plan decides.

    Attributes:
        returns: what the launcher returns: a contiguous tensor that the plan allocated, a tuple of
            such tensors (or None in place of some), or None.
        kernel: a Triton kernel; None to launch nothing.
        grid: one to three sizes.
        arguments: of the kernel: parameters of the plan, parts of them, outputs, constants, and
            tuples of all these.
        keywords: compile-time constants and launch options.
    """

    def __init__(
        self,
        returns: R,
        kernel: Any = None,
        grid: tuple[int, ...] = (),
        *arguments: Any,
        **keywords: Any,
    ) -> None:
        """Decide; nothing is launched."""
        self.returns = returns
        self.kernel = kernel
        self.grid = grid
        self.arguments = arguments
        self.keywords = keywords

    @property
    def outputs(self) -> list[Any]:
        """The tensors among `returns`."""
        returned = self.returns if isinstance(self.returns, tuple) else (self.returns,)
        return [each for each in returned if each is not None]

    def run(self) -> Any:
        """Launch as Triton does; the compiled kernel, where Triton returns it."""
        if self.kernel is None:
            return None
        return self.kernel[self.grid](*map(_passed, self.arguments), **self.keywords)

    def slots(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments with slots in place of tensors.

        Args:
            parameters: the tensors among the plan's parameters.

        Raises:
            TypeError: an output is a parameter or not contiguous; an argument is a tensor that is
                neither a parameter, a part of one, nor an output.
        """
        found = {id(tensor): Slot(f"{name}_at") for name, tensor in parameters.items()}
        for i, output in enumerate(self.outputs):
            if id(output) in found:
                raise TypeError(f"output {i} is a parameter; a new tensor is accepted")
            if not output.is_contiguous():
                raise TypeError(f"output {i} has strides {output.stride()}; contiguous is accepted")
            found[id(output)] = Slot(f"out{i}_at")
        return tuple(_slot(argument, found) for argument in self.arguments)


@dataclass(frozen=True)
class Slot:
    """Stands for an address that each call has anew.

    Attributes:
        name: `<parameter>_at` or `out<i>_at`.
        distance: bytes from there.
    """

    name: str
    distance: int = 0

    def __str__(self) -> str:
        """The expression for it."""
        return f"{self.name} + {self.distance}" if self.distance else self.name


def _passed(argument: Any) -> Any:
    if isinstance(argument, Part):
        return argument.view
    return tuple(map(_passed, argument)) if type(argument) is tuple else argument


def _slot(value: Any, found: Mapping[int, Slot]) -> Any:
    import torch

    if type(value) is tuple:
        return tuple(_slot(item, found) for item in value)
    if isinstance(value, Part):
        whole = _slot(value.of, found)
        # An empty tensor has no address.
        offset = value.view.data_ptr() - value.of.data_ptr() if value.view.numel() else 0
        return replace(whole, distance=whole.distance + offset)
    if not isinstance(value, torch.Tensor):
        return value
    if id(value) not in found:
        raise TypeError(
            f"the plan passes a tensor of shape {tuple(value.shape)} that is neither a parameter "
            "annotated as torch.Tensor nor an output; for a view of a parameter, pass a Part"
        )
    return found[id(value)]
