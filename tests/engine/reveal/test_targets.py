"""Callables of NumPy and torch, and replaying their trees on random terms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from exactness.formats import bf16, f16, f32, f64
from exactness.reveal import Called, RevealError, Shape, known, reveal, stored, target
from exactness.reveal.confirmation import accumulator
from exactness.reveal.targets import kind_of


@pytest.mark.parametrize("fmt", [f64, f32], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("n", [1, 5, 8, 100, 129, 1000])
def test_numpy_sums_in_its_documented_order(fmt, n, fprev_calls) -> None:
    summation = target("numpy.sum", Shape(n, fmt))
    tree = reveal(summation)
    assert tree == known.named("numpy", n)
    assert summation.calls == fprev_calls(tree)
    assert accumulator(summation, tree, 20) is fmt


@pytest.mark.parametrize("fmt", [f64, f32, f16, bf16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("n", [7, 100])
def test_torch_sums_as_its_probes_say(fmt, n, fprev_calls) -> None:
    summation = target("torch.sum", Shape(n, fmt))
    tree = reveal(summation)
    assert summation.calls == fprev_calls(tree)
    assert accumulator(summation, tree, 20).precision >= fmt.precision


@pytest.mark.parametrize("address", ["numpy.mean", "torch.mean"])
@pytest.mark.parametrize("n", [64, 100])
def test_a_mean_is_a_sum(address, n) -> None:
    summation = target(address, Shape(n))
    tree = reveal(summation)
    assert tree == reveal(target(address.replace("mean", "sum"), Shape(n)))
    with pytest.raises(RevealError, match="does not show its sums"):
        accumulator(summation, tree, 1)


@pytest.mark.parametrize("rows", [1, 16])
def test_torch_norm_adds_squares_as_torch_sums(rows) -> None:
    norm = target("torch.nn.functional:rms_norm", Shape(100, rows=rows))
    assert norm.kind == "norm"
    assert reveal(norm) == reveal(target("torch.sum", Shape(100)))


@pytest.mark.parametrize(
    ("address", "rows", "columns"),
    [
        ("numpy.dot", 1, 1),
        ("torch.dot", 1, 1),
        ("torch.nn.functional:linear", 1, 1),
        ("torch.nn.functional:linear", 8, 5),
        ("torch.matmul", 5, 8),
        ("numpy.matmul", 3, 3),
    ],
)
def test_products_are_confirmed_or_fused(address, rows, columns) -> None:
    summation = target(address, Shape(40, rows=rows, columns=columns))
    tree = reveal(summation)
    assert tree.widest == 2
    # Terms times one: an addition that is fused with its product rounds the same.
    assert accumulator(summation, tree, rows).precision >= f32.precision


def called(function, shape, kind="sum"):
    return Called(function, shape, kind, is_torch=False, name="function")


def test_rows_are_probed_together() -> None:
    summation = called(lambda x: x.sum(axis=1), Shape(64, rows=32), "rows")
    assert reveal(summation) == known.named("numpy", 64)
    assert summation.calls < 20


def test_what_the_probes_cannot_show_is_found_by_random_terms() -> None:
    def compensated(x):
        total = lost = np.float32(0)
        for term in x:
            kept = np.float32(term - lost)
            raised = np.float32(total + kept)
            lost = np.float32(np.float32(raised - total) - kept)
            total = raised
        return total

    summation = called(compensated, Shape(20))
    tree = reveal(summation)
    assert tree == known.named("sequential", 20)
    with pytest.raises(RevealError, match="does not add random terms in the order"):
        accumulator(summation, tree, 10)
    fused = called(np.sum, Shape(20))
    with pytest.raises(RevealError, match="fused additions of 5 terms"):
        accumulator(fused, known.named("fused:4", 20), 1)


def test_accumulators_are_told_apart() -> None:
    def wide(x):
        return np.float32(np.add.accumulate(x.astype(np.float64))[-1])

    summation = called(wide, Shape(50))
    assert accumulator(summation, reveal(summation), 30) is f64
    half = target("torch.sum", Shape(50, bf16))
    assert accumulator(half, reveal(half), 30) is f32


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sum", "neither a claim nor an address"),
        ("numpy.nope", "numpy.nope: module 'numpy' has no attribute 'nope'"),
        ("no_such_package:f", "No module named 'no_such_package'"),
        ("math.pi", "math.pi is float, which cannot be called"),
        ("numpy.cumsum", "8 results for 1 rows of 8 terms; 1 expected"),
        ("numpy.argmax", "returns int64; floats are accepted"),
        ("numpy.array_str", "returns str; floats are accepted"),
        ("torch.cumsum", "cannot be called as a sum: TypeError"),
        ("torch.nn.functional:layer_norm", "contradict each other"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_a_line(address, message) -> None:
    with pytest.raises(RevealError, match=message) as caught:
        reveal(target(address, Shape(8)))
    assert "\n" not in str(caught.value)


def test_shapes_are_checked() -> None:
    with pytest.raises(RevealError, match="rows: 0 is not accepted"):
        Shape(4, rows=0)
    with pytest.raises(RevealError, match="have no bf16"):
        target("numpy.sum", Shape(4, bf16))
    with pytest.raises(RevealError, match="on the CPU; --device cpu"):
        target("numpy.sum", Shape(4, device="cuda"))


def test_kinds_follow_names() -> None:
    names = ("sum", "nansum", "mean", "vdot", "linear", "mm", "rms_norm", "layer_norm")
    assert [kind_of(name) for name in names] == [
        "sum", "sum", "mean", "dot", "linear", "matmul", "norm", "norm"
    ]  # fmt: skip


def test_trees_are_stored(tmp_path) -> None:
    from exactness import environment

    summation = target("torch.sum", Shape(40))
    tree = reveal(summation)
    found = stored.record(tree, summation, environment.collect())
    assert (found["calls"], found["format"]) == (summation.calls, "f32")
    path = tmp_path / "tree.json"
    path.write_text(stored.text(found))
    assert stored.load(path) == tree
    for text, message in (("{", "holds no tree"), ('{"n": 2, "children": []}', "holds no tree")):
        path.write_text(text)
        with pytest.raises(RevealError, match=message):
            stored.load(path)
    with pytest.raises(RevealError, match="cannot be read: No such file"):
        stored.load(tmp_path / "nope.json")


def test_torch_is_not_needed_for_numpy() -> None:
    """Tensors are made only for callables that take them."""
    assert not target("numpy.sum", Shape(4)).is_torch
    assert target("torch.sum", Shape(4)).is_torch
    assert isinstance(target("torch.sum", Shape(4)).array(np.ones(4)), torch.Tensor)
