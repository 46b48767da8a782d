"""The modules of tests/conformance, for the scripts that record what its programs compute."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "_exactness_conformance"


def mounted(module: str) -> Any:
    """Return a module of tests/conformance, which is mounted under a private name."""
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(ROOT / "tests" / "conformance")]
        sys.modules[PACKAGE] = package
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"{PACKAGE}.{module}")
