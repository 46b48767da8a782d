"""The text of the two functions that `exactness.launching` makes: generated, as they must be short.

A loop over arguments, or a call that unpacks them, costs more than the work on one of them. So the
functions are written out for the parameters of one launcher and for the arguments of one kernel.
"""

from __future__ import annotations

import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from exactness.launching.plan import Slot

ALIGNMENT = 16
"""A signature knows addresses modulo this many bytes, as Triton's specialization does."""

_LAUNCH = """
last = None, {never}, None

def launch({parameters}):
    global last
    key = call = None
    try:
        if not (runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls):
            {addresses}
            rest = ({rest})
            known, {guards}, call = last
            if rest != known or not ({alike}):
                key = (rest, {keys})
                {guards}, call = calls.get(key) or ({never}, None)
                if call is not None:
                    if not ({alike}):
                        calls[key] = {renewed}, call
                    last = rest, *calls[key]
    except Exception:
        # No signature: no tensor where one belongs, or another driver. The plan says what is wrong.
        key = call = None
    if call is not None:
        result = call({at})
        if result is not again:
            return result
        last = None, {never}, None
        key = (rest, {keys})
    return first(key, {arguments})
"""

_CALL = """
def make(names, constants):
    {unpacked}

    def call({at}):
        if {guard}:
            return again
        {outputs}
        {launch}
        return {returns}

    return call
"""

_STATE = ("driver._active", "runtime.debug", "compilation.instrumentation_mode")
"""What Triton looks at beside the arguments; its hooks are asked before."""


class Template:
    """The text of a call, and the constants in it."""

    def __init__(self, constants: Iterable[Any]) -> None:
        self.constants = list(constants)

    def text(self, value: Any) -> str:
        """The expression for a value: its own if it is a slot, else the name of a constant."""
        if isinstance(value, Slot):
            return str(value)
        if _has_slot(value):
            return f"({' '.join(self.text(item) + ',' for item in value)})"
        self.constants.append(value)
        return f"c{len(self.constants) - 1}"


def _has_slot(value: Any) -> bool:
    return isinstance(value, Slot) or (type(value) is tuple and any(map(_has_slot, value)))


def call_source(
    template: Template,
    *,
    tensors: Iterable[str],
    outputs: int,
    launch: str,
    devices: int,
    moved: Iterable[str],
    returns: str,
) -> str:
    """The text of a function that makes the call of one signature.

    Args:
        template: the constants; the first are shape, strides and dtype of each output.
        tensors: parameters of the launcher whose addresses the call takes.
        outputs: how many tensors to allocate.
        launch: the statement that launches, over `<tensor>_at` and `out<i>_at`.
        devices: GPUs of this machine; of several, the planned one must be current.
        moved: expressions that are true when addresses are not as far apart as planned.
        returns: the expression to return, over `out<i>`.
    """
    return _CALL.format(
        unpacked=_lines(_unpacked(len(template.constants)), 4),
        at=", ".join(f"{name}_at" for name in tensors),
        guard=" or ".join(["hooks", *(["current() != device"] if devices > 1 else []), *moved]),
        outputs=_lines(_allocations(outputs), 8),
        launch=launch,
        returns=returns,
    )


NAMES = ("modes", "seen", "unseen", "again", "launch", "stream", "current", "device", "hooks")
"""What a call refers to beside its constants."""


def _unpacked(constants: int) -> list[str]:
    lists = [("names", NAMES), ("constants", [f"c{i}" for i in range(constants)])]
    return [f"{', '.join(names)}, = {of}" for of, names in lists if names]


def _allocations(outputs: int) -> list[str]:
    """Allocate; an address that the kernel was not compiled for is left to Triton."""
    if not outputs:
        return []
    each = range(outputs)
    starts = " | ".join(f"out{i}_at" for i in each)
    return [
        "empty = seen if modes() else unseen",
        *(f"out{i} = empty(c{3 * i}, c{3 * i + 1}, c{3 * i + 2})" for i in each),
        *(f"out{i}_at = out{i}.data_ptr()" for i in each),
        f"if ({starts}) % {ALIGNMENT}: return again",
    ]


def launch_source(signature: inspect.Signature, hints: Mapping[str, Any]) -> str:
    """The text of a launcher: find the call of the arguments' signature, else ask `first`.

    Whether tensors are as in the last call, one function of torch says in a fraction of the time
    that it takes to ask for their parts of the signature.

    Args:
        signature: parameters; defaults are called `default_<name>`.
        hints: their types, which say what a signature looks at.
    """
    tensors = tensors_of(hints)
    others = [name for name in signature.parameters if name not in tensors]
    integers = [name for name in others if are_integers(hints.get(name, Any))]
    rest = [
        *_STATE,
        *(_key(each, hints.get(each, Any)) for each in others if each not in integers),
    ]
    rest += [f"{name} is None" for name in tensors if is_optional(hints[name])]
    rest += _alignment(hints)
    guards = guards_of(hints)
    return _LAUNCH.format(
        parameters=_parameters(signature),
        addresses=_lines([_address(name, hints[name]) for name in tensors], 12),
        rest=", ".join(rest),
        guards=", ".join(guards),
        never=", ".join(["unlike"] * len(guards)),
        alike=" and ".join(_alike(guard, names, hints) for guard, names in guards.items()),
        renewed=", ".join(_renewed(names, hints) for names in guards.values()),
        keys=", ".join(
            [_tensor_key(name, hints[name]) for name in tensors]
            + [_key(name, hints[name]) for name in integers]
        ),
        at=", ".join(f"{name}_at" for name in tensors_of(hints)),
        arguments=_arguments(signature),
    )


