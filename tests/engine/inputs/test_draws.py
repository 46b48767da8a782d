"""Drawn inputs as data: recipes, their bits in every layout, their JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.bits import Bits
from exactness.formats import FORMATS, Format, bf16, f32, tf32
from exactness.inputs import Example, Inputs, Layout, Tensor, TensorDraw
from exactness.inputs.patterns import FAMILIES, generator

TORCH_FORMATS = [fmt for fmt in FORMATS.values() if fmt is not tf32]
SPACE = Inputs(
    {"rows": (0, 9), "n": (0, 40)},
    {"x": Tensor(bf16, ("rows", "n")), "w": Tensor(f32, ("n",), ("normal", "any_pattern"))},
    {"eps": (1e-6, 0.0, float("inf")), "exact": (True, False), "mode": ("a", None)},
)


def drawn(fmt: Format = bf16, shape: tuple[int, ...] = (4, 7), **given: Any) -> TensorDraw:
    return TensorDraw(fmt.name, shape, **given)


def test_patterns_are_the_familys_with_patches() -> None:
    recipe = drawn(family="ties", seed=5, patches=((0, 0x7FC0), (27, 0x8000)))
    expected = FAMILIES["ties"](generator(5), bf16, (4, 7)).copy()
    expected[0, 0], expected[3, 6] = 0x7FC0, 0x8000
    assert np.array_equal(recipe.patterns(), expected)
    assert recipe.patterns().dtype == np.uint16
    assert np.array_equal(recipe.patterns(), recipe.patterns())


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("fmt", TORCH_FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("shape", [(4, 7), (5,), (), (0, 3), (2, 3, 4)], ids=str)
def test_a_layout_does_not_change_a_bit(
    fmt: Format, layout: Layout, shape: tuple[int, ...]
) -> None:
    """NaN payloads included, which a copy by value could lose."""
    recipe = drawn(fmt, shape, family="any_pattern", seed=3, layout=layout)
    tensor = recipe.tensor("cpu")
    assert tuple(tensor.shape) == shape
    assert np.array_equal(Bits.of(tensor).patterns, recipe.patterns())
    assert Bits.of(tensor).format is fmt


@pytest.mark.parametrize("fmt", TORCH_FORMATS, ids=lambda fmt: fmt.name)
def test_layouts_are_what_they_are_called(fmt: Format) -> None:
    plain = drawn(fmt).tensor("cpu")
    assert (plain.stride(), plain.storage_offset()) == ((7, 1), 0)
    rows = drawn(fmt, layout=Layout.STRIDED_ROWS).tensor("cpu")
    assert rows.stride(0) > 7
    assert rows.stride(1) == 1
    assert not rows.is_contiguous()
    blocks = drawn(fmt, (2, 3, 4), layout=Layout.STRIDED_BLOCKS).tensor("cpu")
    assert blocks.stride() == (24, 4, 1)
    columns = drawn(fmt, layout=Layout.STRIDED_COLUMNS).tensor("cpu")
    assert columns.stride() == (14, 2)
    offset = drawn(fmt, layout=Layout.OFFSET).tensor("cpu")
    assert offset.is_contiguous()
    assert offset.data_ptr() % (2 * fmt.bits // 8) == fmt.bits // 8


@pytest.mark.parametrize(
    "layout", [Layout.STRIDED_ROWS, Layout.STRIDED_BLOCKS, Layout.STRIDED_COLUMNS]
)
def test_gaps_are_nan(layout: Layout) -> None:
    x = drawn(f32, (2, 3, 4), layout=layout).tensor("cpu")
    whole = torch.as_strided(x, (x.untyped_storage().nbytes() // 4,), (1,), 0)
    assert len(whole) > 24
    assert whole.isnan().sum() == len(whole) - 24


def test_what_lies_between_strided_rows_is_nan() -> None:
    """A kernel that ignores the stride reads NaN, not plausible numbers."""
    rows = drawn(f32, layout=Layout.STRIDED_ROWS).tensor("cpu")
    between = torch.as_strided(rows, (3, 3), rows.stride(), 7)
    assert between.isnan().all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"family": "gauss"}, "family 'gauss' is unknown; known are normal, "),
        ({"patches": ((28, 0),)}, r"index 28 is outside of shape \(4, 7\)"),
        ({"patches": ((-1, 0),)}, "index -1 is outside"),
        ({"patches": ((0, 0x10000),)}, "0x10000 is no pattern of bf16"),
        ({"patches": ((0, -1),)}, "-0x1 is no pattern"),
        ({"seed": -1}, "seed -1: from 0 up"),
        ({"shape": (4, -7)}, r"shape \(4, -7\)"),
        ({"shape": (0, 7), "patches": ((0, 0),)}, "index 0 is outside"),
        ({"fmt": tf32, "patches": ((0, 1),)}, "0x1 is no pattern of tf32"),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_impossible_recipes_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(**given)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 'half' is unknown; known are f64"):
        TensorDraw("half", (1,))


@settings(deadline=None, max_examples=60)
@given(SPACE.strategy())
def test_an_example_survives_json(example: Example) -> None:
    text = example.to_json()
    assert "\n" not in text
    again = Example.from_json(text)
    assert again == example
    assert again.to_json() == text
    for name, recipe in example.tensors.items():
        assert np.array_equal(again.tensors[name].patterns(), recipe.patterns())


def test_json_leaves_defaults_out_and_reads_without_them() -> None:
    recipe = drawn(family="ties", seed=5)
    assert recipe.to_dict() == {"format": "bf16", "shape": [4, 7], "family": "ties", "seed": 5}
    full = drawn(patches=((1, 0x7F80),), layout=Layout.OFFSET)
    assert full.to_dict()["patches"] == [[1, "0x7f80"]]
    assert full.to_dict()["layout"] == "offset"
    assert TensorDraw.from_dict({"format": "bf16", "shape": [4, 7]}) == drawn()


PLAIN = {"format": "bf16", "shape": [2, 2]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"shape": [1]}, "'format' is missing"),
        ({"format": "bf16"}, "'shape' is missing"),
        (PLAIN | {"famly": "ties"}, "unknown field 'famly'; known are family, format, layout"),
        (PLAIN | {"shape": 3}, "not iterable"),
        (PLAIN | {"shape": ["a"]}, "invalid literal"),
        (PLAIN | {"seed": None}, "not 'NoneType'"),
        (PLAIN | {"seed": -3}, "seed -3"),
        (PLAIN | {"patches": [[0, 5]]}, "non-string"),
        (PLAIN | {"patches": [[9, "0x0"]]}, "outside"),
        (PLAIN | {"layout": "diagonal"}, "diagonal"),
        (PLAIN | {"format": ["bf16"]}, "unhashable"),
        ([1, 2], "an object is accepted"),
        (None, "an object is accepted"),
    ],
    ids=str,
)
def test_foreign_data_is_a_value_error(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TensorDraw.from_dict(data)
    with pytest.raises(ValueError, match=message):
        Example.from_json(json.dumps({"tensors": {"x": data}}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        '{"tensors": 5}',
        '{"tensor": {}}',
        '{"tensors": {}, "parameters": 3}',
    ],
)
def test_text_that_is_no_example_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="example "):
        Example.from_json(text)


def test_arguments_are_tensors_and_parameters() -> None:
    example = Example({"x": drawn()}, {"eps": 1e-6, "f32_acc": None})
    arguments = example.arguments("cpu")
    assert list(arguments) == ["x", "eps", "f32_acc"]
    assert arguments["x"].dtype is torch.bfloat16
    assert (arguments["eps"], arguments["f32_acc"]) == (1e-6, None)


def test_every_call_makes_tensors_of_its_own() -> None:
    """A kernel that writes into its input must not change the next run's."""
    example = Example({"x": drawn()})
    first = example.arguments("cpu")["x"]
    first.zero_()
    assert example.arguments("cpu")["x"].any()


def test_a_label_names_sizes_families_and_parameters() -> None:
    example = Example({"x": drawn(family="ties"), "w": drawn(f32, ())}, {"eps": 1e-6})
    assert example.label == "x=bf16[4,7] ties, w=f32[] normal, eps=1e-06"


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_patches_are_the_last_word(data: st.DataObject) -> None:
    patch = st.tuples(st.integers(0, 27), st.integers(0, 0xFFFF))
    patches = tuple(data.draw(st.lists(patch, max_size=5)))
    found = drawn(patches=patches).patterns().ravel()
    last = dict(patches)
    assert all(int(found[index]) == pattern for index, pattern in last.items())
    untouched = np.setdiff1d(np.arange(28), list(last))
    assert np.array_equal(found[untouched], drawn().patterns().ravel()[untouched])
