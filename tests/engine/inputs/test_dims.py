"""Dimensions as expressions, and formats as a choice that tensors share."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Tensor, dims, rows

PAIRED = Inputs(
    {"rows": (0, 40), "n": (1, 5000)},
    {"x": Tensor("dtype", ("rows", "2*n")), "w": Tensor("dtype", ("n",)), "s": Tensor(f32, (1,))},
    {"eps": (1e-6, 0.0)},
    {"dtype": (bf16, f16)},
)


@pytest.mark.parametrize(
    ("dim", "names", "value"),
    [
        (64, set(), 64),
        ("n", {"n"}, 5),
        ("2*n", {"n"}, 10),
        ("heads*(2*n+rest)+1", {"heads", "n", "rest"}, 40),
        ("2*n+rest", {"n", "rest"}, 13),
        ("3*2**n", {"n"}, 96),
    ],
)
def test_a_dimension_is_an_expression_of_sizes(dim: int | str, names: set[str], value: int) -> None:
    assert dims.names(dim) == names
    assert dims.value(dim, {"n": 5, "heads": 3, "rest": 3}) == value


@pytest.mark.parametrize("dim", ["n-1", "n//2", "n**2", "f(n)", "n.x", "1.5*n", "-n", "", "n n"])
def test_other_expressions_are_refused(dim: str) -> None:
    with pytest.raises(ValueError, match=r"integers from 0 up, names of sizes, \+ and \*"):
        dims.value(dim, {"n": 5})


def test_a_size_of_an_expression_must_exist() -> None:
    with pytest.raises(ValueError, match="x has dimension 'm' without a size"):
        Inputs({"n": (0, 1)}, {"x": Tensor(f32, ("n+2*m",))})


def test_a_case_chooses_a_format_for_all_tensors_of_that_name() -> None:
    example = PAIRED.example("label", rows=2, n=3, dtype="f16")
    assert {name: (d.format, d.shape) for name, d in example.tensors.items()} == {
        "x": ("f16", (2, 6)),
        "w": ("f16", (3,)),
        "s": ("f32", (1,)),
    }
    assert example.parameters == {"eps": 1e-6}
    assert PAIRED.example("label", rows=2, n=3).tensors["w"].format == "bf16"


def test_a_format_must_be_one_of_the_choice() -> None:
    with pytest.raises(ValueError, match="case dtype='f32': bf16, f16 are accepted"):
        PAIRED.example("label", rows=2, n=3, dtype="f32")
    with pytest.raises(ValueError, match="x has format 'dtype', none of `formats`"):
        Inputs({}, {"x": Tensor("dtype", (1,))})
    with pytest.raises(ValueError, match="dtype has no value"):
        Inputs({}, {"x": Tensor("dtype", (1,))}, {}, {"dtype": ()})


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_drawn_tensors_share_formats_and_fit_the_budget(data: st.DataObject) -> None:
    tensors = data.draw(PAIRED.strategy()).tensors
    (n,) = tensors["w"].shape
    assert tensors["x"].shape[1] == 2 * n
    assert tensors["x"].shape[0] * 2 * n <= 1 << 15
    assert tensors["x"].format == tensors["w"].format in ("bf16", "f16")
    assert tensors["s"].format == "f32"


def test_both_formats_are_drawn() -> None:
    seen = set()

    @given(rows((f32, f16), n=(1, 4)).strategy())
    @settings(max_examples=50, deadline=None, database=None)
    def draw(example: object) -> None:
        seen.add(example.tensors["x"].format)  # type: ignore[attr-defined]

    draw()
    assert seen == {"f32", "f16"}