def _address(name: str, hint: Any) -> str:
    """The statement for the address of a tensor."""
    absent = f"None if {name} is None else " if is_optional(hint) else ""
    return f"{name}_at = {absent}{name}.data_ptr()"


def guards_of(hints: Mapping[str, Any]) -> dict[str, list[str]]:
    """Guards by name, and the parameters that each looks at.

    One looks at all tensors that are always there, one at each other tensor; the guard of a tuple
    of integers is the tuple itself.
    """
    tensors = tensors_of(hints)
    always = [name for name in tensors if not is_optional(hints[name])]
    alone = [name for name in hints if name in tensors and name not in always]
    alone += [name for name, hint in hints.items() if name != "return" and are_integers(hint)]
    return {"alike": always, **{f"alike_{name}": [name] for name in alone}}


def _alike(guard: str, names: list[str], hints: Mapping[str, Any]) -> str:
    """The expression that says whether arguments are as in the last call."""
    if names and are_integers(hints[names[0]]):
        return f"{names[0]} is {guard}"
    absent = f"{names[0]} is None or " if names and is_optional(hints[names[0]]) else ""
    return f"({absent}{guard}({', '.join(names)}))"


def _renewed(names: list[str], hints: Mapping[str, Any]) -> str:
    """The expression for a guard that holds for these arguments."""
    if names and are_integers(hints[names[0]]):
        return f"{names[0]} if type({names[0]}) is tuple else unlike"
    return f"guard({', '.join(names)})"


def _key(name: str, hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        # Hashing a member calls Python.
        return f"type({name}), {name}._name_"
    if scalar_kind(hint) is not None:
        return _scalar_key(name, hint)
    if are_integers(hint):
        return f"(type({name}), *{name}, *map(type, {name}))"
    return f"exact({name})"


def are_integers(hint: Any) -> bool:
    """Whether a parameter of this type is a sequence of integers."""
    return typing.get_args(hint) in ((int,), (int, Ellipsis))


def _tensor_key(name: str, hint: Any) -> str:
    """Where all elements of a tensor lie, relative to the first, and what they are."""
    absent = f"{name} is not None and " if is_optional(hint) else ""
    strides = f"{name}.is_contiguous() or {name}.stride()"
    return f"{absent}({name}.shape, {strides}, {name}.dtype, {name}.get_device())"


def _alignment(hints: Mapping[str, Any]) -> list[str]:
    """The addresses modulo `ALIGNMENT`; 0 for all of them together, as nearly always."""
    names = tensors_of(hints)
    if not names:
        return []
    at = [f"({name}_at or 0)" if is_optional(hints[name]) else f"{name}_at" for name in names]
    each = "".join(f"{address} % {ALIGNMENT}, " for address in at)
    return [f"({' | '.join(at)}) % {ALIGNMENT} and ({each})"]


def _scalar_key(name: str, hint: Any) -> str:
    """The value itself if it has the expected type; 1, 1.0 and True are equal."""
    plain = f"type({name}) is kind_{name}"
    if scalar_kind(hint) is float:
        plain += f" and {name}"  # 0.0 and −0.0 are equal
    if is_optional(hint):
        plain = f"{name} is None or {plain}"
    return f"{name} if {plain} else exact({name})"


def scalar_kind(hint: Any) -> Any:
    """The one type of hashable values, beside None, that a parameter is said to have."""
    import torch

    kinds = [kind for kind in _alternatives(hint) if kind is not types.NoneType]
    scalars = (bool, int, float, str, torch.dtype)
    return kinds[0] if len(kinds) == 1 and kinds[0] in scalars else None


def exact(value: Any) -> Any:
    """Something hashable that is equal for values that no plan can tell apart."""
    if isinstance(value, (tuple, list)):
        return (type(value), *map(exact, value))
    return type(value), value or repr(value)


def is_tensor(hint: Any) -> bool:
    """Whether a parameter of this type is a tensor, or None."""
    import torch

    kinds = [kind for kind in _alternatives(hint) if kind is not types.NoneType]
    return kinds == [torch.Tensor]


def is_optional(hint: Any) -> bool:
    """Whether it may be None."""
    return types.NoneType in _alternatives(hint)


def tensors_of(hints: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters that are tensors, in order."""
    return tuple(name for name, hint in hints.items() if name != "return" and is_tensor(hint))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint) if union else (hint,)


def _parameters(signature: inspect.Signature) -> str:
    """The parameter list without types, with names for the defaults."""
    bare = [
        parameter.replace(annotation=parameter.empty, default=_default(parameter))
        for parameter in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    return text[1:-1]


class _Name(str):
    """Printed as it is where a default stands."""

    __repr__ = str.__str__


def _default(parameter: inspect.Parameter) -> Any:
    given = parameter.default is not parameter.empty
    return _Name(f"default_{parameter.name}") if given else parameter.empty


def _arguments(signature: inspect.Signature) -> str:
    """The same parameters, passed on."""
    named = inspect.Parameter.KEYWORD_ONLY
    return ", ".join(
        f"{name}={name}" if parameter.kind is named else name
        for name, parameter in signature.parameters.items()
    )


def _lines(statements: list[str], indent: int) -> str:
    """The statements in a block of that indentation."""
    return f"\n{' ' * indent}".join(statements) or "pass"


@functools.cache
def compiled(source: str, name: str) -> Callable[[dict[str, Any]], Callable[..., Any]]:
    """What gives the function `name` of a text, with these globals."""
    code = compile(source, f"<{name} of exactness.launching>", "exec")

    def bind(names: dict[str, Any]) -> Callable[..., Any]:
        exec(code, names)
        return names[name]

    return bind
