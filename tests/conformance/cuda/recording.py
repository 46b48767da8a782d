"""Recordings of CUDA programs: compiling, running, writing and reading them."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .program import Bits, Build, CudaProgram

_POSITION = re.compile(r"\s*\.(?:loc|file)\s")
METADATA_KEY = "cuda_conformance"
ARCHITECTURE = "sm_90"


@dataclass(frozen=True)
class Compiled:
    """What nvcc made of a build: the PTX, and the machine code assembled from it."""

    ptx: str
    cubin: bytes

    def write(self, folder: Path, build: Build) -> None:
        """Keep both in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{build.key}.ptx").write_text(self.ptx)
        (folder / f"{build.key}.cubin").write_bytes(self.cubin)

    @classmethod
    def read(cls, folder: Path, build: Build) -> Compiled | None:
        """What was kept in a folder; None if it is not there."""
        ptx, cubin = (folder / f"{build.key}.{form}" for form in ("ptx", "cubin"))
        if not (ptx.exists() and cubin.exists()):
            return None
        return cls(ptx.read_text(), cubin.read_bytes())


@dataclass(frozen=True)
class Recording:
    """The outputs of many programs on one machine.

    Attributes:
        environment: GPU, driver, nvcc and date.
        inputs: program name -> SHA-256 of its tensors before the launch.
        sources: program name -> SHA-256 of what ran.
        outputs: program name -> output name -> patterns.
        ptx: title of a build -> its PTX.
    """

    environment: Mapping[str, str]
    inputs: Mapping[str, str]
    sources: Mapping[str, str]
    outputs: Mapping[str, Mapping[str, Bits]]
    ptx: Mapping[str, str]


def find_nvcc() -> Path | None:
    """nvcc of PATH, CUDA_HOME or /usr/local/cuda; None if there is none."""
    roots = (os.environ.get("CUDA_HOME"), "/usr/local/cuda")
    candidates = (shutil.which("nvcc"), *(f"{root}/bin/nvcc" for root in roots if root))
    return next((Path(c) for c in candidates if c and os.access(c, os.X_OK)), None)


def compile_build(nvcc: Path, build: Build) -> Compiled:
    """Compile a .cu file.

    Raises:
        RuntimeError: nvcc's messages.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = (f"-arch={ARCHITECTURE}", "-O3", "-lineinfo", *build.flags, str(build.path))
        for form in ("ptx", "cubin"):
            command = [str(nvcc), f"-{form}", "-o", f"{folder}/out.{form}", *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"nvcc failed on {build.title}: {done.stderr.strip()}")
        return Compiled(Path(folder, "out.ptx").read_text(), Path(folder, "out.cubin").read_bytes())


def without_positions(ptx: str) -> str:
    """The PTX without source positions and debugging sections, which name folders."""
    text = ptx.split("\t.section\t.debug", 1)[0]
    lines = (line for line in text.splitlines() if not _POSITION.match(line))
    return "\n".join(line for line in lines if line.strip()) + "\n"


def write(
    path: Path, programs: Mapping[str, CudaProgram], outputs: Mapping[str, Mapping[str, Bits]],
    ptx: Mapping[str, str], environment: Mapping[str, str],
) -> None:  # fmt: skip
    """Write the outputs of all programs that ran, and the PTX of all builds."""
    from safetensors.numpy import save

    from exactness.writing import write_atomically

    tensors = {
        f"{name}/{key}": np.ascontiguousarray(bits)
        for name, found in outputs.items()
        for key, bits in found.items()
    }
    for title, text in ptx.items():
        packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        tensors[f"ptx/{title}"] = np.frombuffer(packed, np.uint8)
    metadata = {
        "environment": dict(environment),
        "inputs_sha256": {name: programs[name].inputs_digest() for name in outputs},
        "source_sha256": {name: programs[name].source_digest() for name in outputs},
    }
    write_atomically(path, save(tensors, {METADATA_KEY: json.dumps(metadata, sort_keys=True)}))


def read(path: Path) -> Recording:
    """Read a recording.

    Raises:
        ValueError: the file is no recording of CUDA programs.
    """
    from safetensors import safe_open

    outputs: dict[str, dict[str, Any]] = {}
    with safe_open(path, "np") as file:
        metadata = json.loads((file.metadata() or {}).get(METADATA_KEY, "null"))
        if metadata is None:
            raise ValueError(f"{path}: no metadata {METADATA_KEY!r}: not a CUDA recording")
        for key in file.keys():
            owner, name = key.split("/", 1)
            outputs.setdefault(owner, {})[name] = file.get_tensor(key)
    ptx = outputs.pop("ptx", {})
    return Recording(
        environment=metadata["environment"],
        inputs=metadata["inputs_sha256"],
        sources=metadata["source_sha256"],
        outputs=outputs,
        ptx={title: lzma.decompress(data.tobytes()).decode() for title, data in ptx.items()},
    )
