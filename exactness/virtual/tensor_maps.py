"""Tensor maps: what the copy engine knows about a tensor in global memory.

The 128 bytes are opaque to programs: `tensormap.replace` and the driver's encoder write them, bulk
copies read them. So they have a layout of our own here.

Source: PTX ISA 9.0, sections 5.5.8 (tensor map) and 9.7.9.28 (tensormap.replace); the CUDA driver
API's `cuTensorMapEncodeTiled` for the limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exactness.virtual.errors import LaunchError, UnsupportedInstructionError
from exactness.virtual.state import Bits

MAP_BYTES = 128
LAYOUT = np.dtype(
    [
        ("global_address", "<u8"),
        ("global_stride", "<u8", 4),
        ("box_dim", "<u4", 5),
        ("global_dim", "<u4", 5),
        ("element_stride", "<u4", 5),
        ("rank", "<u4"),
        ("elemtype", "<u4"),
        ("interleave_layout", "<u4"),
        ("swizzle_mode", "<u4"),
        ("fill_mode", "<u4"),
        ("reserved", "u1", 8),
    ]
)
"""Where this machine keeps the fields; the rank is stored less one, as PTX wants it."""

ELEMENT_BYTES: Mapping[int, int] = {
    0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4,
}  # fmt: skip
"""Bytes of PTX's element types: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz."""

_CONVERTING = frozenset([8, 11, 12])
"""Element types that change bits on the way: they flush or round."""
_SPANS = (16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Box:
    """What the maps of several lanes share.

    Attributes:
        shape: elements of the box, innermost first.
        size: bytes of an element.
        span: bytes of the spans that the swizzle permutes; 16 for none.
    """

    shape: tuple[int, ...]
    size: int
    span: int

    @property
    def bytes(self) -> int:
        """Bytes of the box in shared memory."""
        return int(np.prod(self.shape)) * self.size

    @classmethod
    def of(cls, fields: Bits) -> Box:
        """The box of a decoded map.

        Raises:
            UnsupportedInstructionError: a feature without a model.
            LaunchError: what the hardware refuses.
        """
        rank, kind = int(fields["rank"]) + 1, int(fields["elemtype"])
        mode = int(fields["swizzle_mode"])
        unknown = [
            name
            for name, bad in (
                ("an element type that converts", kind in _CONVERTING or kind not in ELEMENT_BYTES),
                ("an interleaved layout", fields["interleave_layout"] != 0),
                ("a fill with NaN", fields["fill_mode"] != 0),
                ("an element stride", (fields["element_stride"][:rank] != 1).any()),
                ("another swizzle", mode >= len(_SPANS)),
            )
            if bad
        ]
        if unknown:
            raise UnsupportedInstructionError(f"{unknown[0]} of a tensor map is not modelled")
        box = cls(tuple(map(int, fields["box_dim"][:rank])), ELEMENT_BYTES[kind], _SPANS[mode])
        box.check()
        return box

    def check(self) -> None:
        """Refuse a box that the hardware refuses."""
        row = self.shape[0] * self.size
        if not all(0 < extent <= 256 for extent in self.shape):
            raise LaunchError(f"the box {self.shape} of a tensor map: 1 to 256 a side are accepted")
        if row % 16 or (self.span > 16 and row > self.span):
            raise LaunchError(
                f"rows of {row} bytes in the box of a tensor map; a multiple of 16 is accepted, "
                f"with a swizzle at most its {self.span}"
            )


def encoded(
    address: int,
    kind: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: int,
    fill: int,
) -> bytes:
    """A map as the host encodes it.

    Args:
        address: of the tensor, a multiple of 16.
        kind: PTX's element type.
        shape: elements, innermost first.
        strides: bytes between neighbours of every dimension but the innermost.
        box: elements, innermost first.
        swizzle: PTX's swizzle mode.
        fill: PTX's fill mode.
    """
    fields = np.zeros((), LAYOUT)
    rank = len(shape)
    fields["global_address"], fields["rank"], fields["elemtype"] = address, rank - 1, kind
    fields["global_dim"][:rank], fields["box_dim"][:rank] = shape, box
    fields["global_stride"][: rank - 1] = strides
    fields["element_stride"][:rank] = 1
    fields["swizzle_mode"], fields["fill_mode"] = swizzle, fill
    return fields.tobytes()


def same_boxes(maps: Bits) -> Bits:
    """Numbers of decoded maps [lanes] that agree in everything but address and extents."""
    rest = maps.copy()
    for name in ("global_address", "global_stride", "global_dim"):
        rest[name] = 0
    words = rest.view(np.uint64).reshape(len(maps), -1)
    return np.unique(words, axis=0, return_inverse=True)[1].ravel()


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces that a box is copied in.

    Attributes:
        size: bytes of one.
        addresses: u64 global addresses, [lanes, pieces].
        inside: whether a piece lies in the tensor, [lanes, pieces].
        places: byte offsets in shared memory from the box's start, before swizzling, [pieces].
    """

    size: int
    addresses: Bits
    inside: Bits
    places: Bits


def pieces(maps: Bits, box: Box, corners: Bits) -> Pieces:
    """Cut boxes into pieces: of 16 bytes, or single elements where a tensor's edge cuts those.

    A box begins at a multiple of 16 bytes in its rows: otherwise an H200 stops with an illegal
    instruction (measured).

    Args:
        maps: decoded maps, [lanes].
        box: what they share.
        corners: i64 coordinates of the first element, innermost first, [lanes, rank].

    Raises:
        LaunchError: an address, a stride or a coordinate that the hardware refuses.
    """
    rank, extents = len(box.shape), maps["global_dim"].astype(np.int64)
    strides = maps["global_stride"][:, : rank - 1].astype(np.int64)
    start = maps["global_address"].astype(np.int64)
    if (start % 16).any() or (strides % 16).any():
        raise LaunchError("the address and the strides of a tensor map are multiples of 16")
    per = 16 // box.size
    if (corners[:, 0] % per).any():
        raise LaunchError(
            f"an innermost coordinate of {int(corners[corners[:, 0] % per != 0][0, 0])} elements of"
            f" {box.size} bytes; multiples of 16 bytes are accepted"
        )
    if (extents[:, 0] % per).any():
        per = 1
    index = _indices(box.shape, per)
    addresses = np.broadcast_to(start[:, None], (len(maps), index.shape[1])).copy()
    inside = np.ones(addresses.shape, np.bool_)
    for axis in range(rank):
        at = corners[:, axis, None] + index[axis]
        inside &= (at >= 0) & (at < extents[:, axis, None])
        addresses += at * (box.size if axis == 0 else strides[:, axis - 1, None])
    places = np.arange(index.shape[1], dtype=np.int64) * (per * box.size)
    return Pieces(per * box.size, addresses.view(np.uint64), inside, places)


def _indices(shape: tuple[int, ...], per: int) -> Bits:
    """Indices of every `per`-th element of a box, [rank, elements], innermost first."""
    sides = [np.arange(extent) for extent in reversed(shape[1:])] + [np.arange(0, shape[0], per)]
    grids = np.meshgrid(*sides, indexing="ij")
    return np.stack([grid.ravel() for grid in reversed(grids)])
