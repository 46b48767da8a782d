"""The example of the guide on CUDA kernels passes as it stands, and fails once it is changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton", reason="Triton's wheel ships ptxas and nvdisasm")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "cuda-kernels.md"
BLOCK = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)
COMMAND = "from exactness.cli import main; main()"
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, written out as a project of its own."""
    if not os.access(NVCC, os.X_OK):
        pytest.skip("nvcc is not installed")
    for name, text in BLOCK.findall(PAGE.read_text()):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "pyproject.toml").write_text("[tool.exactness]\n")
    return tmp_path


def verify(project: Path) -> subprocess.CompletedProcess[str]:
    stem = project / "cuda" / "engine_norm"
    command = [NVCC, "-ptx", "-arch=sm_90", "-O3", "-lineinfo", f"{stem}.cu", "-o", f"{stem}.ptx"]
    subprocess.run(command, check=True, capture_output=True)
    options = ["verify", "--device", "cpu", "--examples", "10"]
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *options],
        cwd=project, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_example_passes(project: Path) -> None:
    done = verify(project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_order_fails(project: Path) -> None:
    kernel = project / "cuda" / "engine_norm.cu"
    text = kernel.read_text()
    reversed_tree = "for (int half = 1; half < 128; half *= 2) {\n        if (t % (2 * half) == 0)"
    changed = re.sub(r"for \(int half = 64.*?\n +if \(t < half\)", reversed_tree, text)
    assert changed != text
    kernel.write_text(changed)
    done = verify(project)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED engine_norm[property]" in done.stdout
