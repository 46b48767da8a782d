"""What kernels know of memory: argument checks, strides, vector accesses, constants."""

import ctypes
from dataclasses import dataclass

import torch
import triton.language as tl

from ._host import check_number

FLOATS = (torch.bfloat16, torch.float16, torch.float32)

MAX_DIMS = 3
"""Dimensions of a tensor that a kernel can walk, after merging."""

VECTOR = 16
"""Bytes of a vector access."""

COLUMNS: tl.constexpr = tl.constexpr(8)
"""Columns are a multiple of this many where rows are read in vectors."""


def f32_constant(value: float) -> float:
    """`value` rounded from f64 to f32 once, ties to even; too large becomes infinite."""
    return ctypes.c_float(value).value


def check_float_tensor(
    name: str, x: object, dtypes: tuple[torch.dtype, ...] = FLOATS
) -> torch.Tensor:
    """`x`, if it is a strided tensor of one of `dtypes`.

    Raises:
        TypeError: not a tensor, or of another dtype.
        ValueError: sparse or another layout without strides.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: got {type(x).__name__}; a torch.Tensor is accepted")
    if x.layout is not torch.strided:
        raise ValueError(f"{name}: layout {x.layout} is not accepted; torch.strided is")
    if x.dtype not in dtypes:
        accepted = ", ".join(str(dtype) for dtype in dtypes)
        verb = "is" if len(dtypes) == 1 else "are"
        raise TypeError(f"{name}: dtype {x.dtype} is not accepted; {accepted} {verb}")
    return x


def check_alike(name: str, x: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """Refuse a pair of tensors that differ in dtype, device or shape.

    Raises:
        TypeError: another dtype.
        ValueError: another device or shape.
    """
    if x.dtype != other.dtype:
        raise TypeError(f"{name}: dtype {x.dtype} is not accepted; {other_name} has {other.dtype}")
    if x.device != other.device:
        raise ValueError(
            f"{name}: device {x.device} is not accepted; {other_name} is on {other.device}"
        )
    if x.shape != other.shape:
        raise ValueError(
            f"{name}: shape {tuple(x.shape)} is not accepted; {other_name} has {tuple(other.shape)}"
        )


def check_positive(name: str, value: object) -> float:
    """`value` as a float above zero, infinity included.

    Raises:
        TypeError: not an int or float.
        ValueError: not above zero, or an int beyond f64.
    """
    number = check_number(name, value)
    if not number > 0:
        raise ValueError(f"{name}: {value!r} is not accepted; a number above 0 is")
    return number


def check_own_elements(name: str, x: torch.Tensor) -> None:
    """Refuse to write in place where two indices share an element.

    Raises:
        ValueError: a stride is 0, or dimensions overlap.
    """
    spanned = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride < spanned:
                raise ValueError(
                    f"{name}: strides {x.stride()} of shape {tuple(x.shape)} are not accepted; "
                    "it is written in place, so its elements must not overlap"
                )
            spanned += stride * (size - 1)


_BLOCKS = (64, 128, 256, 1024)
"""Columns of a tile: all of a short row; few values, few compiles."""

_TILE = 1024
"""Elements of a tile: 8 a thread, a vector of 16-bit floats."""

WARPS = 4

_MAX_ROWS = 2**31 - 1


@dataclass(frozen=True)
class Walk:
    """How a kernel walks several tensors of one shape: outer · middle rows of columns.

    Attributes:
        outer: size of the slowest dimension.
        middle: size of the next.
        cols: size of the fastest.
        strides: by tensor, in elements: of outer, middle and columns.
        aligned: whether every row of every tensor can be read in vectors of 16 bytes.
        unit: by tensor, whether its columns are contiguous.
    """

    outer: int
    middle: int
    cols: int
    strides: tuple[tuple[int, int, int], ...]
    aligned: bool
    unit: tuple[bool, ...]

    @property
    def rows(self) -> int:
        """Rows in all."""
        return self.outer * self.middle

    @property
    def block(self) -> int:
        """Columns of a tile."""
        return next((block for block in _BLOCKS if self.cols <= block), _BLOCKS[-1])

    @property
    def rows_of_tile(self) -> int:
        """Rows of a tile."""
        return 1 if self.rows == 1 else _TILE // self.block

    @property
    def programs(self) -> int:
        """Tiles in all."""
        return -(-self.rows // self.rows_of_tile) * -(-self.cols // self.block)

    @property
    def constants(self) -> dict[str, object]:
        """The compile-time constants of `_rows`. Only what is split needs divisions."""
        one_block = self.cols <= self.block
        return {
            "UNIT": self.unit,
            "ALIGN": VECTOR if self.aligned else 1,
            "ROWS": self.rows_of_tile,
            "BLOCK": self.block,
            "SPLIT": "rows" if one_block else "columns" if self.rows == 1 else "both",
            "FLAT": self.outer == 1,
        }


def walk(**tensors: torch.Tensor) -> Walk:
    """Merge the dimensions of tensors of one shape as far as all their strides allow.

    Raises:
        ValueError: more than three dimensions remain.
    """
    first = next(iter(tensors.values()))
    dims = _merged(first.shape, [x.stride() for x in tensors.values()])
    if len(dims) > MAX_DIMS:
        strides = ", ".join(f"{name} {x.stride()}" for name, x in tensors.items())
        raise ValueError(
            f"{next(iter(tensors))}: shape {tuple(first.shape)} with strides {strides} is not "
            f"accepted; at most {MAX_DIMS} dimensions that cannot be merged are"
        )
    padded = [(1, (0,) * len(tensors))] * (MAX_DIMS - len(dims)) + dims
    (outer, o), (middle, m), (cols, c) = padded
    if outer > 1 and outer * middle > _MAX_ROWS:
        raise ValueError(
            f"{next(iter(tensors))}: {outer * middle} rows that cannot be merged are not accepted; "
            f"at most {_MAX_ROWS} are"
        )
    aligned = all(_is_aligned(x, cols, (o[i], m[i]), c[i]) for i, x in enumerate(tensors.values()))
    strides = tuple(zip(o, m, c, strict=True))
    return Walk(outer, middle, cols, strides, aligned, tuple(s == 1 for s in c))


def _merged(shape: torch.Size, strides: list[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """(size, stride in every tensor) of the merged dimensions, slowest first."""
    dims: list[tuple[int, tuple[int, ...]]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        steps = tuple(stride[axis] for stride in strides)
        if dims and all(slow == fast * size for slow, fast in zip(dims[-1][1], steps, strict=True)):
            dims[-1] = (dims[-1][0] * size, steps)
        else:
            dims.append((size, steps))
    return dims or [(1, (1,) * len(strides))]


def _is_aligned(x: torch.Tensor, cols: int, outer: tuple[int, ...], stride: int) -> bool:
    """Whether rows start and end at 16 bytes; a stride of 0 reads one element, anywhere."""
    if stride == 0:
        return True
    starts = [x.data_ptr(), *(step * x.element_size() for step in outer)]
    return stride == 1 and cols % VECTOR == 0 and all(byte % VECTOR == 0 for byte in starts)
