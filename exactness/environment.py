"""The machine and the software behind a result; every stored figure carries them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import exactness

_PACKAGES = (
    "numpy",
    "torch",
    "triton",
    "numba",
    "transformers",
    "tokenizers",
    "hypothesis",
    "pytest",
    "safetensors",
)


@dataclass(frozen=True)
class Environment:
    """What may influence bits.

    Attributes:
        exactness: version of this package.
        commit: the project's git commit; "-dirty" marks uncommitted changes; None outside git.
        python: version.
        system: operating system and architecture.
        cpu: model name.
        cores: usable cores.
        gpu: name of the GPU, or None.
        capability: its compute capability, as "9.0", or None.
        driver: version of the GPU driver, or None.
        packages: versions of the packages that compute.
        settings: environment variables that are set and change arithmetic or code generation; of
            paths the last part.
    """

    exactness: str
    commit: str | None
    python: str
    system: str
    cpu: str
    cores: int
    gpu: str | None
    capability: str | None
    driver: str | None
    packages: dict[str, str]
    settings: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @property
    def machine(self) -> str:
        """One line for a report's header."""
        place = f"{self.gpu} (sm_{self.capability.replace('.', '')})" if self.capability else ""
        return f"{place or self.cpu}, {self.cores} cores" if not place else place


def collect(root: Path | None = None) -> Environment:
    """The environment of this process.

    Args:
        root: the project whose commit is named.
    """
    gpu, capability = _gpu()
    return Environment(
        exactness=exactness.__version__,
        commit=_commit(root) if root else None,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        gpu=gpu,
        capability=capability,
        driver=_driver() if gpu else None,
        packages={name: version for name in _PACKAGES if (version := _version(name))},
        settings={
            name: Path(value).name if Path(value).is_absolute() else value
            for name, value in sorted(os.environ.items())
            if name.startswith(("EXACTNESS_", "TRITON_")) or name == "ATEN_CPU_CAPABILITY"
        },
    )


def subnormals_are_flushed() -> bool:
    """Whether this process flushes subnormals, which would falsify every reference.

    Some libraries set the processor's flush-to-zero mode when they are imported.
    """
    smallest = np.array([1], np.uint32).view(np.float32)
    return bool((smallest * np.float32(1.0))[0] == 0.0)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _gpu() -> tuple[str | None, str | None]:
    try:
        import torch
    except ImportError:
        return None, None
    if not torch.cuda.is_available():
        return None, None
    major, minor = torch.cuda.get_device_capability()
    return torch.cuda.get_device_name(), f"{major}.{minor}"


def _driver() -> str | None:
    return _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def _commit(root: Path) -> str | None:
    commit = _output("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    dirty = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if dirty else commit


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines else None
