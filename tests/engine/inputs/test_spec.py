"""Input spaces: sizes, families, layouts and parameters that the strategy really draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from exactness.formats import bf16, f32, tf32
from exactness.inputs import Example, Inputs, Layout, Tensor, rows
from exactness.inputs.patterns import FAMILIES, special_patterns
from exactness.inputs.spec import ELEMENTS, USUAL_LAYOUTS

SPACE = Inputs(
    {"rows": (0, 300), "n": (1, 8192)},
    {"x": Tensor(bf16, ("rows", "n")), "weight": Tensor(f32, ("n",), ("normal", "constant"))},
    {"eps": (1e-6, 1e-5), "exact": (True, False)},
)
QUICK = settings(
    deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), database=None
)


def collect(space: Inputs, examples: int = 300) -> list[Example]:
    """A run's worth of examples."""
    drawn: list[Example] = []

    @settings(
        deadline=None,
        max_examples=examples,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(space.strategy())
    def run(example: Example) -> None:
        drawn.append(example)

    run()
    return drawn


@pytest.fixture(scope="module")
def many() -> list[Example]:
    return collect(SPACE, 500)


@QUICK
@given(SPACE.strategy())
def test_an_example_fits_its_space(example: Example) -> None:
    x, weight = example.tensors["x"], example.tensors["weight"]
    assert list(example.tensors) == ["x", "weight"]
    assert (x.format, weight.format) == ("bf16", "f32")
    assert 0 <= x.shape[0] <= 300
    assert 1 <= x.shape[1] <= 8192
    assert weight.shape == x.shape[1:]
    assert weight.family in ("normal", "constant")
    assert example.parameters["eps"] in (1e-6, 1e-5)
    assert isinstance(example.parameters["exact"], bool)
    assert math.prod(x.shape) <= ELEMENTS


def test_c63_sizes_reach_the_edges_of_blocks(many: list[Example]) -> None:
    """C63: powers of two, one less and one more; below every usual block, and no multiple of it."""
    widths = {example.tensors["x"].shape[1] for example in many}
    powers = {2**k for k in range(4, 14)}
    for distance in (-1, 0, 1):
        assert len(widths & {power + distance for power in powers}) >= 2
    for block in (16, 64, 128, 256, 1024):
        assert any(n < block for n in widths)
        assert any(n % block for n in widths if n > block)
    edges = {power + distance for power in powers for distance in (-1, 0, 1)}
    assert len({n for n in widths - edges if n > 100}) > 10, "the range itself is drawn from, too"
    assert 1 in widths
    assert max(widths) > 4096


def test_c62_rows_may_be_missing_and_straddle_thresholds(many: list[Example]) -> None:
    """C22, C62: no row at all, one, and around 255 to 257."""
    counts = {example.tensors["x"].shape[0] for example in many}
    assert {0, 1} <= counts
    assert {255, 256, 257} & counts
    assert any(count % 8 for count in counts)


ROW = rows(bf16, n=(1, 4), rows=(1, 1))


def is_drawn(condition: Callable[[Example], bool], space: Inputs = ROW) -> bool:
    limits = settings(deadline=None, max_examples=3000, database=None, phases=[Phase.generate])
    return condition(find(space.strategy(), condition, settings=limits))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_drawn(family: str) -> None:
    assert is_drawn(lambda example: example.tensors["x"].family == family)


@pytest.mark.parametrize("layout", USUAL_LAYOUTS)
def test_every_usual_layout_is_drawn(layout: Layout) -> None:
    assert is_drawn(lambda example: example.tensors["x"].layout is layout)


def test_layouts_of_a_claim_are_drawn_alone() -> None:
    strided = Tensor(f32, ("n",), layouts=(Layout.STRIDED_COLUMNS,))
    space = Inputs({"n": (1, 9)}, {"x": strided})
    layout = Layout.STRIDED_COLUMNS
    assert is_drawn(lambda example: example.tensors["x"].layout is layout, space)
    assert {example.tensors["x"].layout for example in collect(space, 30)} == {layout}


def test_families_of_a_claim_and_parameters_are_all_drawn(many: list[Example]) -> None:
    assert {example.tensors["weight"].family for example in many} == {"normal", "constant"}
    assert {example.parameters["eps"] for example in many} == {1e-6, 1e-5}
    assert {example.parameters["exact"] for example in many} == {True, False}
    assert len({example.tensors["x"].seed for example in many}) > 30


def shrunk(condition: Callable[[Example], bool], space: Inputs = SPACE) -> Example:
    limits = settings(deadline=None, max_examples=2000, database=None, derandomize=True)
    return find(space.strategy(), condition, settings=limits)


def test_failures_shrink_to_small_examples() -> None:
    """A report shows the smallest failing input: one row, the smallest width, one patch."""
    nan = shrunk(lambda example: bool(example.tensors["x"].patches and math.prod(
        example.tensors["x"].shape)))  # fmt: skip
    assert math.prod(nan.tensors["x"].shape) == 1
    assert len(nan.tensors["x"].patches) == 1
    wide = shrunk(lambda example: example.tensors["x"].shape[1] > 100)
    assert wide.tensors["x"].shape[1] <= 127
    assert wide.tensors["x"].layout is Layout.CONTIGUOUS
    assert wide.tensors["x"].family == "normal"
    assert wide.parameters == {"eps": 1e-6, "exact": True}


@pytest.mark.parametrize("pattern", [0x80000000, 0x7F800000, 0x7FC00000, 0x00000001], ids=hex)
def test_single_elements_are_patched_with_special_values(pattern: int) -> None:
    space = rows(f32, n=(1, 4), rows=(1, 2))
    assert is_drawn(lambda example: pattern in dict(example.tensors["x"].patches).values(), space)


def test_single_elements_are_patched_with_any_pattern() -> None:
    special = set(special_patterns(bf16).tolist())
    assert is_drawn(lambda example: bool({p for _, p in example.tensors["x"].patches} - special))


def test_patches_of_tf32_keep_its_low_bits_clear() -> None:
    for example in collect(rows(tf32, n=(1, 40), rows=(1, 1)), 60):
        patterns = example.tensors["x"].patterns()
        assert not (patterns & np.uint32(0x1FFF)).any()


def test_large_sizes_are_drawn_one_at_a_time() -> None:
    """The budget of elements: an earlier size yields to a later one."""
    space = Inputs({"m": (1, 4096), "k": (1, 4096)}, {"a": Tensor(bf16, ("m", "k"))})
    shapes = [example.tensors["a"].shape for example in collect(space, 150)]
    assert all(m * k <= ELEMENTS for m, k in shapes)
    assert any(k > 2000 for _, k in shapes)
    assert any(m > 2000 for m, _ in shapes)


BOUNDED = Inputs(
    {"tokens": (0, 50), "rows": (0, 60), "half": (1, 256), "log_dim": (0, 5)},
    {"q": Tensor(bf16, ("tokens", "16*2**log_dim")), "table": Tensor(f32, ("rows", "2*half"))},
    at_most={"half": "8*2**log_dim", "tokens": "rows"},
)


def test_a_size_is_at_most_what_the_sizes_behind_it_say() -> None:
    examples = [*collect(BOUNDED, 200), *itertools.islice(BOUNDED.large_examples(3), 200)]
    halves = set()
    for example in examples:
        (tokens, dim), (rows, rope_dim) = (example.tensors[name].shape for name in ("q", "table"))
        assert tokens <= rows
        assert 2 <= rope_dim <= dim
        halves.add((dim, rope_dim))
    assert any(rope_dim == dim for dim, rope_dim in halves)
    assert any(rope_dim < dim and rope_dim % 16 for dim, rope_dim in halves)
    assert BOUNDED.largest("half", {"log_dim": 2}) == 32
    assert BOUNDED.largest("rows", {}) == 60


@pytest.mark.parametrize("bound", [{"rows": "tokens"}, {"log_dim": "half"}, {"heads": "half"}])
def test_a_size_is_bounded_by_sizes_behind_it_alone(bound: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"at_most: .* does not depend on sizes behind it"):
        replace(BOUNDED, at_most=bound)


def test_a_lower_bound_wins_over_the_budget() -> None:
    space = Inputs({"m": (64, 64), "k": (4096, 4096)}, {"a": Tensor(bf16, ("m", "k"))})
    assert {example.tensors["a"].shape for example in collect(space, 5)} == {(64, 4096)}


def test_fixed_dimensions_and_sizes_without_a_tensor() -> None:
    space = Inputs({"n": (3, 3), "steps": (1, 50)}, {"x": Tensor(bf16, (2, "n", 4))})
    example = collect(space, 3)[0]
    assert example.tensors["x"].shape == (2, 3, 4)
    assert Tensor(bf16, ()).shape({}) == ()


def test_a_case_is_seeded_by_its_label_and_argument() -> None:
    case = SPACE.example("case-1", rows=3, n=5)
    again = SPACE.example("case-1", rows=3, n=5)
    other = SPACE.example("case-2", rows=3, n=5)
    assert case == again
    assert case.tensors["x"].seed != other.tensors["x"].seed
    assert case.tensors["x"].seed != case.tensors["weight"].seed
    assert case.tensors["x"].shape == (3, 5)
    assert case.tensors["weight"].shape == (5,)
    assert case.parameters == {"eps": 1e-6, "exact": True}
    chosen = SPACE.example("case-1", family="ties", rows=3, n=5, eps=1e-3)
    assert chosen.parameters == {"eps": 1e-3, "exact": True}
    families = {name: draw.family for name, draw in chosen.tensors.items()}
    assert families == {"x": "ties", "weight": "normal"}, "a weight takes no ties"


@pytest.mark.parametrize("given", [{"rows": 3}, {"rows": 3, "n": 5, "cols": 1}, {}], ids=str)
def test_a_case_needs_every_size_and_nothing_else(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"needs every size and takes only rows, n, eps, exact"):
        SPACE.example("label", **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rows(bf16, n=(5, 4)), r"n=\(5, 4\) is not a range from 0 up"),
        (lambda: rows(bf16, n=(-1, 4)), r"n=\(-1, 4\) is not a range"),
        (lambda: Inputs({}, {"x": Tensor(bf16, ("n",))}), "x has dimension 'n' without a size"),
        (lambda: rows(bf16, n=(1, 4), eps=()), "eps has no value"),
        (lambda: Tensor(bf16, (), ("gauss",)), "family 'gauss' is unknown; known are normal"),
    ],
    ids=["empty", "negative", "no size", "no value", "family"],
)
def test_impossible_spaces_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_rows_is_one_tensor_with_parameters() -> None:
    made = rows(bf16, n=(1, 64), name="gate", limit=(10.0, 7.0))
    assert made.sizes == {"rows": (0, 300), "n": (1, 64)}
    assert made.tensors == {"gate": Tensor(bf16, ("rows", "n"))}
    assert made.defaults() == {"limit": 10.0}


def test_a_tensor_that_does_not_accept_a_family_takes_its_first() -> None:
    example = SPACE.example("label", family="subnormal", rows=2, n=3)
    assert example.tensors["x"].family == "subnormal"
    assert example.tensors["weight"].family == "normal"
    assert SPACE.example("label", family="constant", rows=2, n=3).tensors["weight"].family == (
        "constant"
    )
