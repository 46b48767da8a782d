"""Launch Triton kernels without redoing what the arguments' signature decides.

@launcher
def scaled(x: torch.Tensor, factor: float) -> Launch[torch.Tensor]:
    check(x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.numel(), 256),)
    return Launch(out, _kernel, grid, x, out, x.numel(), factor, BLOCK=256)

out = scaled(x, 0.5)

The decorated function is a *plan*: it checks the arguments, allocates the outputs and says what to
launch, but launches nothing. It runs, and Triton specializes the kernel, once for each signature:
shape, strides, dtype, device and alignment of every tensor, type and value of every other argument.
(Strides as far as elements lie elsewhere: those of contiguous tensors follow from the shape.)
A later call with the same signature allocates outputs like the plan's and launches the compiled
kernel on the new addresses. Whatever differs in the signature is planned anew.

Triton's own path is taken where it has more to do than launch: with launch hooks, for autotuned
kernels, under `TRITON_INTERPRET`, and for every driver without a GPU, the virtual Hopper's among
them.
"""

from exactness.launching.calls import launcher
from exactness.launching.plan import Launch, Part

__all__ = ["Launch", "Part", "launcher"]
