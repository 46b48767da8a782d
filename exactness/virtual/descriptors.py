"""Tensor descriptors that the host passes to a Triton kernel.

Triton's launcher replaces such an argument by a tensor map, its shape and its strides; this module
does the same. Source: `make_tensordesc_arg` and `expand_signature` in
`triton/backends/nvidia/driver.py` (Triton 3.6 to 3.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exactness.virtual.errors import UnsupportedInstructionError
from exactness.virtual.tensor_maps import ELEMENT_BYTES, encoded

if TYPE_CHECKING:
    from exactness.virtual.arguments import Argument

MAP_TYPE = "tensor map"
_PREFIX = "tensordesc"
_NAN_FILL, _TF32 = 1, 11


@dataclass(frozen=True, slots=True)
class HostMap:
    """A descriptor with what the compiled kernel expects of its map.

    Attributes:
        descriptor: Triton's `TensorDescriptor`.
        expected: swizzle, element type and block as the compiler chose them.
    """

    descriptor: Any
    expected: Mapping[str, Any]

    def encode(self, address: int) -> bytes:
        """The map of the tensor at `address`."""
        descriptor, expected = self.descriptor, self.expected
        kind = _TF32 if getattr(descriptor, "round_f32_to_tf32", False) else expected["elem_type"]
        size = ELEMENT_BYTES[expected["elem_type"]]
        fill = _NAN_FILL if getattr(descriptor, "padding", "zero") == "nan" else 0
        strides = [int(stride) * size for stride in descriptor.strides[:-1]]
        return encoded(
            address,
            kind,
            [int(extent) for extent in reversed(descriptor.shape)],
            strides[::-1],
            list(reversed(expected["block_size"])),
            int(expected["swizzle"]),
            fill,
        )


def is_descriptor(kind: str) -> bool:
    """Whether a type of Triton's signature is a tensor descriptor."""
    return kind.startswith(_PREFIX)


def expanded(
    arguments: Iterable[Argument], expected: Sequence[Mapping[str, Any] | None]
) -> Iterator[Argument]:
    """Replace descriptors by map, shape and strides.

    Args:
        arguments: in parameter order.
        expected: what the compiler says about each descriptor among them.

    Raises:
        UnsupportedInstructionError: the kernel was compiled without tensor maps.
    """
    from exactness.virtual.arguments import Argument

    found = iter(expected)
    for argument in arguments:
        if not is_descriptor(argument.type):
            yield argument
            continue
        meta, descriptor = next(found, None), argument.value
        if meta is None or meta["fp4_padded"]:
            raise UnsupportedInstructionError(
                f"argument {argument.name} is a tensor descriptor without a map of whole elements"
            )
        yield Argument(argument.name, MAP_TYPE, HostMap(descriptor, meta))
        for axis, extent in enumerate(descriptor.shape):
            yield Argument(f"{argument.name}.shape[{axis}]", "i32", extent)
        for axis, stride in enumerate(descriptor.strides):
            yield Argument(f"{argument.name}.strides[{axis}]", "i64", stride)
