"""Two files, tensor by tensor."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from exactness.compare import Verdict
from exactness.diff import FileDiff, UnreadableError, diff_files
from exactness.jsonable import jsonable
from exactness.messages import file_report


def layers(count: int = 4) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {
        f"layer.{i}.out": torch.randn(5, 16, generator=generator).bfloat16() for i in range(count)
    }


def compared(
    tmp_path: Path, actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]
) -> FileDiff:
    save_file(actual, tmp_path / "actual.safetensors")
    save_file(expected, tmp_path / "expected.safetensors")
    return diff_files(tmp_path / "actual.safetensors", tmp_path / "expected.safetensors")


def test_equal_files(tmp_path: Path) -> None:
    diff = compared(tmp_path, layers(), layers())
    assert (diff.verdict, diff.elements, diff.diverging) == (Verdict.EQUAL, 320, 0)
    assert diff.stale == ()
    assert file_report(diff) == "equal: 4 tensors, 320 elements compared, all bits the same"


def test_the_first_diverging_tensor_is_shown_and_all_are_counted(tmp_path: Path) -> None:
    changed = layers()
    for name in ("layer.1.out", "layer.3.out"):
        changed[name].view(torch.int16)[2, 5] += 1
    diff = compared(tmp_path, changed, layers())
    assert (diff.verdict, diff.diverging, diff.mismatches) == (Verdict.DIFFERENT, 2, 2)
    assert diff.first_diverging is not None
    assert diff.first_diverging.name == "layer.1.out"
    text = file_report(diff)
    assert text.startswith("different: 2 of 4 tensors, 2 of 320 elements\n")
    assert "first diverging tensor:\nlayer.1.out: 1 of 80 elements differ, largest 1 ulp" in text
    assert "also differ (1):\n  layer.3.out: 1 of 80 elements differ" in text


def test_missing_and_extra_names(tmp_path: Path) -> None:
    actual, expected = layers(), layers()
    actual["new"] = actual.pop("layer.2.out")
    diff = compared(tmp_path, actual, expected)
    assert (diff.missing, diff.extra) == (("layer.2.out",), ("new",))
    assert (diff.verdict, diff.mismatches) == (Verdict.DIFFERENT, 0)
    text = file_report(diff)
    assert "1 missing, 1 extra" in text
    assert "only in expected (1): layer.2.out" in text
    assert "only in actual (1): new" in text


def test_shape_and_format_differences_are_diverging(tmp_path: Path) -> None:
    diff = compared(
        tmp_path,
        {"a": torch.zeros(2, 3), "b": torch.zeros(4).bfloat16()},
        {"a": torch.zeros(3, 2), "b": torch.zeros(4)},
    )
    assert diff.diverging == 2
    assert "a: shape [2, 3], expected [3, 2]" in file_report(diff)
    assert "b: format bf16, expected f32" in file_report(diff)


def test_nothing_compared_is_vacuous(tmp_path: Path) -> None:
    assert compared(tmp_path, {}, {}).verdict is Verdict.VACUOUS
    diff = compared(tmp_path, {"x": torch.zeros(0, 3)}, {"x": torch.zeros(0, 3)})
    assert diff.verdict is Verdict.VACUOUS
    assert file_report(diff).startswith("vacuous: 1 tensors, 0 elements compared")
    mixed = {"x": torch.zeros(0, 3), "y": torch.ones(2)}
    assert "empty, nothing shown (1): x" in file_report(compared(tmp_path, mixed, dict(mixed)))


def test_one_file_twice_is_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file(layers(), path)
    (tmp_path / "link.safetensors").symlink_to(path)
    os.link(path, tmp_path / "hard.safetensors")
    for other in ("x", "link", "hard"):
        diff = diff_files(path, tmp_path / f"{other}.safetensors")
        assert (diff.verdict, diff.same_file) == (Verdict.VACUOUS, True)
        assert "are the same file: nothing was compared" in file_report(diff)
    shutil.copy(path, tmp_path / "copy.safetensors")
    assert diff_files(path, tmp_path / "copy.safetensors").verdict is Verdict.EQUAL


def test_kinds_of_files_mix(tmp_path: Path) -> None:
    x = np.random.default_rng(1).random((3, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", logits=x)
    np.savez_compressed(tmp_path / "z.npz", logits=x)
    save_file({"logits": torch.from_numpy(x)}, tmp_path / "x.safetensors")
    torch.save({"logits": torch.from_numpy(x)}, tmp_path / "x.pt")
    torch.save(torch.from_numpy(x), tmp_path / "bare.pt")
    names = ["x.npy", "x.npz", "z.npz", "x.safetensors", "x.pt", "bare.pt"]
    for actual in names:
        for expected in names:
            if actual != expected:
                diff = diff_files(tmp_path / actual, tmp_path / expected)
                assert (diff.verdict, diff.elements) == (Verdict.EQUAL, 12), (actual, expected)


def test_an_unnamed_tensor_does_not_match_one_of_several(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    np.savez(tmp_path / "x.npz", a=np.ones(3), b=np.ones(3))
    diff = diff_files(tmp_path / "x.npy", tmp_path / "x.npz")
    assert (diff.verdict, diff.missing, diff.extra) == (
        Verdict.DIFFERENT,
        ("a", "b"),
        ("tensor",),
    )


def test_entries_that_are_no_tensors_are_named(tmp_path: Path) -> None:
    for name, epoch in (("a", 1), ("b", 2)):
        torch.save({"w": torch.ones(2), "epoch": epoch}, tmp_path / f"{name}.pt")
    diff = diff_files(tmp_path / "a.pt", tmp_path / "b.pt")
    assert diff.skipped == ("epoch",)
    assert "not tensors, not compared (1): epoch" in file_report(diff)


def test_options_reach_the_comparison(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([0.0]))
    np.save(tmp_path / "b.npy", np.array([-0.0]))
    pair = tmp_path / "a.npy", tmp_path / "b.npy"
    assert diff_files(*pair).verdict is Verdict.DIFFERENT
    assert diff_files(*pair, zero_signs=False).verdict is Verdict.EQUAL


@pytest.mark.parametrize("constant", [True, False])
def test_a_dump_of_one_buffer_is_flagged(tmp_path: Path, constant: bool) -> None:
    """Layers that all hold the same bits; zero biases and unit weights are no evidence."""
    buffer = torch.zeros(4, 8) if constant else torch.randn(4, 8)
    dump = {f"layer.{i}.out": buffer.clone() for i in range(3)}
    diff = compared(tmp_path, {**layers(), **dump}, {**layers(), **dump})
    flagged = [stale.names for stale in diff.stale]
    assert flagged == []
    diff = compared(tmp_path, dump, dump)
    assert [stale.names for stale in diff.stale] == ([] if constant else [tuple(dump)] * 2)
    assert ("dump not live? equal bits in" in file_report(diff)) == (not constant)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    (tmp_path / "bad.safetensors").write_bytes(b"nothing of the kind")
    for pair in (("x.npy", "bad.safetensors"), ("bad.safetensors", "x.npy")):
        with pytest.raises(UnreadableError, match=r"bad\.safetensors: not safetensors"):
            diff_files(*(tmp_path / name for name in pair))


def test_the_record_is_strict_json(tmp_path: Path) -> None:
    changed = layers()
    changed["layer.1.out"][0, 0] = float("nan")
    record = jsonable(compared(tmp_path, changed, layers()))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["verdict"] == "different"
    assert record["first_diverging"] == "layer.1.out"
    assert record["tensors"][1]["max_ulps"] == "inf"
    assert record["tensors"][1]["first"]["actual_bits"] == "0x7fc0"


def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    """Peak of Python and NumPy allocations while 2 × 64 MiB, all different, are compared."""
    import tracemalloc

    rng = np.random.default_rng(0)
    for name, seed in (("a", 1), ("b", 2)):
        x = rng.integers(0, 1 << 16, 1 << 25, np.uint16).view(np.int16) ^ np.int16(seed)
        save_file({"x": torch.from_numpy(x).view(torch.bfloat16)}, tmp_path / f"{name}.safetensors")
    tracemalloc.start()
    diff = diff_files(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert diff.verdict is Verdict.DIFFERENT
    assert peak < 16 << 20
