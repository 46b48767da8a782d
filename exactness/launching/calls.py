"""Launchers: from the arguments' signature to the call that was planned for it."""

from __future__ import annotations

import functools
import inspect
import threading
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from exactness.launching.plan import Launch
from exactness.launching.repeat import AGAIN, repeated
from exactness.launching.source import (
    compiled,
    exact,
    guards_of,
    launch_source,
    scalar_kind,
    tensors_of,
)

CAPACITY = 4096
"""Signatures that a launcher remembers; the oldest are forgotten."""

P = ParamSpec("P")
R = TypeVar("R")


@overload
def launcher(plan: Callable[P, Launch[R]]) -> Callable[P, R]: ...


@overload
def launcher(
    *, compares: tuple[str, ...]
) -> Callable[[Callable[P, Launch[R]]], Callable[P, R]]: ...


def launcher(plan: Any = None, *, compares: tuple[str, ...] = ()) -> Any:
    """Make a launcher of a plan.

    Args:
        plan: a function that returns a `Launch`. Its annotations say which parameters are tensors:
            `torch.Tensor`, or that `| None`. It may look at all that the signature holds; not at
            elements, nor at other state, nor at addresses beyond their alignment to 16 bytes.
        compares: tensors of which the plan also asks whether the first shares memory with the
            others.

    Returns:
        A function with the plan's parameters that returns what `Launch.returns` says.

    Raises:
        TypeError: when called: the plan passes a tensor that is neither a parameter, a part of one,
            nor an output.
    """
    if plan is None:
        return functools.partial(launcher, compares=compares)
    return _Calls(plan, compares).launch


class _Calls:
    """The calls of a launcher by signature."""

    def __init__(self, plan: Callable[..., Launch[Any]], compares: tuple[str, ...]) -> None:
        from triton import knobs
        from triton.runtime import driver

        self.plan = plan
        self.signature = inspect.signature(plan)
        hints = typing.get_type_hints(plan)
        self.tensors = tensors_of(hints)
        self.compares = compares
        self.guards = [unlike] * len(guards_of(hints))
        self.calls: dict[Any, tuple[Callable[..., Any], ...]] = {}
        self._lock = threading.Lock()
        names = {
            "calls": self.calls,
            "first": self.first,
            "again": AGAIN,
            "guard": guard,
            "unlike": unlike,
            "exact": exact,
            "driver": driver,
            "runtime": knobs.runtime,
            "compilation": knobs.compilation,
            **{f"default_{name}": p.default for name, p in self.signature.parameters.items()},
            **{f"kind_{name}": scalar_kind(hint) for name, hint in hints.items()},
        }
        launch = compiled(launch_source(self.signature, hints), "launch")(names)
        self.launch = functools.update_wrapper(launch, plan)

    def first(self, key: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Plan, let Triton launch, and remember the call under `key` if it can be repeated."""
        import torch

        if torch.compiler.is_compiling():
            # Triton's own path cannot be traced.
            disable: Any = torch.compiler.disable
            return disable(self.first)(key, *args, **kwargs)
        bound = self.signature.bind(*args, **kwargs)
        tensors = self._own_tensors(bound.arguments)
        elsewhere = _other_device(tensors.values())
        if elsewhere is not None:
            with elsewhere:
                return self.launch(*args, **kwargs)
        launch = self.plan(*bound.args, **bound.kwargs)
        slots = launch.slots(tensors)
        kernel = launch.run()
        # A signature holds the index of a device, not its kind.
        places = {each.device for each in (*tensors.values(), *launch.outputs)}
        if key is not None and tensors and len(places) == 1:
            moved = _moved([(name, tensors[name]) for name in self.compares])
            call = repeated(launch, kernel, slots, self.tensors, moved)
            if call is not None:
                self._remember(key, call)
        return launch.returns

    def _own_tensors(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The tensors by parameter; one that is passed twice becomes two objects in `arguments`."""
        import torch

        found: dict[str, Any] = {}
        for name in self.tensors:
            tensor = arguments.get(name)
            if isinstance(tensor, torch.Tensor):
                if any(tensor is other for other in found.values()):
                    tensor = arguments[name] = tensor.detach()
                found[name] = tensor
        return found

    def _remember(self, key: Any, call: Callable[..., Any]) -> None:
        with self._lock:
            while len(self.calls) >= CAPACITY:
                del self.calls[next(iter(self.calls))]
            self.calls[key] = *self.guards, call


def _moved(tensors: Sequence[tuple[str, Any]]) -> list[str]:
    """Expressions: the first reaches into another one, from which it has not the planned distance.

    Where both reach into each other, as interleaved views do, the distance decides whether they
    share an element.
    """
    found = []
    for other, y in tensors[1:]:
        first, x = tensors[0]
        between = f"{other}_at - {first}_at"
        planned = y.data_ptr() - x.data_ptr()
        found.append(f"{between} != {planned} and {-_reach(y)} < {between} < {_reach(x)}")
    return found


def _reach(tensor: Any) -> int:
    """Bytes from the first element of a tensor to the end of its last."""
    if not tensor.numel():
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return (1 + sum((size - 1) * stride for size, stride in steps)) * tensor.element_size()


def guard(*tensors: Any) -> Callable[..., bool]:
    """A function of as many tensors that is true only if all are like these.

    Alike are tensors of the same type, dtype, device, shape and strides, in the same mode of torch.
    Of tensors that are one object, or of None, nothing is known to be alike.
    """
    import torch

    if not tensors or tensors[0] is None or len(set(map(id, tensors))) < len(tensors):
        return unlike
    try:
        guards: Any = torch._C._dynamo.guards
        made: Callable[..., bool] = guards.TensorGuards(
            *tensors,
            dynamic_dims_sizes=[[*tensor.shape] for tensor in tensors],
            dynamic_dims_strides=[[*tensor.stride()] for tensor in tensors],
        ).check
    except Exception:
        return unlike  # as in a torch without it
    return made


def unlike(*tensors: Any) -> bool:
    """A guard that knows nothing of tensors; without any there is nothing to know."""
    return not tensors


def _other_device(tensors: Iterable[Any]) -> Any:
    """The context of the tensors' GPU, where that is not the current one."""
    import torch

    for tensor in tensors:
        if tensor.device.type == "cuda":
            current = torch.cuda.current_device()
            return None if tensor.device.index == current else torch.cuda.device(tensor.device)
    return None
