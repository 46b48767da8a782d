"""Which memory arguments may share."""

import torch

from exactness.aliasing import same_memory


def check_apart(name: str, x: torch.Tensor, written_name: str, written: torch.Tensor) -> None:
    """Refuse memory of a tensor that is written in place; interleaved views share none.

    A launcher that asks this says so: `@launcher(compares=(…))`.

    Raises:
        ValueError: an element is one of both.
    """
    if same_memory(x, written):
        raise ValueError(
            f"{name}: memory of {written_name}, which is written in place, is not accepted; "
            "tensors that share no element are"
        )


def is_same_view(x: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether every element of both is the same one."""
    return (x.data_ptr(), x.shape, x.stride()) == (other.data_ptr(), other.shape, other.stride())
