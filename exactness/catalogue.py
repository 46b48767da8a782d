"""The catalogue: a project's kernels and references, mounted by path.

The folders named in `[tool.exactness]` of pyproject.toml are imported under a private package
name and never put on `sys.path`: a top-level importable `kernels` would hide the package of that
name that Hugging Face's transformers loads. Relative imports within a folder work.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness.claim import Claim
from exactness.errors import UsageError
from exactness.project import Project


@dataclass(frozen=True)
class Entry:
    """A claim and the file it stands in."""

    claim: Claim
    file: Path


class Catalogue:
    """Loads a project's kernel files and finds their references."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.broken: dict[Path, str] = {}
        digest = hashlib.sha256(str(project.root).encode()).hexdigest()[:12]
        self._package = f"_exactness_catalogue_{digest}"
        self._mount("", [])
        self._mount("kernels", [project.kernels])
        self._mount("references", [project.references])

    def _mount(self, name: str, path: list[Path]) -> None:
        """Register a package whose modules come from the folders in `path`."""
        full = f"{self._package}.{name}" if name else self._package
        if full in sys.modules:
            return
        package = types.ModuleType(full)
        package.__path__ = [str(folder) for folder in path]
        package.__package__ = full
        sys.modules[full] = package

    def files(self) -> list[Path]:
        """The kernel files, sorted; names that begin with `_` are shared code, not kernels.

        Raises:
            UsageError: the folder of kernels does not exist.
        """
        folder = self.project.kernels
        if not folder.is_dir():
            raise UsageError(f"the folder of kernels, {folder}, does not exist")
        return sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))

    def load(self, file: Path) -> list[Entry]:
        """The claims of a kernel file, in the order of their definition.

        Raises:
            UsageError: the file cannot be imported.
        """
        try:
            module = importlib.import_module(f"{self._package}.kernels.{file.stem}")
        except Exception as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise UsageError(f"kernel file {file} cannot be imported: {what}") from error
        claims = [value for value in vars(module).values() if isinstance(value, Claim)]
        return [Entry(claim, file) for claim in claims]

    @functools.cached_property
    def entries(self) -> list[Entry]:
        """All claims of the files that can be imported; see `broken` for the others.

        Raises:
            UsageError: two claims of one name.
        """
        entries: list[Entry] = []
        for file in self.files():
            try:
                entries += self.load(file)
            except UsageError as error:
                self.broken[file] = str(error)
        seen: dict[str, Entry] = {}
        for entry in entries:
            other = seen.setdefault(entry.claim.name, entry)
            if other is not entry:
                raise UsageError(
                    f"claim {entry.claim.name!r} stands in both {other.file} and {entry.file}"
                )
        return entries

    def select(self, names: tuple[str, ...]) -> list[Entry]:
        """The claims called `names`, or all if none are given.

        Raises:
            UsageError: a name is unknown; all claims are asked for and a file is broken.
        """
        known = {entry.claim.name: entry for entry in self.entries}
        unknown = [name for name in names if name not in known]
        if unknown:
            also = "".join(f"; {message}" for message in self.broken.values())
            raise UsageError(f"claim {unknown[0]!r} is unknown; known are {', '.join(known)}{also}")
        if names:
            return [known[name] for name in names]
        if self.broken:
            raise UsageError(next(iter(self.broken.values())))
        return self.entries

    def source_hash(self, entry: Entry) -> str:
        """SHA-256 over the claim's kernel file, its references and the code they share.

        Shared code is every file of both folders whose name begins with `_`.
        """
        addresses = [entry.claim.reference, *(v.reference for v in entry.claim.variants)]
        named = {address.partition(":")[0] for address in addresses}
        folders = (self.project.kernels, self.project.references)
        shared = [file for folder in folders for file in sorted(folder.glob("_*.py"))]
        own = [self.project.references / f"{name}.py" for name in sorted(named)]
        digest = hashlib.sha256()
        for file in (entry.file, *own, *shared):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()

    def reference(self, address: str) -> Callable[..., Any]:
        """The reference at "file:function" below the folder of references.

        Raises:
            UsageError: there is no such file or function.
        """
        file, _, function = address.partition(":")
        try:
            module = importlib.import_module(f"{self._package}.references.{file}")
        except ModuleNotFoundError as error:
            if error.name != f"{self._package}.references.{file}":
                raise
            raise UsageError(
                f"reference {address!r}: {self.project.references / file}.py does not exist"
            ) from None
        found = getattr(module, function, None)
        if not callable(found):
            raise UsageError(f"reference {address!r}: {file}.py has no function {function!r}")
        return found


def imported(address: str) -> Callable[..., Any]:
    """The callable at "module:attribute", as a claim names its baseline.

    Raises:
        UsageError: it cannot be imported.
    """
    module_name, _, attribute = address.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{address!r} cannot be imported as module:attribute: {error}") from None
    if not callable(found):
        raise UsageError(f"{address!r} is not callable")
    return found
