"""Fixtures that several tests share: small projects with a catalogue of their own."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch  # noqa: F401 - pytester forgets what a test imports, and torch loads only once

import exactness.collection  # noqa: F401 - likewise
from exactness import golden
from exactness.bench.device import Device, Graph
from exactness.bits import Bits, encode
from exactness.formats import bf16

PYPROJECT = """
[tool.exactness]
kernels = "ours"
references = "chains"
golden = "recorded"
"""

KERNEL = '''
import torch
from exactness.claim import Claim, Equivalent, Variant
from exactness.formats import bf16
from exactness.inputs import rows

def halve(x, scale=0.5, *, wide=False):
    """A callable on CPU tensors: two roundings, or one when wide."""
    if wide:
        return (x.double() * scale + 1.0).to(torch.float32).to(torch.bfloat16)
    return (x.float() * torch.tensor(scale).bfloat16().float()).to(torch.bfloat16) + 1.0

CLAIM = Claim(
    kernel=halve,
    reference="halve:halve",
    golden="halve",
    runs_on="cpu",
    inputs=rows(bf16, n=(1, 64), rows=(0, 300), scale=(0.3, 0.5)),
    parameters={"scale": 0.5},
    cases=[{"rows": 30, "n": 33}],
    variants=[Variant(name="wide", reference="halve:halve_wide", env="HALVE_WIDE")],
    baseline="BASELINE",
)
'''

REFERENCE = """
from exactness.arithmetic import cast, launch
from exactness.formats import bf16, f32, f64

@launch
def scaled(x, scale):
    return x * scale

@launch
def shifted(x):
    return x + 1.0

def halve(x, scale):
    product = scaled(x, scale)
    return shifted(product)

@launch
def halve_wide(x, scale):
    exact = cast(x, f64) * scale + 1.0
    return cast(cast(exact, f32), bf16)
"""


class SmallProject:
    """A project in a temporary folder, written file by file."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text that must be there exactly once."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def record(self, file: str = "halve.safetensors", **tensors: np.ndarray) -> Path:
        """A recording of `halve` with scale 0.5; given tensors replace or join it."""
        x = np.array([[1.0, -2.0, 3.0], [0.0, 5.0, -6.0]], np.float32)
        case = {"x": x, "product": x * 0.5, "out": x * 0.5 + 1.0, **tensors}
        path = self.root / "recorded" / file
        keyed = {
            f"halve/2x3/{name}": Bits(encode(values, bf16), bf16)
            for name, values in case.items()
            if values is not None
        }
        golden.write(path, keyed, {"gpu": None, "cpu": "by hand"}, {"halve/2x3": {"scale": 0.5}})
        return path


@pytest.fixture
def small_project(tmp_path):
    """One claim, `halve`, on CPU tensors, with one recorded case."""
    project = SmallProject(tmp_path)
    project.write("pyproject.toml", PYPROJECT)
    project.write("ours/halve.py", KERNEL)
    project.write("chains/halve.py", REFERENCE)
    project.record()
    return project


class LoopGraph(Graph):
    """Calls that are made one after the other; their results stay the same tensors."""

    def __init__(self, calls):
        self._calls = calls
        self.results = [call() for call in calls]

    def replay(self):
        for kept, call in zip(self.results, self._calls, strict=True):
            again = call()
            kept = kept if isinstance(kept, tuple) else (kept,)
            for old, new in zip(kept, again if isinstance(again, tuple) else (again,), strict=True):
                if old is not None:
                    old.copy_(new)


class PretendGpu(Device):
    """Runs calls on this CPU and counts µs in place of measuring them.

    A call takes 10 µs between events, 1 µs on the host, and a replay 2 µs for each of its calls.
    """

    name, place, cache_bytes = "pretend GPU", "cpu", 1 << 16
    peak_copy_bytes, peak_matrix_size = 1000, 10

    def __init__(self):
        self.uncapturable, self.traced = "", {"traceEvents": []}
        self.flushes = self.captured = 0
        self._now = 0.0

    def clock(self):
        self._now += 100e-6
        return self._now

    def refuses(self, claim):
        return None

    def free_bytes(self):
        return 1 << 22

    def synchronize(self):
        pass

    def flush(self):
        self.flushes += 1

    def between_events(self, call):
        replayed = isinstance(getattr(call, "__self__", None), LoopGraph)
        return (2.0 * self.captured if replayed else 10.0), call()

    def refuses_capture(self, call):
        return self.uncapturable or None

    def capture(self, calls):
        self.captured = len(calls)
        return LoopGraph(calls)

    def trace(self, call, calls):
        for _ in range(calls):
            call()
        return self.traced, 3 * calls

    def empty_cache(self):
        pass


@pytest.fixture
def gpu():
    """A device to bench on, without a GPU."""
    return PretendGpu()
