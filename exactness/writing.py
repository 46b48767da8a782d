"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exactness.errors import UsageError


def write_atomically(path: Path, data: bytes) -> None:
    """Write under a temporary name in the same folder, then rename; the folder is created.

    Raises:
        UsageError: it cannot be written; what stood there stays.
    """
    with _refusing(path):
        _check(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def check_writable(*paths: Path | None) -> None:
    """Refuse files that could not be written, before the work that they are to hold.

    Nothing is left behind, and no folder is created.

    Args:
        *paths: the files; None is no file.

    Raises:
        UsageError: one of them cannot be written.
    """
    for path in paths:
        if path is not None:
            with _refusing(path):
                _check(path)


def _check(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    folder = next(each for each in path.absolute().parents if each.exists())
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
