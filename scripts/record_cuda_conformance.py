#!/usr/bin/env python
"""Record what the CUDA conformance programs compute on this machine's GPU.

    python scripts/record_cuda_conformance.py cuda_h200.safetensors --summary cuda_h200.json
    python scripts/record_cuda_conformance.py replay.safetensors --device virtual

Compiles every .cu file of tests/conformance/cuda with nvcc, launches the kernels through the CUDA
driver, writes the outputs and the PTX, and replays the programs on the virtual Hopper, once with
the machine code that ran. Exits with 1 if a program failed, or if a bit differs.

With ``--compiled FOLDER`` the machine needs no nvcc: what ``--device none`` left there is used.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from conformance_programs import mounted


def compile_all(programs: Mapping[str, Any], folder: Path | None) -> dict[Any, Any]:
    """Compile each build once, or read what was compiled into ``folder`` before.

    Raises:
        SystemExit: there is no nvcc, and it is needed.
    """
    recording = mounted("cuda.recording")
    builds = sorted({program.build for program in programs.values()})
    stored = {build: recording.Compiled.read(folder, build) for build in builds if folder}
    missing = [build for build in builds if stored.get(build) is None]
    nvcc = recording.find_nvcc()
    if missing and nvcc is None:
        raise SystemExit("nvcc was not found: put it on PATH or set CUDA_HOME")
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda build: recording.compile_build(nvcc, build), missing)
        compiled = {**stored, **dict(zip(missing, made, strict=True))}
    for build in missing if folder else ():
        compiled[build].write(folder, build)
    return compiled


def run_on_gpu(programs: Mapping[str, Any], compiled: Mapping[Any, Any]) -> dict[str, Any]:
    """Outputs of every program; a program is run twice and must give the same bits."""
    from exactness import virtual

    gpu = mounted("cuda.driver").Gpu()
    outputs: dict[str, Any] = {}
    for name, program in programs.items():
        build = compiled[program.build]
        params = virtual.load_ptx(build.ptx)[program.kernel].params
        outputs[name], again = (gpu.run(program, build.cubin, params) for _ in range(2))
        for key, bits in outputs[name].items():
            count = len(differing(program, key, again[key], bits))
            if count:
                raise SystemExit(f"{name}/{key}: {count} elements differ between two runs")
    return outputs


def replay(program: Any, build: Any, *, stored: bool) -> tuple[dict[str, Any], str]:
    """Outputs on the virtual Hopper, and the error that ended it.

    Args:
        program: what to launch.
        build: its PTX and machine code.
        stored: leave out the machine code and the source positions, as a recording does.
    """
    from exactness import virtual

    text = mounted("cuda.recording").without_positions(build.ptx) if stored else build.ptx
    try:
        module = virtual.load_ptx(text, cubin=None if stored else build.cubin)
        return program.replay(module), ""
    except Exception as exception:  # one program's failure must not end the others
        return {}, f"{type(exception).__name__}: {exception}"


def differing(program: Any, key: str, actual: Any, expected: Any) -> Any:
    """Flat indices at which an output differs; any NaN equals any NaN."""
    return mounted("program").differing(actual, expected, program.dtype(key))


def compared(program: Any, build: Any, expected: Mapping[str, Any]) -> dict[str, str]:
    """What the virtual Hopper did otherwise, with and without the machine code that ran."""
    found = {}
    for stored in (False, True):
        outputs, error = replay(program, build, stored=stored)
        how = "from the recorded PTX" if stored else "from the cubin that ran"
        if program.refused:
            if program.refused not in error:
                found[how] = error or f"it ran, though {program.refused} has no model"
        elif error:
            found[how] = error
        else:
            counts = {k: len(differing(program, k, outputs[k], expected[k])) for k in expected}
            if any(counts.values()):
                found[how] = f"differing elements: {counts}"
    return found


def execute(
    programs: Mapping[str, Any], compiled: Mapping[Any, Any], device: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outputs of every program that ran, and the errors of those that did not."""
    if device == "cuda":
        return run_on_gpu(programs, compiled), {}
    outputs, failures = {}, {}
    for name, program in programs.items():
        outputs[name], error = replay(program, compiled[program.build], stored=True)
        if error and (not program.refused or program.refused not in error):
            failures[name] = error
    return outputs, failures


def replay_all(
    programs: Mapping[str, Any], compiled: Mapping[Any, Any], outputs: Mapping[str, Any]
) -> dict[str, Any]:
    """What the virtual Hopper did otherwise, by program."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(8, mp_context=context) as pool:
        tasks = {
            name: pool.submit(compared_by_name, name, build.ptx, build.cubin, outputs[name])
            for name, program in programs.items()
            for build in [compiled[program.build]]
        }
        found = {name: task.result() for name, task in tasks.items()}
    return {name: differences for name, differences in found.items() if differences}


def compared_by_name(
    name: str, ptx: str, cubin: bytes, expected: Mapping[str, Any]
) -> dict[str, str]:
    """`compared`, in a process of its own."""
    build = mounted("cuda.recording").Compiled(ptx, cubin)
    return compared(mounted("cuda.programs").load()[name], build, expected)


def environment(device: str, compiled: Mapping[Any, Any]) -> dict[str, str]:
    """What the recording must be traceable to."""
    found = dict(mounted("recording").environment(device))
    (version,) = {_nvcc_version(c.ptx) for c in compiled.values()}
    return found | {"nvcc": version}


def _nvcc_version(ptx: str) -> str:
    match = re.search(r"release [\d.]+, V([\d.]+)", ptx)
    return match[1] if match else "unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, help="the .safetensors file to write")
    parser.add_argument("--summary", type=Path, help="a JSON file to write as well")
    parser.add_argument("--device", choices=("cuda", "virtual", "none"), default="cuda")
    parser.add_argument("--compiled", type=Path, metavar="FOLDER", help="where PTX and cubins are")
    parser.add_argument("--only", default="", metavar="REGEX", help="programs whose name matches")
    options = parser.parse_args(arguments)

    start = time.perf_counter()
    programs = {
        name: program
        for name, program in mounted("cuda.programs").load().items()
        if re.search(options.only, name)
    }
    compiled = compile_all(programs, options.compiled)
    if options.device == "none":
        return 0
    outputs, failures = execute(programs, compiled, options.device)
    recording = mounted("cuda.recording")
    found = environment(options.device, compiled)
    ptx = {build.title: recording.without_positions(c.ptx) for build, c in compiled.items()}
    recording.write(options.output, programs, outputs, ptx, found)
    if options.device == "cuda":
        failures = replay_all(programs, compiled, outputs)
    summary = {
        "environment": found,
        "programs": len(programs),
        "refused": sum(bool(program.refused) for program in programs.values()),
        "elements": sum(bits.size for named in outputs.values() for bits in named.values()),
        "bytes": options.output.stat().st_size,
        "seconds": round(time.perf_counter() - start, 1),
        "failures": failures,
    }
    text = json.dumps(summary, indent=1)
    if options.summary:
        options.summary.write_text(text + "\n")
    print(text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
