"""Files that are written whole or not at all, and refused in one line where they cannot be."""

import os
from pathlib import Path

import pytest

from exactness.errors import UsageError
from exactness.writing import check_writable, write_atomically


@pytest.fixture(params=["a folder", "a file as folder", "a file as its folder", "a pipe", "proc"])
def unwritable(request, tmp_path):
    """A path that cannot be written, and words of the reason."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    return {
        "a folder": (tmp_path / "folder", "it is a folder"),
        "a file as folder": (tmp_path / "file" / "new.json", "Not a directory"),
        "a file as its folder": (tmp_path / "file" / "more" / "new.json", "Not a directory"),
        "a pipe": (tmp_path / "pipe", "it is not a regular file"),
        "proc": (Path("/proc/exactness/new.json"), ""),
    }[request.param]


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "write", [check_writable, lambda path: write_atomically(path, b"x")], ids=["check", "write"]
)
def test_what_cannot_be_written_is_named(unwritable, write, tmp_path):
    path, words = unwritable
    before = contents(tmp_path)
    with pytest.raises(UsageError) as refused:
        write(path)
    assert str(refused.value).startswith(f"{path}: cannot be written: {words}")
    assert contents(tmp_path) == before


def test_a_check_leaves_nothing_behind(tmp_path):
    (tmp_path / "old.json").write_text("old")
    before = contents(tmp_path)
    check_writable(tmp_path / "old.json", None, tmp_path / "a" / "b" / "new.json")
    assert contents(tmp_path) == before


def test_folders_are_created_and_files_replaced(tmp_path):
    path = tmp_path / "a" / "b" / "new.json"
    for data in (b"first", b"second"):
        write_atomically(path, data)
        assert contents(path.parent) == {path: data}


def test_what_stood_there_stays_if_the_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "old.json"
    path.write_text("old")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match=r"old\.json: cannot be written: No space left"):
        write_atomically(path, b"new")
    assert contents(tmp_path) == {path: b"old"}


def full(path, data):
    raise OSError(28, "No space left on device")
