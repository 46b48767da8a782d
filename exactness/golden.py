"""Golden files: recorded bits of published baselines, with the machine they come from.

A golden file is a safetensors file. Keys are `<prefix>/<case>/<tensor>`; a claim names the
prefixes that are its own. (`<table>/<function>` holds a function over all inputs of a format; such
tables belong to no claim.) One metadata key, `exactness`, holds JSON: the environment of the
recording and the parameters of each case. Files of other origin may give flat metadata (`gpu`,
`torch` …) and parameters as `{case: {name: value}}` under any key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exactness.bits import Bits
from exactness.errors import UsageError
from exactness.files import TensorFile, open_tensors
from exactness.writing import write_atomically

METADATA_KEY = "exactness"
SCHEMA_VERSION = 1

_HOPPER_GPUS = ("H100", "H200", "H800", "H20", "GH200")


@dataclass(frozen=True)
class Case:
    """One recorded case.

    Attributes:
        prefix: first part of its keys.
        name: second part.
        file: where it is recorded.
        tensors: names of its tensors, the third part.
        parameters: parameters that the file gives for it.
        recorded_on: name of the GPU, or of the machine.
        capability: compute capability of that GPU, as "9.0", or None if it is not known.
    """

    prefix: str
    name: str
    file: TensorFile
    tensors: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    recorded_on: str | None = None
    capability: str | None = None

    @property
    def key(self) -> str:
        """The common part of its keys."""
        return f"{self.prefix}/{self.name}"

    def load(self) -> dict[str, Bits]:
        """The tensors by name.

        Raises:
            UsageError: the file cannot be read any more.
        """
        return {name: self.file[f"{self.key}/{name}"] for name in self.tensors}


class GoldenFile:
    """A recording file, its header read and checked."""

    def __init__(self, path: Path) -> None:
        """Read the header.

        Raises:
            UsageError: missing, corrupt or with keys of another layout.
        """
        self.path = path
        self.tensors = open_tensors(path)
        self.metadata = dict(self.tensors.metadata)
        self._own = _json_object(self.metadata.get(METADATA_KEY, ""))
        self._check_version()
        self.tables = [key for key in self.tensors if key.count("/") == 1]
        self.cases = list(self._cases([key for key in self.tensors if key.count("/") != 1]))

    def _check_version(self) -> None:
        version = self._own.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"{self.path}: schema version {version!r}; this exactness reads {SCHEMA_VERSION}"
            )

    def _cases(self, keys: Sequence[str]) -> Iterator[Case]:
        grouped: dict[tuple[str, str], list[str]] = {}
        for key in keys:
            parts = key.split("/")
            if len(parts) != 3 or not all(parts):
                raise UsageError(f"{self.path}: key {key!r} is not <claim>/<case>/<tensor>")
            grouped.setdefault((parts[0], parts[1]), []).append(parts[2])
        gpu, capability = self._machine()
        for (prefix, name), tensors in sorted(grouped.items()):
            parameters = self._parameters(prefix, name)
            names = tuple(sorted(tensors))
            yield Case(prefix, name, self.tensors, names, parameters, gpu, capability)

    def _machine(self) -> tuple[str | None, str | None]:
        environment = self._own.get("environment", self.metadata)
        gpu = environment.get("gpu")
        capability = environment.get("capability")
        if capability is None and gpu and any(name in gpu.split() for name in _HOPPER_GPUS):
            capability = "9.0"
        return gpu or environment.get("cpu"), capability

    def _parameters(self, prefix: str, case: str) -> dict[str, Any]:
        """Parameters of a case, from whichever metadata key holds them."""
        for text in self.metadata.values():
            table = _json_object(text)
            for candidate in (table.get("parameters"), table):
                for key in (f"{prefix}/{case}", case):
                    found = candidate.get(key) if isinstance(candidate, dict) else None
                    if isinstance(found, dict):
                        return dict(found)
        return {}


def _json_object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


class GoldenStore:
    """All recordings of a project, by prefix."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = [GoldenFile(path) for path in files]

    @classmethod
    def of_folder(cls, folder: Path) -> GoldenStore:
        """Every .safetensors file directly in `folder` (none if it does not exist)."""
        return cls(sorted(folder.glob("*.safetensors")))

    def cases(self, prefixes: Sequence[str]) -> list[Case]:
        """The cases under the given prefixes, sorted.

        Raises:
            UsageError: a case is recorded in two files, or a key lacks its tensor.
        """
        for file in self.files:
            for table in file.tables:
                if table.split("/")[0] in prefixes:
                    raise UsageError(f"{file.path}: key {table!r} is not <claim>/<case>/<tensor>")
        found: dict[str, Case] = {}
        for case in (case for file in self.files for case in file.cases):
            if case.prefix not in prefixes:
                continue
            other = found.setdefault(case.key, case)
            if other is not case:
                raise UsageError(
                    f"case {case.key} is recorded in both {other.file.path} and "
                    f"{case.file.path}; delete one"
                )
        return [found[key] for key in sorted(found)]

    def prefixes(self) -> dict[str, int]:
        """Every prefix and its number of cases."""
        counts: dict[str, int] = {}
        for file in self.files:
            for case in file.cases:
                counts[case.prefix] = counts.get(case.prefix, 0) + 1
        return counts


def write(
    path: Path,
    tensors: Mapping[str, Bits],
    environment: Mapping[str, Any],
    parameters: Mapping[str, Mapping[str, Any]],
    **origin: str,
) -> None:
    """Write a golden file whole or not at all.

    Args:
        path: the file; its folder is created.
        tensors: key `<prefix>/<case>/<tensor>` to bits.
        environment: where it was recorded.
        parameters: `<prefix>/<case>` to parameters.
        **origin: what was run (`baseline`, `claim`).
    """
    from safetensors.torch import save

    metadata = {
        "schema_version": SCHEMA_VERSION,
        "environment": dict(environment),
        "parameters": {case: dict(values) for case, values in parameters.items()},
        **origin,
    }
    data = save(
        {key: bits.torch() for key, bits in tensors.items()},
        metadata={METADATA_KEY: json.dumps(metadata)},
    )
    write_atomically(path, data)
