"""The documentation says what is so: its example runs, and the paths it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial.md"
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]

BLOCK = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)
PATH = re.compile(
    r"`((?:exactness|kernels|references|tests|docs|scripts|benchmarks)/[\w./-]+)(?:::(\w+))?`"
)
CASE_ROW = re.compile(r"^\| (C\d\d) \|.*\| ([^|]+) \|$", re.MULTILINE)

FOLDERS = ("kernels", "references")
COMMAND = "from exactness.cli import main; main()"

# Files that the example of a guide creates, and placeholders.
EXAMPLES = {f"{folder}/{stem}.py" for folder in FOLDERS for stem in ("mul_add", "NAME")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example of the guides, written out as a project of its own."""
    for page in ("own-project.md", "add-a-kernel.md"):
        for name, text in BLOCK.findall((DOCS / "guides" / page).read_text()):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return tmp_path


def test_script_of_the_tutorial_shows_every_launch(tmp_path: Path) -> None:
    (text,) = [text for name, text in BLOCK.findall(TUTORIAL.read_text()) if name == "look.py"]
    script = tmp_path / "look.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    labels = [line.split()[0] for line in done.stdout.splitlines()]
    chain = ["square", "sum_", "mean", "mean_eps", "recip", "inv_rms", "broadcast_mul"]
    assert labels == [*chain, "largest"]


def verify(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "verify", "--device", "cpu", "--examples", "10"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_example_of_the_guides_passes(project: Path) -> None:
    done = verify(project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_example_without_its_rounding_fails(project: Path) -> None:
    kernel = project / "kernels" / "mul_add.py"
    text = kernel.read_text()
    dropped = text.replace("product = (x * y).to(tl.bfloat16).to(tl.float32)", "product = x * y")
    assert dropped != text
    kernel.write_text(dropped)
    done = verify(project)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "mul_add" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_named_paths_exist(page: Path) -> None:
    named = {name for name, _ in PATH.findall(page.read_text())} - EXAMPLES
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_named_tests_exist(page: Path) -> None:
    named = {(path, name) for path, name in PATH.findall(page.read_text()) if name}
    text = {path: (ROOT / path).read_text() for path, _ in named}
    assert [name for path, name in sorted(named) if f"def {name}(" not in text[path]] == []


def test_every_case_names_what_catches_it_or_says_not_yet() -> None:
    rows = CASE_ROW.findall((DOCS / "cases.md").read_text())
    assert len(rows) == len(dict(rows)) == 74
    silent = [case for case, where in rows if not PATH.search(where) and "not yet: " not in where]
    assert silent == []
