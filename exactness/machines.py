"""Where a kernel runs: a CUDA GPU, the virtual Hopper, or the CPU itself.

A machine runs a claim's kernel on arguments of its own device, with every output buffer poisoned
beforehand, so that an element which the kernel does not write cannot look right by accident.
"""

from __future__ import annotations

import abc
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from exactness import environment
from exactness.claim import CPU, GPU, GPU_ONLY, Claim, Variant
from exactness.errors import UsageError


class Machine(abc.ABC):
    """Something that runs kernels.

    Attributes:
        name: for reports.
        device: the torch device of the arguments.
        capability: compute capability whose bits it gives, or None.
    """

    name: str
    device: str
    capability: str | None = None

    @abc.abstractmethod
    def refuses(self, claim: Claim) -> str | None:
        """Why the claim's kernel cannot run here, or None if it can."""

    def session(self, claim: Claim) -> AbstractContextManager[Any]:
        """What must be entered around a run of the claim's kernel."""
        return nullcontext()

    def run(
        self,
        claim: Claim,
        arguments: Mapping[str, Any],
        variant: Variant | None = None,
        *,
        unrounded: bool = False,
    ) -> dict[str, Any]:
        """Run the kernel (or its launcher that stores f32) once on poisoned memory.

        Returns:
            Named outputs.
        """
        with self.session(claim), poisoned_memory():
            return claim.call(arguments, variant, unrounded=unrounded)


class Cuda(Machine):
    """The GPU of this machine."""

    device = "cuda"

    def __init__(self) -> None:
        found = environment.collect()
        if found.gpu is None:
            raise UsageError("no CUDA GPU was found; use --device cpu or leave the option out")
        self.name = found.gpu
        self.capability = found.capability

    def refuses(self, claim: Claim) -> str | None:
        """A CPU callable has nothing to do here."""
        return "the kernel runs on CPU tensors" if claim.runs_on == CPU else None

    @contextmanager
    def session(self, claim: Claim) -> Iterator[None]:
        """Wait for the launches at the end, so that a fault is reported at its own."""
        import torch

        yield
        torch.cuda.synchronize()


class VirtualHopper(Machine):
    """The PTX of a Triton kernel, executed on this CPU with the H200's bits."""

    name = "virtual Hopper (sm_90)"
    device = "cpu"
    capability = "9.0"

    def refuses(self, claim: Claim) -> str | None:
        """Only Triton kernels have PTX; compiling them needs Triton."""
        if claim.runs_on == GPU_ONLY:
            return "the kernel runs on a GPU only; none was found"
        if claim.runs_on == GPU and importlib.util.find_spec("triton") is None:
            return "Triton is not installed (the extra `triton` brings it)"
        return None

    def session(self, claim: Claim) -> AbstractContextManager[Any]:
        """Triton's launches go to the virtual machine; a callable on CPU tensors just runs."""
        if claim.runs_on == CPU:
            return nullcontext()
        from exactness import virtual

        return virtual.hopper()


def choose(device: str) -> Machine:
    """The machine for `--device`.

    Args:
        device: "auto" (a GPU if there is one), "cpu" or "cuda".

    Raises:
        UsageError: "cuda" without a GPU, or an unknown name.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device {device!r} is not accepted; auto, cpu and cuda are")
    if device == "cuda" or (device == "auto" and environment.collect().gpu is not None):
        return Cuda()
    return VirtualHopper()


def poisoned_memory() -> AbstractContextManager[Any]:
    """Fill what `torch.empty` and its kin give: NaN in floats, the largest integer elsewhere."""
    import torch
    from torch.overrides import TorchFunctionMode

    allocators = {
        torch.empty,
        torch.empty_like,
        torch.empty_strided,
        torch.Tensor.new_empty,
        torch.Tensor.new_empty_strided,
    }

    class Poisoned(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if func in allocators and result.numel():
                _poison(result)
            return result

    return Poisoned()


def _poison(tensor: Any) -> None:
    import torch

    if tensor.dtype.is_floating_point:
        tensor.fill_(float("nan"))
    elif tensor.dtype is torch.bool:
        tensor.fill_(True)
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max)
