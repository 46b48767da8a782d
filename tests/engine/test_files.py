"""Reading tensor files: the right bits, nothing loaded early, one clear line for bad ones."""

from __future__ import annotations

import contextlib
import json
import pickle
import struct
import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_bytes
from safetensors.torch import save_file

from exactness.bits import TORCH_NAMES, Bits
from exactness.files import UNNAMED, UnreadableError, open_tensors

TORCH = {name: getattr(torch, dtype) for name, dtype in TORCH_NAMES.items()}


def tensors() -> dict[str, torch.Tensor]:
    """One [3, 5] tensor of random bits for every format that torch has."""
    rng = np.random.default_rng(11)
    made = {}
    for name, dtype in TORCH.items():
        raw = rng.integers(0, 2 if name == "bool" else 256, 15 * dtype.itemsize, np.uint8)
        made[name] = torch.from_numpy(raw).view(dtype).reshape(3, 5)
    return made


def same(found: Bits, expected: Bits) -> bool:
    return found.format == expected.format and np.array_equal(found.patterns, expected.patterns)


def mapped(bits: Bits) -> bool:
    """Whether the patterns lie in a mapped file."""
    base = bits.patterns
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def test_safetensors_of_every_dtype_are_mapped(tmp_path: Path) -> None:
    expected = tensors()
    save_file(expected, tmp_path / "x.safetensors", metadata={"gpu": "none"})
    file = open_tensors(tmp_path / "x.safetensors")
    assert set(file) == set(expected)
    assert file.metadata == {"gpu": "none"}
    for name, tensor in expected.items():
        assert same(file[name], Bits.of(tensor)), name
        assert mapped(file[name])


def test_pt_names_are_paths_through_the_content(tmp_path: Path) -> None:
    content = {"layers": [{"w": t} for t in tensors().values()], "epoch": 3, "note": "x"}
    torch.save(content, tmp_path / "x.pt")
    file = open_tensors(tmp_path / "x.pt")
    assert list(file) == [f"layers.{i}.w" for i in range(len(TORCH))]
    assert file.skipped == ("epoch", "note")
    for i, tensor in enumerate(tensors().values()):
        assert same(file[f"layers.{i}.w"], Bits.of(tensor))


@pytest.mark.parametrize("zipped", [True, False])
def test_pt_of_one_tensor_and_of_old_files(tmp_path: Path, zipped: bool) -> None:
    x = torch.randn(4).bfloat16()
    torch.save(x, tmp_path / "x.pth", _use_new_zipfile_serialization=zipped)
    file = open_tensors(tmp_path / "x.pth")
    assert (list(file), file.named) == ([UNNAMED], False)
    assert same(file[UNNAMED], Bits.of(x))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_members(tmp_path: Path, save: object) -> None:
    rng = np.random.default_rng(2)
    expected = {
        "f": rng.random((3, 4)).astype(np.float32),
        "fortran": np.asfortranarray(rng.random((3, 4))),
        "big": rng.random(5).astype(">f4"),
        "scalar": np.array(1.5),
        "empty": np.zeros((0, 3), np.float16),
        "flag": np.array([True, False]),
        "i": np.arange(-3, 3, dtype=np.int16),
    }
    save(tmp_path / "x.npz", **expected)
    file = open_tensors(tmp_path / "x.npz")
    assert list(file) == list(expected)
    for name, array in expected.items():
        native = array.astype(array.dtype.newbyteorder("="))
        assert same(file[name], Bits.of(native)), name
        assert file[name].shape == array.shape
    assert mapped(file["fortran"]) == (save is np.savez)


def test_npy(tmp_path: Path) -> None:
    x = np.random.default_rng(4).random((2, 3))
    np.save(tmp_path / "x.npy", x)
    file = open_tensors(str(tmp_path / "x.npy"))
    assert same(file[UNNAMED], Bits.of(x))
    assert mapped(file[UNNAMED])


def read_all(path: Path) -> list[Bits]:
    file = open_tensors(path)
    return [file[name] for name in file]


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_all(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "; " in text
    assert "\n" not in text
    for part in parts:
        assert part in text


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".npy", ".pt"])
@pytest.mark.parametrize("content", [b"", b"\x00", b"hello, world\n" * 40, b"\xff" * 500])
def test_foreign_bytes_are_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    refused(path)


def test_missing_files_folders_and_unknown_kinds(tmp_path: Path) -> None:
    refused(tmp_path / "x.npy", "does not exist", "check the path")
    (tmp_path / "folder.pt").mkdir()
    refused(tmp_path / "folder.pt", "not a regular file")
    refused(tmp_path / "x.gguf", "unknown extension '.gguf'", ".safetensors, .npz, .npy, .pt")


