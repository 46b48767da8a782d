"""Read named tensors from .safetensors, .npz, .npy and .pt files, memory-mapped where possible.

Nothing is unpickled but plain tensors, and no tensor is read before it is asked for. A file that
is damaged, foreign or holds what has no bit patterns raises `UnreadableError`: one line that
names the file, the entry and what to do.

Source: the ZIP application note (APPNOTE.TXT 4.3) for where a stored member's bytes begin.
"""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from exactness.bits import Bits, is_torch
from exactness.compare import as_bits
from exactness.errors import UsageError
from exactness.tensor_images import Refused, npy_image, safetensors_image

T = TypeVar("T")

UNNAMED = "tensor"
"""What the only tensor of a .npy file, or of a .pt file without names, is called."""

_CRC_STEP = 1 << 24


class UnreadableError(UsageError):
    """A file cannot be read as tensors; the message is one line that says what to do."""

    def __init__(self, path: Path, problem: str, advice: str) -> None:
        super().__init__(f"{path}: {' '.join(problem.split())}; {advice}")
        self.path = path


@dataclass(frozen=True, slots=True, eq=False)
class TensorFile(Mapping[str, Bits]):
    """The tensors of a file by name, in file order; each is mapped or read when asked for.

    Attributes:
        path: the file.
        metadata: text kept beside the tensors (safetensors only).
        skipped: names of entries that are not tensors.
        named: whether the names come from the file.
    """

    path: Path
    loaders: Mapping[str, Callable[[], Bits]]
    metadata: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    named: bool = True

    def __getitem__(self, name: str) -> Bits:
        load = self.loaders[name]
        return _guarded(self.path, load, f"entry {name!r}: ")

    def __iter__(self) -> Iterator[str]:
        return iter(self.loaders)

    def __len__(self) -> int:
        return len(self.loaders)


def open_tensors(path: Path | str) -> TensorFile:
    """Open a tensor file by its extension.

    Args:
        path: a .safetensors, .npz, .npy, .pt or .pth file.

    Raises:
        UnreadableError: it does not exist, is damaged, is of another kind than its extension
            says, or needs code to be unpickled.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UnreadableError(
            path, f"unknown extension {path.suffix!r}", f"{', '.join(_READERS)} can be read"
        )
    if not path.is_file():
        problem = "is not a regular file" if path.exists() else "does not exist"
        raise UnreadableError(path, problem, "check the path")
    return _guarded(path, partial(reader, path))


def _guarded(path: Path, read: Callable[[], T], where: str = "") -> T:
    """Call a parser; whatever damaged bytes make it raise becomes an `UnreadableError`."""
    try:
        return read()
    except UnreadableError:
        raise
    except Refused as refusal:
        raise UnreadableError(path, where + refusal.problem, refusal.advice) from None
    except Exception as error:
        first_line = "".join(filter(str.isprintable, str(error).split("\n")[0]))
        reason = f"{where}{type(error).__name__}: {first_line:.200}"
        raise UnreadableError(path, reason, "damaged or foreign: write the file anew") from error


def _map(path: Path) -> np.ndarray:
    if path.stat().st_size == 0:
        raise Refused("is empty")
    return np.asarray(np.memmap(path, np.uint8, mode="r"))


def _read_safetensors(path: Path) -> TensorFile:
    entries, metadata = safetensors_image(_map(path))
    return TensorFile(path, entries, metadata)


def _read_npy(path: Path) -> TensorFile:
    return TensorFile(path, {UNNAMED: partial(npy_image, _map(path))}, named=False)


def _read_npz(path: Path) -> TensorFile:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    loaders: dict[str, Callable[[], Bits]] = {}
    skipped = []
    for member in members:
        if member.filename.endswith(".npy"):
            loaders[member.filename.removesuffix(".npy")] = partial(_member, path, member)
        else:
            skipped.append(member.filename)
    return TensorFile(path, loaders, skipped=tuple(skipped))


def _member(path: Path, member: zipfile.ZipInfo) -> Bits:
    if member.compress_type != zipfile.ZIP_STORED:
        with zipfile.ZipFile(path) as archive:
            return npy_image(np.frombuffer(archive.read(member), np.uint8))
    data = _map(path)
    local = data[member.header_offset : member.header_offset + 30].tobytes()
    name, extra = int.from_bytes(local[26:28], "little"), int.from_bytes(local[28:30], "little")
    begin = member.header_offset + 30 + name + extra
    content = data[begin : begin + member.file_size]
    crc = 0
    for start in range(0, content.size, _CRC_STEP):
        crc = zlib.crc32(content[start : start + _CRC_STEP].data, crc)
    if local[:4] != b"PK\x03\x04" or content.size < member.file_size or crc != member.CRC:
        raise Refused("the checksum does not match")
    return npy_image(content)


def _read_pt(path: Path) -> TensorFile:
    content = _load_pt(path)
    loaders: dict[str, Callable[[], Bits]] = {}
    skipped: list[str] = []
    for name, leaf in _leaves(content, ""):
        if not is_torch(leaf):
            skipped.append(name or UNNAMED)
        elif name in loaders:
            raise Refused(f"two entries are called {name!r}", "rename one of them")
        else:
            loaders[name or UNNAMED] = partial(_torch_bits, leaf)
    return TensorFile(path, loaders, skipped=tuple(skipped), named=not is_torch(content))


def _load_pt(path: Path) -> Any:
    try:
        import torch
    except ImportError:
        raise Refused(".pt needs torch", "pip install 'exactness[torch]'") from None
    try:
        # Files older than torch 1.6 are no ZIP archives and cannot be mapped.
        mapped = zipfile.is_zipfile(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what is refused anyway
            return torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except Exception as error:
        if "Weights only load failed" in str(error):
            raise Refused(
                "needs code to be unpickled, which is refused (or is damaged)",
                "save plain tensors or a state_dict",
            ) from error
        raise


def _leaves(node: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Tensors and other leaves of nested mappings and sequences, with dotted names."""
    if isinstance(node, Mapping):
        children = [(str(key), child) for key, child in node.items()]
    elif isinstance(node, (list, tuple)):
        children = [(str(i), child) for i, child in enumerate(node)]
    else:
        yield name, node
        return
    for key, child in children:
        yield from _leaves(child, f"{name}.{key}" if name else key)


def _torch_bits(tensor: Any) -> Bits:
    try:
        return as_bits(tensor, "tensor")
    except TypeError as error:
        raise Refused(str(error), "save dense tensors of real numbers") from None


_READERS: Mapping[str, Callable[[Path], TensorFile]] = {
    ".safetensors": _read_safetensors,
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".pt": _read_pt,
    ".pth": _read_pt,
}
