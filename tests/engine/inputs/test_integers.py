"""Integer tensors of a claim: positions and ids, within their range and at its ends."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from exactness.bits import Bits
from exactness.formats import INTEGERS, bf16
from exactness.inputs import Example, Inputs, IntegerTensor, Layout, Tensor, TensorDraw
from exactness.inputs.draws import IntegerDraw

SPACE = Inputs(
    {"tokens": (0, 40), "rows": (1, 9)},
    {
        "cache": Tensor(bf16, ("rows", 4)),
        "positions": IntegerTensor(INTEGERS["i64"], ("tokens",), 0, "rows"),
        "ids": IntegerTensor(INTEGERS["i32"], ("tokens", 2), -1, "2*rows"),
    },
)


def drawn(fmt: str = "i32", shape: tuple[int, ...] = (50, 4), **given: Any) -> IntegerDraw:
    return IntegerDraw(fmt, shape, **{"low": -3, "high": 7} | given)


@settings(deadline=None, max_examples=80)
@given(SPACE.strategy())
def test_drawn_integers_stay_in_their_range(example: Example) -> None:
    rows = example.tensors["cache"].shape[0]
    arguments = example.arguments("cpu")
    positions, ids = arguments["positions"], arguments["ids"]
    assert (positions.dtype, ids.dtype) == (torch.int64, torch.int32)
    assert ids.shape == (positions.shape[0], 2)
    assert ((positions >= 0) & (positions < rows)).all()
    assert ((ids >= -1) & (ids < 2 * rows)).all()
    again = Example.from_json(example.to_json())
    assert again == example
    assert torch.equal(again.arguments("cpu")["ids"], ids)


@pytest.mark.parametrize("name", INTEGERS)
def test_every_integer_format_takes_its_whole_range(name: str) -> None:
    fmt = INTEGERS[name]
    low = -(1 << (fmt.bits - 1)) if fmt.signed else 0
    high = 1 if name == "bool" else (1 << (fmt.bits - fmt.signed)) - 1
    recipe = drawn(name, (300,), low=low, high=high, patches=((0, low), (1, high)))
    tensor = recipe.tensor("cpu")
    assert Bits.of(tensor).format is fmt
    values = [int(value) for value in Bits.of(tensor).values()]
    assert (values[0], values[1]) == (low, high)
    assert min(values) == low
    assert max(values) == high
    assert len(set(values)) > (1 if name == "bool" else 100)


def test_a_seed_gives_the_same_integers() -> None:
    first = drawn(seed=4).tensor("cpu")
    assert torch.equal(first, drawn(seed=4).tensor("cpu"))
    assert not torch.equal(first, drawn(seed=5).tensor("cpu"))
    assert sorted(set(first.flatten().tolist())) == list(range(-3, 8))
    assert drawn(shape=()).tensor("cpu").shape == ()
    assert drawn(shape=(0, 3)).tensor("cpu").shape == (0, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fmt": "i128"}, "'i128' is unknown; known are bool, u8"),
        ({"low": 8}, "low 8 is greater than high 7"),
        ({"fmt": "u8"}, r"range -3\.\.7 does not fit u8"),
        ({"fmt": "i8", "high": 128}, r"range -3\.\.128 does not fit i8"),
        ({"fmt": "bool", "low": 0, "high": 2}, "does not fit bool"),
        ({"patches": ((0, 8),)}, r"8 is outside of -3\.\.7"),
        ({"patches": ((200, 0),)}, r"index 200 is outside of shape \(50, 4\)"),
        ({"seed": -1}, "seed -1: from 0 up"),
        ({"shape": (-1,)}, r"shape \(-1,\)"),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_impossible_recipes_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(**given)


PLAIN = {"format": "i32", "shape": [2], "low": 0, "high": 5}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"format": "i32", "shape": [2], "low": 0}, "'high' is missing"),
        (PLAIN | {"hihg": 3}, "unknown field 'hihg'; known are format, high, layout, low"),
        (PLAIN | {"patches": [[0]]}, "not enough values"),
        (PLAIN | {"high": None}, "not 'NoneType'"),
    ],
    ids=str,
)
def test_foreign_data_is_a_value_error(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Example.from_json(json.dumps({"tensors": {"ids": data}}))


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("name", INTEGERS)
def test_a_layout_does_not_change_a_value(name: str, layout: Layout) -> None:
    plain = drawn(name, (2, 3, 4), low=0, high=1)
    recipe = replace(plain, layout=layout)
    assert torch.equal(recipe.tensor("cpu"), plain.tensor("cpu"))
    text = Example({"ids": recipe}).to_json()
    assert Example.from_json(text).tensors["ids"] == recipe
    assert ("layout" in text) == (layout is not Layout.CONTIGUOUS)


def test_gaps_hold_the_largest_value() -> None:
    ids = drawn("i32", (4,), layout=Layout.STRIDED_COLUMNS).tensor("cpu")
    assert ids.stride() == (2,)
    assert torch.as_strided(ids, (4,), (2,), 1).tolist() == [2**31 - 1] * 4


def test_integers_lie_as_the_claim_says() -> None:
    tensor = IntegerTensor(INTEGERS["i64"], ("n",), 0, 9, tuple(Layout))
    seen: set[Layout] = set()

    @settings(deadline=None, max_examples=100, database=None, derandomize=True)
    @given(Inputs({"n": (1, 9)}, {"ids": tensor}).strategy())
    def run(example: Example) -> None:
        draw = example.tensors["ids"]
        seen.add(draw.layout)

    run()
    assert seen == set(Layout)


def test_the_greatest_of_several_ends_counts() -> None:
    tensor = IntegerTensor(INTEGERS["i64"], ("n",), 0, ("rows", "2*n"))
    assert tensor.draw({"n": 3, "rows": 9}, 1).high == 8
    assert tensor.draw({"n": 5, "rows": 9}, 1).high == 9
    assert tensor.sizes == {"n", "rows"}


def test_an_empty_range_is_its_lower_end() -> None:
    """Ids into a table of no rows: the kernel must cope with what is never loaded."""
    tensor = IntegerTensor(INTEGERS["i64"], ("n",), 0, "rows")
    assert tensor.draw({"n": 3, "rows": 0}, 1).tensor("cpu").tolist() == [0, 0, 0]
    assert tensor.sizes == {"n", "rows"}


def test_a_label_shows_the_range() -> None:
    example = Example({"ids": drawn(shape=(2,)), "x": TensorDraw("bf16", (1,))})
    assert example.label == "ids=i32[2] -3..7, x=bf16[1] normal"


def test_both_ends_are_drawn() -> None:
    space = Inputs({}, {"ids": IntegerTensor(INTEGERS["i64"], (1,), 0, 1 << 40)})
    seen: set[int] = set()

    @settings(deadline=None, max_examples=150, database=None, derandomize=True)
    @given(space.strategy())
    def run(example: Example) -> None:
        seen.add(int(example.arguments("cpu")["ids"][0]))

    run()
    assert {0, (1 << 40) - 1} <= seen
    assert len(seen) > 5
    assert np.log2(float(np.median(list(seen)))) > 30
