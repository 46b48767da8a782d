"""How element-wise kernels walk tensors: every element once, in the order of all its tensors."""

import importlib
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def layout(catalogue):
    """The module of host-side helpers."""
    (entry,) = catalogue.select(("swiglu_clamp",))
    return importlib.import_module(f"{entry.claim.kernel.__module__.rpartition('.')[0]}._layout")


@st.composite
def views(draw):
    """A view of up to three dimensions: sliced, permuted, with sizes of 1."""
    shape = draw(st.lists(st.integers(1, 5), min_size=0, max_size=3))
    steps = [draw(st.integers(1, 2)) for _ in shape]
    wider = [size * step for size, step in zip(shape, steps, strict=True)]
    base = torch.arange(math.prod(wider)).reshape(wider)
    view = base[tuple(slice(None, None, step) for step in steps)]
    return view.permute(draw(st.permutations(range(len(shape)))))


def walked(way, number):
    """The offsets of a tensor in the order of a walk."""
    sizes = (way.outer, way.middle, way.cols)
    steps = way.strides[number]
    places = itertools.product(*map(range, sizes))
    return [sum(i * step for i, step in zip(place, steps, strict=True)) for place in places]


@given(view=views())
@settings(deadline=None, max_examples=300)
def test_a_walk_goes_through_all_tensors_in_step(layout, view):
    other = torch.empty(view.shape, dtype=torch.int64)
    way = layout.walk(view=view, other=other)
    # The base counts its own elements: offset and value are the same.
    assert walked(way, 0) == [int(x) - int(view.storage_offset()) for x in view.reshape(-1)]
    assert walked(way, 1) == list(range(view.numel()))


def test_contiguous_tensors_are_one_row(layout):
    way = layout.walk(x=torch.zeros(4, 8, 16), y=torch.zeros(4, 8, 16))
    assert (way.outer, way.middle, way.cols) == (1, 1, 512)
    assert way.unit == (True, True)


def test_vectors_are_used_only_where_every_row_starts_on_one(layout):
    x = torch.zeros(8, 64)
    assert layout.walk(x=x).aligned
    assert not layout.walk(x=torch.zeros(513)[1:]).aligned
    assert not layout.walk(x=x[:, :40], y=torch.zeros(8, 40)).aligned
    assert not layout.walk(x=torch.zeros(8, 65)[:, :64]).aligned
    assert layout.walk(x=torch.zeros(8, 1).expand(8, 64), y=x).aligned


@pytest.mark.parametrize(
    ("strides", "overlap"),
    [((3, 1), False), ((2, 1), True), ((0, 1), True), ((1, 2), False), ((4, 2), True)],
)
def test_elements_that_overlap_are_refused(layout, strides, overlap):
    x = torch.zeros(32).as_strided((2, 3), strides)
    if not overlap:
        layout.check_own_elements("x", x)
        return
    with pytest.raises(ValueError, match=r"x: strides .* its elements must not overlap"):
        layout.check_own_elements("x", x)
