"""Finished chunks of a run on disk, so that a run that was stopped can go on."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exactness.errors import UsageError
from exactness.writing import write_atomically

_OURS = {"model_sha256", "text_sha256", "chunk"}
"""What every `run.json` says; a file without them is not of a run."""


@dataclass(frozen=True)
class Store:
    """The folder of a run.

    Attributes:
        folder: holds `run.json`, what the chunks were made from, and a file for each.
        run: SHA-256 of `run.json`; each chunk carries it.
        discarded: what `begin` threw away, in words; empty if it was nothing.
    """

    folder: Path
    run: str
    discarded: str = ""

    @classmethod
    def begin(cls, folder: Path, settings: Mapping[str, Any]) -> Store:
        """Start anew; chunks of an earlier run are removed.

        Args:
            folder: of the run; created if it is missing.
            settings: what the chunks are made from.

        Raises:
            UsageError: the folder has a `run.json` or chunks that are not of a run.
        """
        now, text = _plain(settings)
        before = _kept(folder)
        files = list(_chunks(folder, before))
        if before is None and files:
            raise UsageError(
                f"{files[0]} would be overwritten, and no run.json says that it is of a run; "
                "move it away or give another --report"
            )
        for file in files:
            file.unlink()
        write_atomically(folder / "run.json", text)
        return cls(folder, _digest(text), _discarded(len(files), before == now))

    @classmethod
    def resume(cls, folder: Path, settings: Mapping[str, Any]) -> Store:
        """Go on with a run.

        Args:
            folder: of the run.
            settings: what the chunks are made from.

        Raises:
            UsageError: there is none, it was made from something else, or a chunk is damaged.
        """
        now, text = _plain(settings)
        before = _kept(folder)
        if before is None:
            raise UsageError(f"--resume: {folder} has no run to go on with")
        for difference in _differences("", before, now):
            raise UsageError(f"--resume: {difference}; leave --resume out to start anew")
        store = cls(folder, _digest(text))
        for file in _chunks(folder, before):
            store.read(_number(file))
        return store

    def _file(self, number: int) -> Path:
        return self.folder / f"chunk-{number:05d}.npz"

    def write(self, number: int, figures: Mapping[str, np.ndarray]) -> None:
        """Keep the figures of a chunk."""
        stream = io.BytesIO()
        np.savez(stream, run=np.array(self.run), **dict(figures))  # type: ignore[arg-type]
        write_atomically(self._file(number), stream.getvalue())

    def has(self, number: int) -> bool:
        """Whether a chunk is finished."""
        return self._file(number).exists()

    def read(self, number: int) -> dict[str, np.ndarray]:
        """The figures of a finished chunk.

        Raises:
            UsageError: the file is damaged, or not of this run.
        """
        file = self._file(number)
        try:
            with np.load(file, allow_pickle=False) as kept:
                found = {name: kept[name] for name in kept.files}
        except Exception as error:  # NumPy, zipfile and zlib raise what they like
            why = f"{type(error).__name__}: {error}"
            raise UsageError(f"{file} is damaged: {why}; remove it to score it again") from None
        if str(found.pop("run", "")) != self.run:
            raise UsageError(f"{file} is not of this run; remove it to score it again")
        return found

    def clear(self) -> None:
        """Remove the chunks of a run that has ended."""
        for file in _chunks(self.folder, _kept(self.folder)):
            file.unlink()
        (self.folder / "run.json").unlink(missing_ok=True)


def _discarded(chunks: int, same: bool) -> str:
    if not chunks:
        return ""
    which = f"{chunks} finished chunk{'' if chunks == 1 else 's'}"
    if same:
        return f"{which} discarded; --resume would have gone on"
    return f"{which} of another run discarded"


def _plain(settings: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Settings as JSON gives them back, and as it is written."""
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain, json.dumps(plain, indent=1, sort_keys=True).encode()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _kept(folder: Path) -> dict[str, Any] | None:
    """What `run.json` says; None if there is none.

    Raises:
        UsageError: it cannot be read, or is another file.
    """
    file = folder / "run.json"
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= _OURS:
        raise UsageError(f"{file} is not what a run writes; remove it or give another --report")
    return found


def _chunks(folder: Path, settings: Mapping[str, Any] | None) -> Iterator[Path]:
    """The files that have the names of a run's chunks."""
    for file in sorted(folder.glob("chunk-*.npz")):
        if re.fullmatch(r"chunk-\d{5,}\.npz", file.name):
            number = _number(file)
            if settings is None or number < settings.get("chunks", number + 1):
                yield file


def _number(file: Path) -> int:
    return int(file.stem.removeprefix("chunk-"))


def _differences(name: str, before: Any, after: Any) -> Iterator[str]:
    """What differs, each by its path, in the order of `after`."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*after, *(key for key in before if key not in after)]:
            path = f"{name}.{key}" if name else key
            yield from _differences(path, before.get(key), after.get(key))
    else:
        yield f"{name} was {before!r:.80}, now it is {after!r:.80}"
