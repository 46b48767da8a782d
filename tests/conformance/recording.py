"""Recordings of conformance programs: running, writing and reading them."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .draws import to_bits, to_tensor
from .program import Program, differing

METADATA_KEY = "conformance"
Bits = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Outcome:
    """What one program did: its outputs' patterns, or the error that ended it."""

    name: str
    outputs: Mapping[str, Bits]
    digest: str
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Recording:
    """The outputs of many programs on one machine.

    Attributes:
        environment: GPU, driver, torch, Triton, Python and date.
        digests: program name -> SHA-256 of its tensors before the launch.
        sources: program name -> SHA-256 of the code that ran.
        outputs: program name -> output name -> patterns.
    """

    environment: Mapping[str, str]
    digests: Mapping[str, str]
    sources: Mapping[str, str]
    outputs: Mapping[str, Mapping[str, Bits]]


def execute(program: Program, device: str, *, runs: int = 2) -> Outcome:
    """Run a program on "cuda" or "virtual"; errors are returned, never raised.

    On a GPU it runs ``runs`` times, and must give the same bits each time.
    """
    start = time.perf_counter()
    outputs: dict[str, Bits] = {}
    error = ""
    try:
        with _machine(device):
            outputs = _run(program, "cuda" if device == "cuda" else "cpu")
            for _ in range(runs - 1 if device == "cuda" else 0):
                _same(program, _run(program, "cuda"), outputs)
    except Exception as exception:  # one program's failure must not end the others
        error = f"{type(exception).__name__}: {exception}"
    return Outcome(program.name, outputs, program.digest(), time.perf_counter() - start, error)


def write(path: Path, outcomes: Sequence[Outcome], programs: Mapping[str, Program],
          environment: Mapping[str, str]) -> None:  # fmt: skip
    """Write the outputs of all programs that ran to a safetensors file, all or nothing."""
    from safetensors.torch import save_file

    good = [outcome for outcome in outcomes if not outcome.error]
    tensors = {
        f"{outcome.name}/{key}": to_tensor(bits, programs[outcome.name].dtype(key))
        for outcome in good
        for key, bits in outcome.outputs.items()
    }
    digests = {outcome.name: outcome.digest for outcome in good}
    sources = {name: programs[name].source() for name in digests}
    metadata = {
        "environment": dict(environment),
        "inputs_sha256": digests,
        "source_sha256": sources,
    }
    temporary = path.with_name(path.name + f".{os.getpid()}.tmp")
    save_file(tensors, temporary, {METADATA_KEY: json.dumps(metadata, sort_keys=True)})
    temporary.replace(path)


def read(path: Path) -> Recording:
    """Read a recording.

    Raises:
        ValueError: the file is no recording of conformance programs.
    """
    from safetensors import safe_open

    outputs: dict[str, dict[str, Bits]] = {}
    with safe_open(path, "pt") as file:
        metadata = json.loads((file.metadata() or {}).get(METADATA_KEY, "null"))
        if metadata is None:
            raise ValueError(f"{path}: no metadata {METADATA_KEY!r}: not a conformance recording")
        for key in file.keys():
            program, output = key.rsplit("/", 1)
            outputs.setdefault(program, {})[output] = to_bits(file.get_tensor(key))
    return Recording(
        environment=metadata["environment"],
        digests=metadata["inputs_sha256"],
        sources=metadata["source_sha256"],
        outputs=outputs,
    )


def environment(device: str) -> dict[str, str]:
    """Return what the recording must be traceable to."""
    import torch
    import triton

    found = {
        "gpu": "virtual Hopper", "driver": "none", "cuda": str(torch.version.cuda),
        "torch": torch.__version__, "triton": triton.__version__, "numpy": np.__version__,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }  # fmt: skip
    if device == "cuda":
        found |= {"gpu": torch.cuda.get_device_name(), "driver": _driver_version()}
    return found


def triton_version() -> tuple[int, int]:
    """Return (major, minor) of the installed Triton."""
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


def _run(program: Program, device: str) -> dict[str, Bits]:
    return {key: to_bits(tensor) for key, tensor in program.run(device).items()}


def _same(program: Program, again: Mapping[str, Bits], outputs: Mapping[str, Bits]) -> None:
    for key, bits in outputs.items():
        count = len(differing(again[key], bits, program.dtype(key)))
        if count:
            raise RuntimeError(f"{key}: {count} elements differ between two runs")


def _machine(device: str) -> AbstractContextManager[object]:
    if device == "cuda":
        return nullcontext()
    if device != "virtual":
        raise ValueError(f"device: {device!r} is neither 'cuda' nor 'virtual'")
    from exactness import virtual

    return virtual.hopper()


def _driver_version() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.split("\n")[0].strip()
