"""Finished chunks of a run on disk, so that a run that was stopped can go on."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exactness.errors import UsageError
from exactness.writing import write_atomically


@dataclass(frozen=True)
class Store:
    """The folder of a run.

    Attributes:
        folder: holds `run.json`, what the chunks were made from, and a file for each.
    """

    folder: Path

    @classmethod
    def begin(cls, folder: Path, settings: Mapping[str, Any]) -> Store:
        """Start anew; chunks of an earlier run are removed."""
        store = cls(folder)
        for file in folder.glob("chunk-*.npz"):
            file.unlink()
        text = json.dumps(settings, indent=1, sort_keys=True)
        write_atomically(store._settings, text.encode())
        return store

    @classmethod
    def resume(cls, folder: Path, settings: Mapping[str, Any]) -> Store:
        """Go on with a run.

        Raises:
            UsageError: there is none, or it was made from something else.
        """
        store = cls(folder)
        try:
            kept = json.loads(store._settings.read_bytes())
        except FileNotFoundError:
            raise UsageError(f"--resume: {folder} has no run to go on with") from None
        except (OSError, ValueError) as error:
            raise UsageError(f"--resume: {store._settings} cannot be read: {error}") from None
        now = json.loads(json.dumps(settings))
        for name in sorted(now.keys() | kept.keys()):
            before, after = kept.get(name), now.get(name)
            if before != after:
                raise UsageError(
                    f"--resume: {name} was {before!r:.80}, now it is {after!r:.80}; "
                    "leave --resume out to start anew"
                )
        return store

    @property
    def _settings(self) -> Path:
        return self.folder / "run.json"

    def _file(self, number: int) -> Path:
        return self.folder / f"chunk-{number:05d}.npz"

    def write(self, number: int, figures: Mapping[str, np.ndarray]) -> None:
        """Keep the figures of a chunk."""
        stream = io.BytesIO()
        np.savez(stream, **dict(figures))  # type: ignore[arg-type]
        write_atomically(self._file(number), stream.getvalue())

    def has(self, number: int) -> bool:
        """Whether a chunk is finished."""
        return self._file(number).exists()

    def read(self, number: int) -> dict[str, np.ndarray]:
        """The figures of a finished chunk.

        Raises:
            UsageError: the file is damaged.
        """
        file = self._file(number)
        try:
            with np.load(file, allow_pickle=False) as kept:
                return {name: kept[name] for name in kept.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise UsageError(f"{file} is damaged: {error}; remove it") from None

    def clear(self) -> None:
        """Remove the chunks of a run that has ended."""
        for file in self.folder.glob("chunk-*.npz"):
            file.unlink()
        self._settings.unlink(missing_ok=True)
