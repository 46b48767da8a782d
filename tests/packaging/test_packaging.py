"""What gets installed: `exactness` and nothing else, whatever the directory one works in.

An importable top-level `kernels` would shadow the Hugging Face package of that name, so these
tests install into fresh environments and look from a directory that is not the project's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "exactness"


def run(arguments: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command outside the project, with nothing of the calling process on its path."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=kept | {"NO_COLOR": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def succeed(arguments: Sequence[str | Path], cwd: Path) -> str:
    """The standard output of a command that has to succeed."""
    done = run(arguments, cwd)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    succeed([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            Path(name).name: archive.read(name).decode()
            for name in archive.namelist()
            if name.split("/")[0].endswith(".dist-info")
        }


@pytest.fixture(scope="module", params=["wheel", "editable"])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with `exactness` installed one way or the other."""
    environment = tmp_path_factory.mktemp(request.param) / "venv"
    succeed([sys.executable, "-m", "venv", "--without-pip", environment], ROOT)
    interpreter = environment / "bin" / "python"
    share_dependencies(interpreter)
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-deps"]
    if request.param == "wheel":
        succeed([*pip, "--no-index", request.getfixturevalue("wheel")], environment)
    else:
        succeed([*pip, "--no-index", "--no-build-isolation", "--editable", ROOT], environment)
    return interpreter


def share_dependencies(interpreter: Path) -> None:
    """Let the fresh environment see the running one's packages.

    Folders added by a .pth file have their own .pth files ignored, so the running environment's
    editable install of `exactness` stays out.
    """
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(succeed([interpreter, "-c", ask], interpreter.parent).strip())
    folders = [entry for entry in sys.path if Path(entry).name.endswith("-packages")]
    (site / "00-dependencies.pth").write_text("\n".join(folders) + "\n")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def test_wheel_ships_the_package_and_its_metadata_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    version = wheel.name.split("-")[1]
    assert tops == {"exactness", f"exactness-{version}.dist-info"}


def test_wheel_ships_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if name.startswith("exactness/")}
    present = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert shipped == present


@pytest.mark.parametrize("data", ["exactness/py.typed", "exactness/hopper/**/*.i8.xz"])
def test_wheel_ships_data(wheel: Path, data: str) -> None:
    expected = {path.relative_to(ROOT).as_posix() for path in ROOT.glob(data)}
    assert expected, f"nothing in the package matches {data}"
    with zipfile.ZipFile(wheel) as archive:
        assert expected <= set(archive.namelist())


def test_metadata_names_license_and_entry_points(metadata: dict[str, str]) -> None:
    fields = Parser().parsestr(metadata["METADATA"])
    assert fields["License-Expression"] == "Apache-2.0"
    assert "Apache License" in metadata["LICENSE"]
    assert "exactness = exactness.cli:main" in metadata["entry_points.txt"]
    assert "exactness = exactness.pytest_plugin" in metadata["entry_points.txt"]


def test_metadata_keeps_heavy_packages_optional(metadata: dict[str, str]) -> None:
    required = Parser().parsestr(metadata["METADATA"]).get_all("Requires-Dist", [])
    always = {line.split(">")[0] for line in required if "extra ==" not in line}
    assert always == {"numpy", "click", "rich", "jinja2", "safetensors", "numba"}


@pytest.mark.parametrize("name", ["kernels", "references"])
def test_catalogue_folders_are_not_importable(python: Path, elsewhere: Path, name: str) -> None:
    done = run([python, "-c", f"import {name}"], elsewhere)
    assert done.returncode == 1
    assert f"ModuleNotFoundError: No module named '{name}'" in done.stderr


def test_package_is_importable_from_elsewhere(python: Path, elsewhere: Path) -> None:
    ask = "import exactness; print(exactness.__file__)"
    location = Path(succeed([python, "-c", ask], elsewhere).strip())
    assert location.name == "__init__.py"
    environment = python.parent.parent
    assert location.is_relative_to(environment) or location.is_relative_to(PACKAGE)


@pytest.mark.parametrize("module", ["exactness", "exactness.pytest_plugin"])
def test_import_stays_light(python: Path, elsewhere: Path, module: str) -> None:
    heavy = ("torch", "triton", "numpy", "numba", "hypothesis")
    ask = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    assert succeed([python, "-c", ask], elsewhere).strip() == "[]"


PYPROJECT = """
[tool.exactness]
kernels = "ops"
references = "chains"
golden = "recorded"
"""
KERNEL = """
from exactness.claim import CPU, Claim
from exactness.formats import f32
from exactness.inputs import rows

from ._shared import FACTOR


def triple(x):
    return x * FACTOR


CLAIM = Claim(kernel=triple, reference="triple:triple", inputs=rows(f32, n=(1, 64)), runs_on=CPU,
              cases=[{"rows": 3, "n": 17}])
"""
REFERENCE = """
from exactness.arithmetic import launch


@launch
def triple(x):
    return x * 3.0
"""


@pytest.fixture
def foreign(elsewhere: Path) -> Path:
    """Another project, with folders of its own; commands run in a subfolder of it."""
    files = {
        "pyproject.toml": PYPROJECT,
        "ops/triple.py": KERNEL,
        "ops/_shared.py": "FACTOR = 3.0\n",
        "chains/triple.py": REFERENCE,
    }
    for name, text in files.items():
        path = elsewhere / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    below = elsewhere / "below"
    below.mkdir()
    return below


def test_command_mounts_the_catalogue_of_the_project_it_stands_in(
    python: Path, foreign: Path
) -> None:
    listed = json.loads(succeed([python.parent / "exactness", "list", "--json"], foreign))
    assert [claim["claim"] for claim in listed["claims"]] == ["triple"]


def test_foreign_catalogue_is_verified_with_two_files_and_no_more(
    python: Path, foreign: Path
) -> None:
    command = [python.parent / "exactness", "verify", "--device", "cpu", "--examples", "10"]
    succeed(command, foreign)
    (foreign.parent / "ops" / "_shared.py").write_text("FACTOR = 3.0000002\n")
    done = run(command, foreign)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "triple" in done.stdout


def test_command_outside_any_project_says_what_to_add(python: Path, elsewhere: Path) -> None:
    done = run([python.parent / "exactness", "list"], elsewhere)
    assert done.returncode == 2
    assert "[tool.exactness]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
