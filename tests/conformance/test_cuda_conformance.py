"""CUDA kernels give the same bits on an H200 (recorded) and on the virtual Hopper."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exactness import virtual

pytest.importorskip("triton", reason="Triton's wheel ships ptxas and nvdisasm")
pytest.importorskip("safetensors")

HERE = Path(__file__).parent
RECORDING = HERE.parent / "golden" / "conformance" / "cuda_h200.safetensors"


def _mounted(module: str) -> Any:
    name = "_exactness_conformance"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(HERE)]
        sys.modules[name] = package
    return importlib.import_module(f"{name}.{module}")


differing = _mounted("program").differing
recording = _mounted("cuda.recording")
PROGRAMS = _mounted("cuda.programs").load()
RUNNING = sorted(name for name, program in PROGRAMS.items() if not program.refused)
REFUSED = sorted(name for name, program in PROGRAMS.items() if program.refused)


@pytest.fixture(scope="module")
def recorded() -> Any:
    """Return the recording of the H200."""
    return recording.read(RECORDING)


@pytest.fixture(scope="module")
def modules(recorded: Any) -> dict[str, virtual.PTXModule]:
    """Return the recorded PTX of every build, loaded."""
    return {title: virtual.load_ptx(text) for title, text in recorded.ptx.items()}


def _same_program(program: Any, recorded: Any) -> None:
    name = program.name
    assert recorded.inputs[name] == program.inputs_digest(), f"{name}: other inputs than recorded"
    assert recorded.sources[name] == program.source_digest(), f"{name}: changed since recorded"


@pytest.mark.parametrize("name", RUNNING)
def test_virtual_hopper_gives_the_recorded_bits(name: str, recorded: Any, modules: Any) -> None:
    program = PROGRAMS[name]
    _same_program(program, recorded)
    outputs = program.replay(modules[program.build.title])
    expected = recorded.outputs[name]
    assert set(outputs) == set(expected)
    found = {
        key: differing(bits, expected[key], program.dtype(key)).size
        for key, bits in outputs.items()
    }
    assert not any(found.values()), f"{name}: elements that differ: {found}"


@pytest.mark.parametrize("name", REFUSED)
def test_virtual_hopper_refuses_by_name(name: str, recorded: Any, modules: Any) -> None:
    program = PROGRAMS[name]
    _same_program(program, recorded)
    with pytest.raises(virtual.VirtualHopperError, match=program.refused.replace(".", r"\.")):
        program.replay(modules[program.build.title])


def test_every_recorded_program_exists(recorded: Any) -> None:
    assert set(recorded.outputs) == set(PROGRAMS)
    assert set(recorded.ptx) == {program.build.title for program in PROGRAMS.values()}


def test_recordings_come_from_the_silicon(recorded: Any) -> None:
    assert "H200" in recorded.environment["gpu"]


def test_a_source_without_positions_has_the_same_instructions() -> None:
    text = '.version 9.0\n\t.loc 1 2 3\n\t.local .b8 x[4];\n\t.file 1 "a.cu"\n\n\tret;\n'
    assert recording.without_positions(text) == ".version 9.0\n\t.local .b8 x[4];\n\tret;\n"


@pytest.mark.parametrize("source", ["calls", "tables"])
def test_the_recorded_ptx_is_that_of_the_source(source: str, recorded: Any) -> None:
    nvcc = recording.find_nvcc()
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    (build,) = {p.build for p in PROGRAMS.values() if p.build.title == source}
    compiled = recording.without_positions(recording.compile_build(nvcc, build).ptx)
    version = next(line for line in compiled.splitlines() if "release" in line)
    if version not in recorded.ptx[source]:
        pytest.skip(f"recorded with another nvcc than {version.removeprefix('// ')}")
    assert compiled == recorded.ptx[source]


def test_programs_draw_their_own_inputs() -> None:
    digests = {name: program.inputs_digest() for name, program in PROGRAMS.items()}
    assert len(set(digests.values())) == len(digests)


def test_a_changed_bit_is_seen(recorded: Any) -> None:
    bits = recorded.outputs["tree_sum-n=128"]["out"].copy()
    bits.flat[7] ^= np.uint32(1)
    assert differing(bits, recorded.outputs["tree_sum-n=128"]["out"], "f32").tolist() == [7]
