"""Chunks on disk: what is kept, what goes on, and what is left alone."""

import json

import numpy as np
import pytest

from exactness.errors import UsageError
from exactness.quality.store import Store

SETTINGS = {
    "model": "m",
    "model_sha256": "1",
    "text_sha256": "2",
    "context": 16,
    "chunk": 4,
    "chunks": 3,
    "packages": {"numpy": "2.4.6", "torch": "2.13.0"},
}
FIGURES = {"window": np.arange(5)}


@pytest.fixture
def store(tmp_path):
    """Two of three chunks are finished."""
    made = Store.begin(tmp_path / "run", SETTINGS)
    for number in (0, 2):
        made.write(number, FIGURES)
    return made


def names(store):
    return sorted(file.name for file in store.folder.iterdir())


def test_chunks_come_back(store):
    again = Store.resume(store.folder, SETTINGS)
    assert [again.has(number) for number in range(3)] == [True, False, True]
    found = again.read(2)
    assert found.keys() == FIGURES.keys()
    assert np.array_equal(found["window"], FIGURES["window"])


def test_nothing_to_go_on_with(tmp_path):
    with pytest.raises(UsageError, match="has no run to go on with"):
        Store.resume(tmp_path / "none", SETTINGS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": 8, "chunk": 8}, "context was 16, now it is 8; leave --resume out"),
        (
            {"packages": {"numpy": "2.4.6", "torch": "2.11.0"}},
            "packages.torch was '2.13.0', now it is '2.11.0'",
        ),
        ({"packages": {"numpy": "2.4.6"}}, "packages.torch was '2.13.0', now it is None"),
        ({"new": 1}, "new was None, now it is 1"),
    ],
    ids=["size", "package", "removed", "added"],
)
def test_the_first_difference_is_named(store, change, message):
    with pytest.raises(UsageError, match=message):
        Store.resume(store.folder, SETTINGS | change)


@pytest.mark.parametrize("start", [Store.begin, Store.resume])
@pytest.mark.parametrize("content", ["[]", "{", '{"model": "of something else"}', "7", None])
def test_a_run_json_of_something_else_stays(store, start, content):
    file = store.folder / "run.json"
    file.unlink()
    file.mkdir() if content is None else file.write_text(content)
    before = names(store)
    with pytest.raises(UsageError, match=r"run.json (is not what a run writes|cannot be read)"):
        start(store.folder, SETTINGS)
    assert names(store) == before
    assert content is None or file.read_text() == content


@pytest.mark.parametrize("content", [b"", b"PK", None], ids=["empty", "short", "cut"])
def test_a_damaged_chunk_is_named_before_the_others_are_scored(store, content):
    file = store.folder / "chunk-00002.npz"
    file.write_bytes(file.read_bytes()[:150] if content is None else content)
    with pytest.raises(UsageError, match=r"chunk-00002.npz is damaged: .*; remove it") as caught:
        Store.resume(store.folder, SETTINGS)
    assert "\n" not in str(caught.value)


def test_a_chunk_of_another_run_is_not_taken(store, tmp_path):
    other = Store.begin(tmp_path / "other", SETTINGS | {"model": "n"})
    other.write(1, FIGURES)
    (other.folder / "chunk-00001.npz").rename(store.folder / "chunk-00001.npz")
    with pytest.raises(UsageError, match=r"chunk-00001.npz is not of this run; remove it"):
        Store.resume(store.folder, SETTINGS)


def test_to_begin_anew_says_what_it_discards(store):
    again = Store.begin(store.folder, SETTINGS)
    assert again.discarded == "2 finished chunks discarded; --resume would have gone on"
    assert names(again) == ["run.json"]
    again.write(1, FIGURES)
    other = Store.begin(store.folder, SETTINGS | {"model": "n"})
    assert other.discarded == "1 finished chunk of another run discarded"
    assert Store.begin(store.folder, SETTINGS).discarded == ""
    assert json.loads((store.folder / "run.json").read_text()) == SETTINGS


@pytest.mark.parametrize("name", ["chunk-mydata.npz", "chunk-1.npz", "chunk-00003.npz", "mine.npz"])
def test_files_that_are_no_chunks_of_the_run_stay(store, name):
    (store.folder / name).write_bytes(b"mine")
    assert names(Store.begin(store.folder, SETTINGS)) == sorted([name, "run.json"])
    store.write(0, FIGURES)
    store.clear()
    assert names(store) == [name]
    assert (store.folder / name).read_bytes() == b"mine"


def test_a_chunk_in_a_folder_without_a_run_stays(tmp_path):
    file = tmp_path / "chunk-00000.npz"
    file.write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"chunk-00000.npz would be overwritten"):
        Store.begin(tmp_path, SETTINGS)
    assert file.read_bytes() == b"mine"
