"""The documentation says what is so: its example runs, and the paths it names exist."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from exactness.catalogue import Catalogue
from exactness.checks import Check
from exactness.project import Project

plan = importlib.import_module("exactness.checks.plan")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]

BLOCK = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)
PATH = re.compile(
    r"`((?:exactness|kernels|references|tests|docs|scripts|benchmarks)/[\w./-]+)(?:::(\w+))?`"
)
QUOTED_EDIT = re.compile(
    r"replace\n\n```python\n(.*?)\n```\n\nby\n\n```python\n(.*?)\n```", re.DOTALL
)
EDIT_ROW = re.compile(r"^\| [^|]* \| `([^`]+)`[^|]* \| `([^`]+)` \|$", re.MULTILINE)
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


def run_script(page: str, name: str, folder: Path) -> list[str]:
    """Run a script that stands on a page, from the project; the first word of each line."""
    (text,) = [text for found, text in BLOCK.findall((DOCS / page).read_text()) if found == name]
    script = folder / name
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line.split()[0] for line in done.stdout.splitlines()]


def test_script_of_the_tutorial_shows_every_launch(tmp_path: Path) -> None:
    labels = run_script("tutorial.md", "look.py", tmp_path)
    chain = ["square", "sum_", "mean", "mean_eps", "recip", "inv_rms", "broadcast_mul"]
    assert labels == [*chain, "largest"]


def edits() -> list[tuple[str, str]]:
    """What the tutorial replaces in the kernel, and by what; the first is the one in full."""
    _, _, section = (DOCS / "tutorial.md").read_text().partition("## Break it\n")
    section, _, _ = section.partition("\n## ")
    return QUOTED_EDIT.findall(section) + EDIT_ROW.findall(section)


def broken_cases(folder: Path, old: str, new: str) -> set[str]:
    """The cases of qnorm that fail once the first `old` in its kernel is `new`, in a copy."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests").mkdir()
    (folder / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
    kernel = folder / "kernels" / "qnorm.py"
    text = kernel.read_text()
    assert old in text
    kernel.write_text(text.replace(old, new, 1))
    options = ("verify", "qnorm", "--device", "cpu", "-k", "rows=")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return set(re.findall(r"^FAILED qnorm\[(\S+)\]", done.stdout, re.MULTILINE))


def test_the_rounding_that_the_tutorial_takes_out_shows_in_long_rows_only(tmp_path: Path) -> None:
    assert broken_cases(tmp_path, *edits()[0]) == {"rows=40-n=3000"}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_other_faults_of_the_tutorial_are_noticed(tmp_path: Path, number: int) -> None:
    assert len(edits()) == 4
    assert "rows=40-n=3000" in broken_cases(tmp_path, *edits()[number])


def test_excerpt_of_the_kill_matrix_is_that_of_the_results() -> None:
    """Another number of mutants, or another fate, makes the excerpt stale."""
    page = (DOCS / "guides" / "sensitivity.md").read_text()
    results = (DOCS / "results" / "sensitivity.md").read_text()
    (row,) = re.findall(r"^\| `qnorm` \| (\d+) \| (\d+) \| (\d+) \|", results, re.MULTILINE)
    total, killed, proved = row
    assert (
        f"mutants: qnorm, {total} of {total} mutants judged, {proved} proved equal: "
        f"{killed} killed, {proved} proved equal\n"
    ) in page


def test_scripts_of_the_virtual_hopper_run(tmp_path: Path) -> None:
    assert run_script("guides/virtual-hopper.md", "scale.py", tmp_path)[0] == "_scale"
    claims = ["o_norm", "qnorm", "silu_and_mul", "sinkhorn"]
    assert run_script("results/virtual-hopper-speed.md", "speed.py", tmp_path) == claims


@pytest.mark.parametrize(
    ("name", "machine"),
    [("verify-h200.json", "NVIDIA H200"), ("verify-cpu.json", "virtual Hopper (sm_90)")],
)
def test_reports_of_the_catalogue_are_green(name: str, machine: str) -> None:
    report = json.loads((DOCS / "results" / name).read_text())
    assert report["machine"] == machine
    assert report["totals"]["passed"] > 0
    assert [c["check"] for c in report["checks"] if c["status"] in ("failed", "error")] == []


def test_readme_names_every_claim_and_every_kind_of_check() -> None:
    readme = (ROOT / "README.md").read_text()
    claims = [entry.claim.name for entry in Catalogue(Project.find(ROOT)).entries]
    assert [name for name in claims if f"`{name}`" not in readme] == []
    planned = [found for found in vars(plan).values() if isinstance(found, type)]
    kinds = {found.kind for found in planned if issubclass(found, Check) and found is not Check}
    assert len(kinds) >= 10
    assert [kind for kind in sorted(kinds) if f"| {kind} |" not in readme] == []


def test_special_functions_of_the_h200_are_those_of_the_page() -> None:
    page = (DOCS / "results" / "special-functions.md").read_text()
    for row in json.loads((DOCS / "results" / "special-functions-h200.json").read_text())["rows"]:
        assert f"| {row['compared']:,} | {row['differing']} |" in page, row["name"]


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
