"""A project with a catalogue: the `[tool.exactness]` table of a pyproject.toml.

Imports nothing heavy: the pytest plugin asks here, in every project, whether there is anything to
collect.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness.errors import UsageError


@dataclass(frozen=True)
class Project:
    """A project that keeps a catalogue.

    Attributes:
        root: the folder of its pyproject.toml.
        kernels: folder of kernel files.
        references: folder of references.
        golden: folder of recordings.
    """

    root: Path
    kernels: Path
    references: Path
    golden: Path

    @classmethod
    def find(cls, start: Path) -> Project:
        """The nearest project at or above `start` with a `[tool.exactness]` table.

        Raises:
            UsageError: there is none, or the table is not what it should be.
        """
        start = start.resolve()
        for folder in (start, *start.parents):
            file = folder / "pyproject.toml"
            if file.is_file():
                table = _table(file)
                if table is not None:
                    return cls._from_table(folder, table)
        raise UsageError(
            f"no pyproject.toml with a [tool.exactness] table at or above {start}; "
            'add one: kernels = "kernels", references = "references", golden = "tests/golden"'
        )

    @classmethod
    def _from_table(cls, root: Path, table: dict[str, Any]) -> Project:
        defaults = {"kernels": "kernels", "references": "references", "golden": "tests/golden"}
        unknown = [key for key in table if key not in defaults]
        if unknown:
            raise UsageError(
                f"{root / 'pyproject.toml'}: [tool.exactness] has no key {unknown[0]!r}; "
                f"known are {', '.join(defaults)}"
            )
        return cls(root, **{key: root / table.get(key, value) for key, value in defaults.items()})


def _table(file: Path) -> dict[str, Any] | None:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not a valid TOML file: {error}") from None
    table = data.get("tool", {}).get("exactness")
    return table if isinstance(table, dict) else None
