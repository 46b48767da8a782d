"""From a kernel that Triton has launched to a function that launches it once more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from exactness.launching import direct
from exactness.launching.plan import Launch, Slot
from exactness.launching.source import NAMES, Template, call_source, compiled

AGAIN = object()
"""What a call returns that finds something else than was planned for; it has launched nothing."""


def repeated(
    launch: Launch[Any],
    kernel: Any,
    slots: Sequence[Any],
    tensors: Iterable[str],
    moved: Iterable[str] = (),
) -> Callable[..., Any] | None:
    """A function of addresses that allocates, launches and returns as the plan says.

    Args:
        launch: what was planned.
        kernel: what Triton compiled for it.
        slots: the kernel's positional arguments, with slots in place of tensors.
        tensors: names of the parameters whose addresses the function takes.
        moved: expressions over these that are true when the plan must look at them again.

    Returns:
        The function, or None where Triton must launch or nothing is launched.
    """
    import torch

    outputs = launch.outputs
    template = Template(part for output in outputs for part in _kind(output))
    names: dict[str, Any] = dict.fromkeys(NAMES)
    statement = _statement(launch, kernel, slots, template, names)
    if statement is None:
        return None
    names.update(_allocators(outputs), again=AGAIN)
    source = call_source(
        template,
        tensors=tensors,
        launch=statement,
        returns=_returns(launch.returns, {id(out): f"out{i}" for i, out in enumerate(outputs)}),
        outputs=len(outputs),
        devices=torch.cuda.device_count(),
        moved=moved,
    )
    call = compiled(source, "make")({})(names.values(), template.constants)
    call.kernel = kernel  # Triton unloads a kernel that nobody holds.
    return call


def _allocators(outputs: Sequence[Any]) -> dict[str, Any]:
    """How outputs are allocated: so that modes of torch see it, and the short way."""
    import torch

    if not outputs:
        return {}
    device = outputs[0].device

    def seen(shape: Any, stride: Any, dtype: Any) -> Any:
        return torch.empty_strided(shape, stride, dtype=dtype, device=device)

    unseen = _short_allocator(outputs[0]) or seen
    return {"modes": torch._C._len_torch_function_stack, "seen": seen, "unseen": unseen}


def _short_allocator(output: Any) -> Callable[..., Any] | None:
    """What torch's own compiled graphs call, where it is there and does what it should.

    It allocates on the current device.
    """
    import torch

    try:
        allocate = getattr(torch._C._dynamo.guards, f"_empty_strided_{output.device.type}")
        made = allocate(*_kind(output))
    except Exception:
        return None
    same = _kind(made) == _kind(output) and made.device == output.device
    return allocate if same else None


def _kind(output: Any) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """Shape, strides and dtype."""
    return tuple(output.shape), output.stride(), output.dtype


def _returns(value: Any, names: dict[int, str]) -> str:
    if isinstance(value, tuple):
        return f"({' '.join(_returns(item, names) + ',' for item in value)})"
    return names.get(id(value), "None")


def _statement(
    launch: Launch[Any],
    kernel: Any,
    slots: Sequence[Any],
    template: Template,
    names: dict[str, Any],
) -> str | None:
    """The statement that launches; None for another kind of kernel, driver or argument."""
    from triton.backends.driver import GPUDriver
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    if kernel is None or not isinstance(launch.kernel, JITFunction):
        return None
    active = driver.active
    if not isinstance(active, GPUDriver):
        return None
    values = _values(launch, slots)
    if values is None:
        return None
    device = active.get_current_device()
    names.update(
        hooks=launch.kernel.pre_run_hooks,
        stream=active.get_current_stream,
        current=_current_device(active),
        device=device,
    )
    grid = (*launch.grid, 1, 1)[:3]
    made = direct.launch(direct.driver_of(active), kernel, grid, values)
    if made is not None:
        names["launch"] = made.function
        return f"launch({', '.join(('stream(device)', *made.names))})"
    names["launch"] = kernel.run
    leading = (*grid, Slot("stream(device)"), kernel.function, kernel.packed_metadata)
    arguments = (*leading, None, None, None, *values)
    return f"launch({', '.join(map(template.text, arguments))})"


def _current_device(active: Any) -> Callable[[], int]:
    """What asks for the current device; for CUDA without the check that it was initialized."""
    import torch

    asks = active.get_current_device
    return getattr(torch._C, "_cuda_getDevice", asks) if asks is torch.cuda.current_device else asks


def _values(launch: Launch[Any], slots: Sequence[Any]) -> list[Any] | None:
    """One value for each parameter of the kernel; None if one holds a tensor out of sight."""
    rest = launch.kernel.params[len(slots) :]
    values = [*slots, *(launch.keywords.get(each.name, each.default) for each in rest)]
    for parameter, value in zip(launch.kernel.params, values, strict=True):
        if not parameter.is_constexpr and not _is_plain(value):
            return None
    return values


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (Slot, bool, int, float))
