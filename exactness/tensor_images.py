"""Parse the bytes of .safetensors and .npy files into bit patterns that share those bytes.

Sources: the safetensors format description (github.com/huggingface/safetensors); NEP 1 for .npy
headers.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from exactness.bits import AnyFormat, Bits, format_of, unsigned
from exactness.formats import INTEGERS, bf16, e4m3fn, e5m2, f16, f32, f64

SAFETENSORS_FORMATS: Mapping[str, AnyFormat] = {
    "F64": f64,
    "F32": f32,
    "F16": f16,
    "BF16": bf16,
    "F8_E5M2": e5m2,
    "F8_E4M3": e4m3fn,
    "BOOL": INTEGERS["bool"],
    **{
        f"{kind}{bits}": INTEGERS[f"{kind.lower()}{bits}"]
        for kind in "IU"
        for bits in (8, 16, 32, 64)
    },
}
"""safetensors dtype names and the formats they mean."""

_MAX_HEADER = 100_000_000


class Refused(Exception):
    """A parser's finding, to be completed with the file's name."""

    def __init__(self, problem: str, advice: str = "damaged or foreign: write the file anew"):
        super().__init__(problem)
        self.problem = problem
        self.advice = advice


def safetensors_image(
    data: np.ndarray,
) -> tuple[dict[str, Callable[[], Bits]], dict[str, str]]:
    """The tensors of a .safetensors file, in the order of their bytes, and its metadata.

    Args:
        data: all bytes of the file, uint8.

    Returns:
        Functions that give each tensor's bits without a copy, by name; the metadata.

    Raises:
        Refused: header or sizes do not fit, or a dtype is not known.
    """
    header, payload = _split(data)
    metadata = header.pop("__metadata__", {})
    end = 0
    entries: dict[str, Callable[[], Bits]] = {}
    for name, entry in sorted(header.items(), key=lambda item: _span(*item)):
        fmt, shape, (begin, stop) = _entry(name, entry)
        if begin != end:
            raise Refused(f"entry {name!r} begins at byte {begin}, the one before ends at {end}")
        end = stop
        entries[name] = partial(_patterns, payload, begin, stop, fmt, shape)
    if end != payload.size:
        kind = "truncated: " if end > payload.size else ""
        raise Refused(f"{kind}header describes {end} bytes of tensors, {payload.size} follow")
    return entries, metadata


def _split(data: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    size = int.from_bytes(data[:8].tobytes(), "little")
    if data.size < 8 or size > min(_MAX_HEADER, data.size - 8):
        raise Refused(f"not safetensors, or truncated: header of {size} bytes in {data.size}")
    header = json.loads(data[8 : 8 + size].tobytes(), object_pairs_hook=_unique)
    if not isinstance(header, dict):
        raise Refused("safetensors header is not a JSON object")
    return header, data[8 + size :]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("safetensors header names an entry twice")
    return found


def _span(name: str, entry: Any) -> tuple[int, int]:
    try:
        begin, end = entry["data_offsets"]
        return int(begin), int(end)
    except (TypeError, KeyError, ValueError):
        raise Refused(f"entry {name!r} has no data_offsets") from None


def _entry(name: str, entry: Any) -> tuple[AnyFormat, tuple[int, ...], tuple[int, int]]:
    dtype, shape = entry.get("dtype"), tuple(entry.get("shape", ()))
    begin, end = _span(name, entry)
    if dtype not in SAFETENSORS_FORMATS:
        raise Refused(
            f"entry {name!r} has dtype {dtype}", f"{', '.join(SAFETENSORS_FORMATS)} can be read"
        )
    fmt = SAFETENSORS_FORMATS[dtype]
    if any(not isinstance(n, int) or n < 0 for n in shape) or begin < 0:
        raise Refused(f"entry {name!r} has shape {shape} at byte {begin}")
    if math.prod(shape) * (fmt.bits // 8) != end - begin:
        raise Refused(f"entry {name!r}: {end - begin} bytes do not hold {dtype} {shape}")
    return fmt, shape, (begin, end)


def _patterns(
    payload: np.ndarray, begin: int, end: int, fmt: AnyFormat, shape: tuple[int, ...]
) -> Bits:
    return Bits(payload[begin:end].view(unsigned(fmt)).reshape(shape), fmt)


def npy_image(data: np.ndarray) -> Bits:
    """The array of a .npy image, without a copy unless its byte order is foreign."""
    stream = io.BytesIO(data[: 1 << 17].tobytes())
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise Refused(f".npy version {version} holds structured data", "save plain arrays")
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(stream)
    fmt = _numpy_format(dtype)
    size = math.prod(shape) * dtype.itemsize
    content = data[stream.tell() :]
    if content.size < size:
        raise Refused(f"truncated: {shape} of {dtype} needs {size} bytes, {content.size} follow")
    word = unsigned(fmt).newbyteorder(dtype.byteorder if dtype.byteorder in "<>" else "=")
    patterns = content[:size].view(word).reshape(shape, order="F" if fortran else "C")
    return Bits(patterns.astype(unsigned(fmt), copy=False), fmt)


def _numpy_format(dtype: np.dtype[Any]) -> AnyFormat:
    if dtype.hasobject:
        raise Refused("holds Python objects", "save numeric arrays (objects need unpickling)")
    if dtype.kind == "V":
        raise Refused(
            f"dtype {dtype.str} does not say which format it is",
            "NumPy cannot store bf16 and fp8; save them as .safetensors",
        )
    try:
        return format_of(np.empty(0, dtype.newbyteorder("=")))
    except TypeError as error:
        raise Refused(str(error), "save real numbers") from None
