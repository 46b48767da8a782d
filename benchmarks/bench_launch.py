"""Host time of issuing one call of each kernel, its launcher against `kernel[grid](…)`.

    python benchmarks/bench_launch.py [--cases a,b] [--repeat 50] [--json FILE]

For each benchmark case of the catalogue, in µs a call, nothing waited for, median of bursts:

    call     the kernel as users call it: argument checks, allocation of outputs, launch
    triton   `kernel[grid](…)` alone, on checked arguments and allocated outputs
    anew     the kernel where every call is planned: checks, allocation, `kernel[grid](…)`
    direct   within `call`: allocation and launch, the signature being known
    late     `direct` without programmatic dependent launch
    outputs  within `direct`: allocation

Sizes that only tables have are cut: they do not matter to the host. What a first call gives, which
Triton launches, is compared with repeated calls on poisoned memory, on another stream and from a
CUDA graph. Exits 1 when a bit differs or a call takes longer than the limit below.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import gc
import json
import statistics
import sys
import time
import timeit
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._C._dynamo import guards
from triton import knobs
from triton.runtime import driver

from exactness import environment
from exactness.bench.cases import Case, Cases
from exactness.catalogue import Catalogue
from exactness.launching import calls
from exactness.launching.repeat import repeated
from exactness.machines import poisoned_memory
from exactness.project import Project
from exactness.writing import write_atomically

MAX_MICROSECONDS = 6.0
empty_strided = getattr(guards, "_empty_strided_cuda", None)
BURST = 100
"""Calls issued in one go, far below what a stream can queue."""
LARGEST = 8192
"""Where larger sizes are cut."""
TIMES = ("call", "triton", "anew", "direct", "late", "outputs")


def microseconds(call: Callable[[], Any], repeat: int) -> float:
    """Host time to issue a call: the median of bursts."""
    for _ in range(BURST):
        call()
    samples = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(BURST):
            call()
        samples.append((time.perf_counter() - start) * 1e6 / BURST)
    torch.cuda.synchronize()
    return statistics.median(samples)


class Planned:
    """What was planned for a call, what repeats it, and the addresses that this is given."""

    def __init__(self, call: Callable[[], Any], arguments: dict[str, Any]) -> None:
        for each in [each for each in gc.get_objects() if type(each) is calls._Calls]:
            each.calls.clear()
            each.launch.__globals__["last"] = None, None
        with unittest.mock.patch.object(calls, "repeated", wraps=repeated) as made:
            call()
        ((self.launch, _, self.slots, self.tensors), _) = made.call_args
        given = [arguments.get(name) for name in self.tensors]
        self.addresses = [None if tensor is None else tensor.data_ptr() for tensor in given]

    def direct(self, **options: Any) -> Callable[[], Any]:
        """Allocate and launch, with other options than planned."""
        launch, keywords = copy.copy(self.launch), self.launch.keywords
        launch.keywords = {**launch.keywords, **{k: options[k] for k in options if k in keywords}}
        repeats = repeated(launch, launch.run(), self.slots, self.tensors)
        return functools.partial(repeats, *self.addresses)

    def allocation(self) -> Callable[[], Any]:
        """What a repeated call allocates."""
        kinds = [(tuple(out.shape), out.stride(), out.dtype) for out in self.launch.outputs]
        return lambda: [empty_strided(*kind) for kind in kinds]


@contextlib.contextmanager
def planned_anew() -> Iterator[None]:
    """Without a chain of hooks there is no signature."""
    chain = knobs.runtime.launch_enter_hook
    knobs.runtime.launch_enter_hook = None
    try:
        yield
    finally:
        knobs.runtime.launch_enter_hook = chain


def arguments_of(case: Case, place: str) -> dict[str, Any]:
    sizes = {name: min(size, LARGEST) for name, size in case.sizes.items()}
    given = {**sizes, **case.parameters, **case.formats}
    return case.inputs.example(case.name, **given).arguments(place)


def same_bits(actual: dict[str, Any], expected: dict[str, Any]) -> bool:
    return all(
        torch.equal(actual[name].contiguous().view(torch.uint8), kept.view(torch.uint8))
        for name, kept in expected.items()
    )


def repeated_bits(case: Case, arguments: dict[str, Any]) -> dict[str, bool]:
    """Whether repeated calls give what Triton's launch gave."""
    claim = case.entry.claim
    fresh = {name: arguments[name].clone() for name in claim.mutates}

    def run() -> dict[str, Any]:
        for name, kept in fresh.items():
            arguments[name].copy_(kept)
        with poisoned_memory():
            return claim.call(arguments)

    with planned_anew():
        expected = {name: tensor.contiguous().clone() for name, tensor in run().items()}
    same = {"call": same_bits(run(), expected) and same_bits(run(), expected)}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        outputs = run()
    torch.cuda.synchronize()
    same["stream"] = same_bits(outputs, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        outputs = run()
    for output in outputs.values():
        output.zero_()
    graph.replay()
    torch.cuda.synchronize()
    same["graph"] = same_bits(outputs, expected)
    return same


def measure(case: Case, place: str, repeat: int) -> dict[str, Any]:
    arguments = arguments_of(case, place)
    call = functools.partial(case.entry.claim.kernel, **arguments)
    planned = Planned(call, arguments)
    row = {
        "case": case.name,
        "shape": case.shape,
        "call": microseconds(call, repeat),
        "triton": microseconds(planned.launch.run, repeat),
        "direct": microseconds(planned.direct(), repeat),
        "late": microseconds(planned.direct(EARLY=False, launch_pdl=False), repeat),
        "outputs": microseconds(planned.allocation(), repeat),
    }
    with planned_anew():
        row["anew"] = microseconds(call, repeat)
    return {**row, "same_bits": repeated_bits(case, arguments)}


def primitives(place: str) -> dict[str, float]:
    """What the parts of a signature and of a launch cost, µs."""
    x = torch.zeros(512, 2048, dtype=torch.bfloat16, device=place)
    names = {"x": x, "kind": ((512, 2048), (2048, 1), x.dtype), "empty": empty_strided}
    names |= {"stream": driver.active.get_current_stream, "torch": torch}
    parts = ("x.shape", "x.is_contiguous()", "x.dtype", "x.get_device()", "x.data_ptr()")
    parts += ("stream(0)", "empty(*kind)", "torch.empty_like(x)")
    timers = {part: timeit.Timer(part, globals=names) for part in parts}
    return {part: min(timer.repeat(5, 2000)) * 500 for part, timer in timers.items()}


def shown(row: dict[str, Any]) -> str:
    times = "  ".join(f"{name} {row[name]:6.2f}" for name in TIMES)
    wrong = ", ".join(name for name, same in row["same_bits"].items() if not same)
    return f"{row['case']:28} {times}  {f'WRONG BITS: {wrong}' if wrong else 'same bits'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", help="names, separated by commas; all if left out")
    parser.add_argument("--repeat", type=int, default=50, help="bursts of each measurement")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA GPU was found; launches are timed on one", file=sys.stderr)
        return 2
    catalogue = Catalogue(Project.find(Path(__file__)))
    cases = Cases.of(catalogue)
    names = options.cases.split(",") if options.cases else list(cases.benches)
    rows = []
    parts = primitives("cuda")
    print("  ".join(f"{part} {time:.3f}" for part, time in parts.items()))
    for name in names:
        entry, bench = cases.benches[name]
        rows.append(measure(Case(entry, bench, max(bench.tokens)), "cuda", options.repeat))
        print(shown(rows[-1]), flush=True)
    if options.json:
        result = {"machine": environment.collect().to_dict(), "microseconds": rows, "parts": parts}
        write_atomically(options.json, json.dumps(result, indent=1).encode() + b"\n")
    wrong = [row["case"] for row in rows if not all(row["same_bits"].values())]
    slow = [row["case"] for row in rows if row["call"] > MAX_MICROSECONDS]
    print(f"wrong bits: {wrong or 'none'}; over {MAX_MICROSECONDS} µs: {slow or 'none'}")
    return 1 if wrong or slow else 0


if __name__ == "__main__":
    sys.exit(main())