def safetensors_file(path: Path, header: object, payload: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"x": entry("F32", [4], 0, 16)}, "truncated: header describes 16 bytes"),
        ({"x": entry("F32", [1], 0, 4)}, "header describes 4 bytes of tensors, 8 follow"),
        ({"x": entry("F32", [3], 0, 8)}, "entry 'x': 8 bytes do not hold F32 (3,)"),
        ({"x": entry("F4", [2], 0, 8)}, "entry 'x' has dtype F4; F64, F32, F16, BF16"),
        ({"x": entry("F32", [1], 4, 8)}, "entry 'x' begins at byte 4"),
        ({"x": entry("F32", [-2], 0, 8)}, "entry 'x'"),
        ({"x": {"dtype": "F32"}}, "entry 'x' has no data_offsets"),
        ({"x": 3}, "entry 'x' has no data_offsets"),
        ({"x": {**entry("F32", [2], 0, 8), "shape": 2}}, "damaged or foreign"),
        ([1, 2], "header is not a JSON object"),
        (b'{"x":', "damaged or foreign"),
        (b'{"x":{"dtype":"U8"},"x":{}}', "names an entry twice"),
    ],
)
def test_bad_safetensors_headers(tmp_path: Path, header: object, words: str) -> None:
    refused(safetensors_file(tmp_path / "x.safetensors", header, bytes(8)), words)


def test_npz_and_npy_that_are_no_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", good=np.ones(2), bad=np.array([{}, None], dtype=object))
    refused(tmp_path / "o.npz", "entry 'bad': holds Python objects", "save numeric arrays")
    assert same(open_tensors(tmp_path / "o.npz")["good"], Bits.of(np.ones(2)))
    for name, array, words in (
        ("v", np.ones(2, ml_dtypes.bfloat16), "save them as .safetensors"),
        ("c", np.ones(2, complex), "dtype complex128 has no format"),
        ("s", np.array(["a", "b"]), "has no format"),
    ):
        np.save(tmp_path / f"{name}.npy", array)
        refused(tmp_path / f"{name}.npy", words)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_byte_in_an_npz_is_noticed(tmp_path: Path, save: object) -> None:
    path = tmp_path / "x.npz"
    save(path, x=np.arange(1000.0))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        content[archive.infolist()[0].header_offset + 600] ^= 4
    path.write_bytes(content)
    refused(path, "entry 'x'")


class NotATensor:
    """Something whose unpickling would run code."""


def test_pt_that_needs_code_is_refused(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2), "code": NotATensor()}, tmp_path / "x.pt")
    refused(tmp_path / "x.pt", "needs code to be unpickled", "save plain tensors")
    torch.save({"x": torch.eye(2).to_sparse()}, tmp_path / "s.pt")
    refused(tmp_path / "s.pt", "entry 'x'", "save dense tensors")
    torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, tmp_path / "two.pt")
    refused(tmp_path / "two.pt", "two entries are called 'a.b'")


def test_pickle_of_another_origin_is_refused_without_a_warning(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.pt"
    foreign.write_bytes(pickle.dumps({"code": NotATensor()}, protocol=4))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        refused(foreign, "needs code to be unpickled", "save plain tensors")
    assert not warned


def images() -> dict[str, bytes]:
    """A small file of each kind."""
    import io

    arrays = {"x": np.arange(20.0), "y": np.arange(6, dtype=np.int8).reshape(2, 3)}
    made = {".safetensors": safetensors_bytes(arrays)}
    for suffix, write in (
        (".npz", lambda f: np.savez(f, **arrays)),
        (".npy", lambda f: np.save(f, arrays["x"])),
        (".pt", lambda f: torch.save({"x": torch.arange(20.0)}, f)),
    ):
        stream = io.BytesIO()
        write(stream)
        made[suffix] = stream.getvalue()
    return made


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".npy", ".pt"])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_damage_is_an_unreadable_error_or_still_a_file(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    """Any truncation is noticed; flipped bytes never raise anything else."""
    image = images()[suffix]
    path = tmp_path_factory.getbasetemp() / f"damaged{suffix}"
    path.write_bytes(image[: data.draw(st.integers(0, len(image) - 1), label="length")])
    refused(path)
    flipped = bytearray(image)
    for position in data.draw(st.lists(st.integers(0, len(image) - 1), max_size=3)):
        flipped[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(flipped)
    with contextlib.suppress(UnreadableError):
        read_all(path)
