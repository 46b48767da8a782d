"""How a kernel starts: behind the launch before it, or getting ready while that one still runs."""

import torch
import triton
from triton.language.extra import cuda

_FEW = 1024
"""Programs up to which a launch is over so soon that its start is much of its time."""

_HOPPER = (9, 0)
"""Compute capability from which a launch can begin before the one ahead of it has ended."""


@triton.jit
def start(EARLY: triton.language.constexpr):
    """Stand before every access to memory: it waits for all launches ahead to end and be seen.

    With EARLY the launch behind may begin meanwhile (programmatic dependent launch). It waits here
    too, so nothing is read before it is written.
    """
    if EARLY:
        cuda.gdc_launch_dependents()
        cuda.gdc_wait()


def options(programs: int, x: torch.Tensor, num_warps: int) -> dict[str, int | bool]:
    """How to launch: constants and options of every kernel.

    Beginning early saves a short launch about 0.5 µs; to one of many programs it only brings
    waiting ones, which keep others from running.

    Args:
        programs: of the grid.
        x: says where it is launched.
        num_warps: of a program.
    """
    early = programs <= _FEW and _begins_early(x.device)
    return {
        "EARLY": early,
        "launch_pdl": early,
        "num_warps": num_warps,
        "enable_fp_fusion": False,
    }


def _begins_early(device: torch.device) -> bool:
    """On the virtual Hopper, which has CPU tensors, too."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= _HOPPER
