"""Whether given tensors fit what a claim says about its inputs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from reprlib import repr as short
from typing import Any, TypeAlias

from exactness.bits import Bits
from exactness.formats import Format, Integer
from exactness.inputs import Inputs, Tensor
from exactness.inputs import dims as dimensions
from exactness.inputs.dims import Dim
from exactness.inputs.spec import IntegerTensor

Extents: TypeAlias = tuple[int, ...]
"""What a name of a size stands for: one extent, or several leading ones taken together."""


class Misfit(Exception):
    """Why given arguments are none of a claim's; the message names the argument."""


def check_fit(inputs: Inputs, tensors: Mapping[str, Bits]) -> None:
    """Refuse tensors whose formats or shapes contradict the claim or each other.

    Leading dimensions may be more or fewer than the claim draws, as references take any number
    of them where rows are independent: `[rows, n]` also stands for `[tokens, heads, n]`. Whether
    a tensor of fewer dimensions is right is left to the reference, which may split the last one.

    Args:
        inputs: the claim's inputs.
        tensors: a tensor for each of them.

    Raises:
        Misfit: a tensor has another format, rank or shape than is accepted beside the others.
    """
    formats: dict[str, str] = {}
    for name, tensor in inputs.tensors.items():
        _check_format(inputs, name, tensor, tensors[name].format, formats)
    sizes: dict[str, Extents] = {}
    unsolved = [(name, inputs.tensors[name].dims, tensors[name].shape) for name in inputs.tensors]
    known = -1
    while unsolved and len(sizes) > known:
        known = len(sizes)
        unsolved = [each for each in unsolved if not _solve(*each, sizes)]


def _check_format(
    inputs: Inputs,
    name: str,
    tensor: Tensor | IntegerTensor,
    fmt: Format | Integer,
    chosen: dict[str, str],
) -> None:
    choice = tensor.format if isinstance(tensor.format, str) else None
    accepted = inputs.formats[choice] if choice else (tensor.format,)
    names = [each if isinstance(each, str) else each.name for each in accepted]
    if isinstance(tensor, IntegerTensor) and isinstance(fmt, Integer):
        return  # references widen integers; the claim draws one of their formats
    if fmt.name not in names:
        raise Misfit(f"{name}: {fmt.name} is not accepted; {', '.join(names)} is")
    if choice and chosen.setdefault(choice, fmt.name) != fmt.name:
        raise Misfit(f"{name}: {fmt.name} beside {chosen[choice]}; both must have one format")


def _solve(name: str, dims: Sequence[Dim], shape: Extents, sizes: dict[str, Extents]) -> bool:
    """Bind the names of a tensor's dimensions; whether all of them are known now.

    Raises:
        Misfit: the shape contradicts what is known.
    """
    pairs = _aligned(dims, shape)
    if pairs is None:
        raise Misfit(f"{name}: shape {list(shape)} is not accepted; {_text(dims)} is")
    solved = [_solve_one(dim, extents, sizes) for dim, extents in pairs]
    if False in solved and len(shape) >= len(dims):
        named = sorted(frozenset().union(*map(dimensions.names, dims)) & sizes.keys())
        known = ", ".join(f"{key} = {_extents(sizes[key])}" for key in named)
        fits = f"{_text(dims)} is, with {known}" if known else f"{_text(dims)} is"
        raise Misfit(f"{name}: shape {list(shape)} does not fit; {fits}")
    return None not in solved


def _aligned(dims: Sequence[Dim], shape: Extents) -> list[tuple[Dim, Extents]] | None:
    """Dimensions beside their extents, from the last; the first takes what is left over."""
    extra = len(shape) - len(dims)
    if extra and (len(dims) < 2 or not shape):
        return None
    if extra > 0:
        leading = [(dims[0], shape[: extra + 1])]
        return leading + [(d, (n,)) for d, n in zip(dims[1:], shape[extra + 1 :], strict=True)]
    return [(dim, (extent,)) for dim, extent in zip(dims[-extra:], shape, strict=True)]


def _solve_one(dim: Dim, extents: Extents, sizes: dict[str, Extents]) -> bool | None:
    """True if the extent is right, False if wrong, None if that cannot be known yet."""
    if isinstance(dim, str) and dim.isidentifier():
        return sizes.setdefault(dim, extents) == extents
    names = dimensions.names(dim)
    known = {name: sizes[name][0] for name in names if len(sizes.get(name, ())) == 1}
    unknown = sorted(names - known.keys())
    if len(extents) != 1:
        return False
    if not unknown:
        return dimensions.value(dim, known) == extents[0]
    if len(unknown) > 1 or unknown[0] in sizes:
        return None
    found = _inverse(dim, unknown[0], known, extents[0])
    if found is None:
        return False
    sizes[unknown[0]] = (found,)
    return True


def _inverse(dim: Dim, name: str, known: Mapping[str, int], extent: int) -> int | None:
    """The size with which `dim` has this extent; dimensions grow with every size."""
    low, high = 0, extent
    while low < high:
        middle = (low + high) // 2
        if dimensions.value(dim, {**known, name: middle}) < extent:
            low = middle + 1
        else:
            high = middle
    return low if dimensions.value(dim, {**known, name: low}) == extent else None


def _text(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _extents(extents: Extents) -> str:
    return "×".join(map(str, extents))


def check_parameter(name: str, value: Any, values: Sequence[Any]) -> Any:
    """A given parameter, of the kind of the values that the claim draws.

    Args:
        name: the parameter.
        value: what was given.
        values: what the claim draws.

    Returns:
        The value; an integer for a float as a float, a list for a tuple as a tuple.

    Raises:
        Misfit: another kind of value.
    """
    like = values[0]
    if isinstance(like, str):
        if value not in values:
            raise Misfit(f"{name}: {short(value)} is not accepted; {', '.join(values)} are")
        return value
    if isinstance(like, tuple) and isinstance(value, list | tuple) and len(value) == len(like):
        pairs = zip(value, like, strict=True)
        return tuple(check_parameter(name, each, (sample,)) for each, sample in pairs)
    if isinstance(like, float) and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > sys.float_info.max and isinstance(value, int):
            raise Misfit(f"{name}: {short(value)} is not accepted; what an f64 holds is")
        return float(value)
    if isinstance(like, tuple | float) or type(value) is not type(like):
        raise Misfit(f"{name}: {short(value)} is not accepted; a value like {like!r} is")
    return value
