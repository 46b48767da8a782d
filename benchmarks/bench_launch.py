"""Host time of issuing one call of each kernel, its launcher against `kernel[grid](…)`.

    python benchmarks/bench_launch.py [--cases a,b] [--repeat 50] [--json FILE]

For each benchmark case of the catalogue, in µs a call, nothing waited for, median of bursts:

    call     the kernel as users call it: argument checks, allocation of outputs, launch
    triton   `kernel[grid](…)` alone, on checked arguments and allocated outputs
    anew     the kernel where every call is planned: checks, allocation, `kernel[grid](…)`
    direct   within `call`: allocation and launch, the signature being known
    late     `direct` without programmatic dependent launch
    outputs  within `direct`: allocation
    driver   within `direct`: cuLaunchKernelEx, through the few lines of C around it
    own      what is left of `call` without `outputs` and `driver`

All are timed in turns, as the host of a virtual machine is now faster, now slower. Sizes that only
tables have are cut: they do not matter to the host. What a first call gives, which Triton launches,
is compared with repeated calls on poisoned memory, on another stream and from a CUDA graph. Exits 1
when a bit differs or a call takes longer than the limit below.
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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._C._dynamo import guards
from triton import knobs
from triton.runtime import driver

from exactness import environment
from exactness.bench.cases import Case, Cases
from exactness.bench.measure import Subject
from exactness.catalogue import Catalogue
from exactness.launching import calls, direct
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
TIMES = ("call", "triton", "anew", "direct", "late", "outputs", "driver", "own")


def microseconds(calls: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Host time to issue each call: the median of bursts, in turns after one that warms up."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat + 1):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(BURST):
                call()
            samples[name].append((time.perf_counter() - start) * 1e6 / BURST)
    torch.cuda.synchronize()
    return {name: statistics.median(taken[1:]) for name, taken in samples.items()}


class Planned:
    """What was planned for a call, what repeats it, and the addresses that this is given."""

    def __init__(self, call: Callable[[], Any], arguments: dict[str, Any]) -> None:
        for each in [each for each in gc.get_objects() if type(each) is calls._Calls]:
            each.calls.clear()
            each.launch.__globals__["last"] = None, *each.guards, None
        with unittest.mock.patch.object(calls, "repeated", wraps=repeated) as made:
            call()
        (self.launch, self.kernel, self.slots, self.tensors, _), _ = made.call_args
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

    def driver(self) -> Callable[[], Any]:
        """The innermost function, on outputs that are there."""
        with unittest.mock.patch.object(direct, "packed", wraps=direct.packed) as made:
            repeated(self.launch, self.kernel, self.slots, self.tensors)
        args, keywords = made.call_args
        launched = direct.packed(*args, **keywords)
        outputs = {f"out{i}_at": out.data_ptr() for i, out in enumerate(self.launch.outputs)}
        named = {f"{name}_at": at for name, at in zip(self.tensors, self.addresses, strict=True)}
        given = [(named | outputs)[name] for name in launched.names]
        return functools.partial(launched.function, driver.active.get_current_stream(0), *given)


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
    call = Subject.kernel(case.entry.claim).call(arguments)
    planned = Planned(call, arguments)
    times = microseconds(
        {
            "call": call,
            "triton": planned.launch.run,
            "anew": anew(call),
            "direct": planned.direct(),
            "late": planned.direct(EARLY=False, launch_pdl=False),
            "outputs": planned.allocation(),
            "driver": planned.driver(),
        },
        repeat,
    )
    times["own"] = times["call"] - times["outputs"] - times["driver"]
    same = repeated_bits(case, arguments)
    return {"case": case.name, "shape": case.shape, **times, "same_bits": same}


def anew(call: Callable[[], Any]) -> Callable[[], None]:
    """A call that is planned."""

    def run() -> None:
        with planned_anew():
            call()

    return run


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
