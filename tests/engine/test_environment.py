"""The record of a machine: what is in it, and what it must notice."""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch

import exactness
from exactness import environment


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=m"]
    done = subprocess.run(
        ["git", *identity, "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_it_names_what_computes() -> None:
    found = environment.collect()
    assert found.exactness == exactness.__version__
    assert found.python == platform.python_version()
    assert found.system == f"{platform.system()} {platform.machine()}"
    assert found.packages["numpy"] == np.__version__
    assert found.packages["torch"] == metadata.version("torch")
    for package in ("transformers", "tokenizers"):
        installed = importlib.util.find_spec(package) is not None
        assert found.packages.get(package) == (metadata.version(package) if installed else None)
    assert found.cores >= 1
    assert found.cpu
    assert found.commit is None
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_packages_that_are_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_PACKAGES", ("numpy", "no-such-package"))
    assert list(environment.collect().packages) == ["numpy"]


def test_the_commit_and_whether_it_is_clean(repository: Path) -> None:
    head = git(repository, "rev-parse", "--short=12", "HEAD")
    assert environment.collect(repository).commit == head
    (repository / "untracked").write_text("2")
    assert environment.collect(repository).commit == head
    (repository / "file").write_text("changed")
    assert environment.collect(repository).commit == f"{head}-dirty"


def test_no_commit_outside_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert environment.collect(tmp_path).commit is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.collect(tmp_path).commit is None, "git is not installed"


def test_settings_are_those_that_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(environment.os.environ):
        if name.startswith(("EXACTNESS_", "TRITON_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("EXACTNESS_QNORM_F32_ACC", "1")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/somewhere/bin/ptxas")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    assert environment.collect().settings == {
        "ATEN_CPU_CAPABILITY": "default",
        "EXACTNESS_QNORM_F32_ACC": "1",
        "TRITON_INTERPRET": "1",
        "TRITON_PTXAS_PATH": "ptxas",
    }


def test_a_machine_without_a_gpu_is_named_by_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = environment.collect()
    assert (found.gpu, found.capability, found.driver) == (None, None, None)
    assert found.machine == f"{found.cpu}, {found.cores} cores"


def test_a_machine_with_a_gpu_is_named_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(environment, "_driver", lambda: "580.159")
    found = environment.collect()
    assert (found.gpu, found.capability, found.driver) == ("NVIDIA H200", "9.0", "580.159")
    assert found.machine == "NVIDIA H200 (sm_90)"


def test_a_missing_torch_is_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert environment.collect().gpu is None


@pytest.mark.parametrize("command", [("no-such-program",), ("false",), ("true",)])
def test_programs_that_fail_or_say_nothing(command: tuple[str, ...]) -> None:
    assert environment._output(*command) is None
    assert environment._output("echo", "one\ntwo") == "one"


def test_c83_flushed_subnormals_are_noticed() -> None:
    """C83: flush-to-zero belongs to a thread, so the fault is planted in one of its own."""
    seen = []

    def flushing() -> None:
        seen.append(environment.subnormals_are_flushed())
        assert torch.set_flush_denormal(True)
        try:
            seen.append(environment.subnormals_are_flushed())
        finally:
            torch.set_flush_denormal(False)
        seen.append(environment.subnormals_are_flushed())

    if not torch.set_flush_denormal(False):
        pytest.skip("this processor has no flush-to-zero mode that torch can set")
    thread = threading.Thread(target=flushing)
    thread.start()
    thread.join()
    assert seen == [False, True, False]
    assert not environment.subnormals_are_flushed()
