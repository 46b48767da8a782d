"""Time and memory of `exactness.diff.diff_files` on two large bf16 files.

    python benchmarks/bench_diff.py [--gib 1] [--directory DIR] [--json FILE]

Three pairs: all bits equal, every element one ulp apart, random bits against random bits (which
includes NaN, infinities and every distance). Memory is what the process holds beyond the mapped
files: the peak of its anonymous pages while it compares, less those it held before. Exits 1 when
a pair takes longer than the limits below.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from exactness.diff import FileDiff, diff_files

MAX_SECONDS = 15.0
MAX_MIB = 512.0
COLUMNS = 2048
PIECE = 1 << 22


def anonymous_mib() -> float:
    """Resident pages of this process that are not backed by a file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no RssAnon: Linux 4.5 or later is needed")


class Peak:
    """Samples the anonymous memory of the process until left."""

    def __enter__(self) -> Peak:
        self.before = self.mib = anonymous_mib()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.mib = max(self.mib, anonymous_mib())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def added(self) -> float:
        return self.mib - self.before


def write(path: Path, elements: int, patterns: Callable[[int], np.ndarray]) -> None:
    """A .safetensors file of one [elements / 2048, 2048] bf16 tensor, written in pieces."""
    shape = [elements // COLUMNS, COLUMNS]
    entry = {"dtype": "BF16", "shape": shape, "data_offsets": [0, 2 * elements]}
    header = json.dumps({"x": entry}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for start in range(0, elements, PIECE):
            file.write(patterns(start)[: elements - start].tobytes())


def random_bits(seed: int) -> Callable[[int], np.ndarray]:
    def draw(start: int) -> np.ndarray:
        rng = np.random.default_rng([seed, start])
        return rng.integers(0, 1 << 16, PIECE, dtype=np.uint16)

    return draw


def finite_bits(start: int) -> np.ndarray:
    """Normal numbers below 2 in magnitude with an even pattern, so that ^ 1 is one ulp."""
    return random_bits(0)(start) & np.uint16(0xBFFE)


def measure(name: str, actual: Path, expected: Path) -> dict[str, float | str]:
    with Peak() as peak:
        start = time.perf_counter()
        diff: FileDiff = diff_files(actual, expected)
        seconds = time.perf_counter() - start
    row: dict[str, float | str] = {
        "pair": name,
        "seconds": round(seconds, 2),
        "mib": round(peak.added, 1),
        "elements": diff.elements,
        "mismatches": diff.mismatches,
    }
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def run(directory: Path, gib: float) -> list[dict[str, float | str]]:
    elements = int(gib * (1 << 29)) // COLUMNS * COLUMNS
    files = {
        "finite": finite_bits,
        "copy": finite_bits,
        "one_ulp": lambda start: finite_bits(start) ^ np.uint16(1),
        "random": random_bits(1),
        "other": random_bits(2),
    }
    paths = {name: directory / f"{name}.safetensors" for name in files}
    for name, patterns in files.items():
        write(paths[name], elements, patterns)
    return [
        measure("equal", paths["copy"], paths["finite"]),
        measure("one ulp everywhere", paths["one_ulp"], paths["finite"]),
        measure("random", paths["random"], paths["other"]),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0, help="size of each file")
    parser.add_argument("--directory", type=Path, help="where the five files are written")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        rows = run(Path(directory), options.gib)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    slow = [r["pair"] for r in rows if float(r["seconds"]) > MAX_SECONDS * max(1, options.gib)]
    large = [r["pair"] for r in rows if float(r["mib"]) > MAX_MIB]
    print(f"over {MAX_SECONDS} s a GiB: {slow or 'none'}; over {MAX_MIB} MiB: {large or 'none'}")
    return 1 if slow or large else 0


if __name__ == "__main__":
    sys.exit(main())
