"""The same Triton programs give the same bits on an H200 (recorded) and on the virtual Hopper."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "golden" / "conformance"


def _mounted(module: str) -> Any:
    name = "_exactness_conformance"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(HERE)]
        sys.modules[name] = package
    return importlib.import_module(f"{name}.{module}")


draws, program_module = _mounted("draws"), _mounted("program")
recording, versions = _mounted("recording"), _mounted("versions")
PROGRAMS = _mounted("catalogue").load()
RUNNING = sorted(name for name, program in PROGRAMS.items() if not program.refused)
REFUSED = sorted(name for name, program in PROGRAMS.items() if program.refused)


@pytest.fixture(scope="module")
def recorded() -> Any:
    """Return the recording of the H200."""
    return recording.read(RECORDINGS / "h200.safetensors")


def _report(name: str, key: str, actual: Any, expected: Any, dtype: str) -> str:
    where = program_module.differing(actual, expected, dtype)
    if not where.size:
        return ""
    first = int(where[0])
    digits = 2 * actual.itemsize
    got, want = int(actual.flat[first]), int(expected.flat[first])
    return (
        f"{name}/{key} ({dtype}): {where.size} of {actual.size} elements differ, the first at "
        f"{first}: {got:#0{digits + 2}x}, recorded {want:#0{digits + 2}x}"
    )


def _differences(program: Any, outputs: Any, expected: Any) -> str:
    reports = (
        _report(program.name, key, actual, expected[key], program.dtype(key))
        for key, actual in outputs.items()
    )
    return "\n".join(filter(None, reports))


@pytest.mark.parametrize("name", RUNNING)
def test_virtual_hopper_gives_the_recorded_bits(name: str, recorded: Any) -> None:
    program = PROGRAMS[name]
    if program.removed_in and recording.triton_version() >= program.removed_in:
        pytest.skip(f"Triton {program.removed_in} no longer compiles {name}")
    assert recorded.digests[name] == program.digest(), f"{name}: inputs are not those recorded"
    assert recorded.sources[name] == program.source(), f"{name}: changed since it was recorded"
    outcome = recording.execute(program, "virtual")
    assert not outcome.error, outcome.error
    expected = recorded.outputs[name]
    assert set(outcome.outputs) == set(expected)
    found = _differences(program, outcome.outputs, expected)
    known = versions.divergence(name, recording.triton_version())
    if known is None:
        assert not found, found
    else:
        assert found, f"{name} equals the recording, but {known.reason} since {known.since}"


@pytest.mark.parametrize("name", REFUSED)
def test_virtual_hopper_refuses_by_name(name: str) -> None:
    outcome = recording.execute(PROGRAMS[name], "virtual")
    assert PROGRAMS[name].refused in outcome.error


def test_every_recorded_program_exists(recorded: Any) -> None:
    assert set(recorded.outputs) == set(PROGRAMS)


def test_recordings_come_from_the_silicon(recorded: Any) -> None:
    assert "H200" in recorded.environment["gpu"]


def test_every_divergence_names_a_program() -> None:
    for entry in versions.DIVERGENCES:
        assert any(versions.divergence(name, entry.since) is entry for name in RUNNING), entry


def test_no_divergence_is_expected_under_the_recorded_version(recorded: Any) -> None:
    major, minor = recorded.environment["triton"].split(".")[:2]
    assert not [n for n in RUNNING if versions.divergence(n, (int(major), int(minor)))]


LAUNCH = """
def helper(x):
    return x + 1

def kernel(x):
    return helper(x) * 2

def launch(t):
    return kernel(t)
"""


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        pytest.param(
            LAUNCH.replace("return x + 1", "return (x  # why\n    + 1)"), True, id="layout"
        ),
        pytest.param(LAUNCH.replace("x + 1", "x + 2"), False, id="helper"),
        pytest.param(LAUNCH.replace("* 2", "* 3"), False, id="kernel"),
        pytest.param(LAUNCH.replace("kernel(t)", "kernel(t + 1)"), False, id="launch"),
    ],
)
def test_digest_of_code_sees_arithmetic_and_not_layout(
    tmp_path: Path, changed: str, same: bool
) -> None:
    digests = []
    for number, text in enumerate((LAUNCH, changed)):
        path = tmp_path / f"probe{number}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("probe", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        digests.append(_mounted("code").source_digest(module.launch))
    assert (digests[0] == digests[1]) is same


def test_a_changed_bit_is_reported() -> None:
    expected = np.array([0x3F800000, 0x80000000, 0x7FC00000], np.uint32)
    assert not _report("p", "out", expected.copy(), expected, "f32")
    actual = np.array([0x3F800000, 0x00000000, 0x7FC00001], np.uint32)
    text = _report("p", "out", actual, expected, "f32")
    assert "1 of 3 elements differ, the first at 1: 0x00000000, recorded 0x80000000" in text


@pytest.mark.parametrize("dtype", sorted(draws.TORCH_NAMES))
def test_patterns_survive_the_way_through_torch(dtype: str) -> None:
    bits = draws.patterns((5, 7), dtype).bits("seed")
    assert np.array_equal(draws.to_bits(draws.to_tensor(bits, dtype)), bits)


@pytest.mark.parametrize("dtype", sorted(draws.FLOATS))
def test_moderate_values_are_finite_and_of_both_signs(dtype: str) -> None:
    bits = draws.moderate((4096,), dtype, -3, 3).bits("seed")
    values = draws.to_tensor(bits, dtype).double().numpy()
    assert np.abs(values).min() >= 2.0**-3
    assert np.abs(values).max() < 2.0**4
    assert 1500 < (values < 0).sum() < 2600
    assert len(np.unique(np.frexp(values)[1])) == 7


@pytest.mark.parametrize("dtype", sorted(draws.FLOATS))
def test_patterns_hold_the_specials(dtype: str) -> None:
    bits = draws.patterns((4096,), dtype).bits("seed")
    values = draws.to_tensor(bits, dtype).double().numpy()
    assert np.isnan(values).any()
    assert (dtype == "e4m3fn") or (np.isposinf(values).any() and np.isneginf(values).any())
    zeros = values == 0
    assert np.signbit(values[zeros]).any()
    assert not np.signbit(values[zeros]).all()
    assert np.array_equal(np.isnan(values), program_module.is_nan(bits, dtype))


def test_permutations_hold_every_index_once() -> None:
    assert sorted(draws.permutation((1000,)).bits("seed")) == list(range(1000))


def test_inputs_are_reproducible_and_differ_between_names() -> None:
    names = [name for name in PROGRAMS if name.startswith(("basic_", "three_", "polynomial_"))]
    digests = [PROGRAMS[name].digest() for name in names]
    assert digests == [PROGRAMS[name].digest() for name in names]
    assert len(set(digests)) == len(names) > 10
