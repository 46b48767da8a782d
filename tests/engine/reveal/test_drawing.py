"""Trees as text, DOT and SVG, and where two of them part in words."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from exactness.reveal import Tree, drawing, known, parting
from exactness.reveal.parting import parting_text, terms_text


@pytest.mark.parametrize(
    ("nested", "lines"),
    [
        (0, ["a0"]),
        ([0, 1], ["+ a0, a1"]),
        ([[[[0, 1], 2], 3], 4], ["+ a0 … a4"]),
        ([[0, 2], [1, 3]], ["+", "├─+ a0, a2", "└─+ a1, a3"]),
        ([[[[0, 1], [2, 3]], 4], 5], ["+ …, then a4, a5", "└─+", "  ├─+ a0, a1", "  └─+ a2, a3"]),
        ([[0, 1, 2, 3], 4, 5], ["fused + of 3: a4, a5", "└─fused + of 4: a0 … a3"]),
    ],
)
def test_text(nested, lines) -> None:
    assert drawing.text(Tree.from_nested(nested)).splitlines() == lines


def test_terms_in_words() -> None:
    assert terms_text([]) == ""
    assert terms_text([3, 4, 5]) == "a3, a4, a5"
    assert terms_text([0, 8, 16, 24, 25, 26, 27, 28, 9], "x") == "x0 … x24 by 8, x25 … x28, x9"
    assert terms_text([7, 6, 5, 4]) == "a7 … a4 by -1"


def test_dot_has_every_node_and_edge() -> None:
    lines = drawing.dot(Tree.from_nested([[0, 1, 2], 3]), 'a "b"').splitlines()
    assert lines[0] == r'digraph "a \"b\"" {'
    assert '  2 [label="a2" shape=box];' in lines
    assert '  4 [label="+3"];' in lines
    assert [line for line in lines if "->" in line] == [
        f"  {child} -> {node};" for node, child in ((4, 0), (4, 1), (4, 2), (5, 4), (5, 3))
    ]


@pytest.mark.parametrize("name", ["sequential", "halving", "numpy", "fused:16"])
@pytest.mark.parametrize("n", [1, 8, 1000])
def test_svg_draws_every_node_inside_the_picture(name, n) -> None:
    tree = known.named(name, n)
    picture = ElementTree.fromstring(drawing.svg(tree, "a<b & c"))
    space = "{http://www.w3.org/2000/svg}"
    width, height = (float(picture.get(side)) for side in ("width", "height"))
    circles = list(picture.iter(f"{space}circle"))
    assert len(circles) == tree.root + 1
    assert len(list(picture.iter(f"{space}line"))) == tree.root
    assert all(0 < float(circle.get("cx")) < width for circle in circles)
    assert all(0 < float(circle.get("cy")) < height for circle in circles)
    assert picture.find(f"{space}title").text == "a<b & c"
    labels = [label.text for label in picture.iter(f"{space}text")][1:]
    assert sorted(labels) == (sorted(f"a{term}" for term in range(n)) if n <= 8 else [])


def test_svg_draws_no_edge_across_another_of_the_same_level() -> None:
    """Terms stand as the tree holds them, so the operands of a node are neighbours."""
    tree = known.named("halving", 8)
    picture = ElementTree.fromstring(drawing.svg(tree))
    circles = list(picture.iter("{http://www.w3.org/2000/svg}circle"))[:8]
    order = sorted(range(8), key=lambda term: float(circles[term].get("cx")))
    assert order == [0, 4, 2, 6, 1, 5, 3, 7]


def test_where_trees_part() -> None:
    halving, pairwise = known.named("halving", 8), known.named("pairwise", 8)
    found = parting(halving, pairwise)
    assert found.terms == tuple(range(8))
    assert found.actual == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert found.expected == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert (found.common, found.additions) == (1, 7)
    assert parting_text(found, "x", "y").splitlines() == [
        "they part at the sum of a0 … a7 (1 of 7 partial sums are the same):",
        "  x: (a0 … a6 by 2) + (a1 … a7 by 2)",
        "  y: (a0 … a3) + (a4 … a7)",
    ]


def test_the_first_difference_from_the_sum_down_is_found() -> None:
    actual = Tree.from_nested([[[[0, 1], [2, 3]], 4], [5, [6, 7]]])
    expected = Tree.from_nested([[[[0, 2], [1, 3]], 4], [[5, 6], 7]])
    found = parting(actual, expected)
    assert found.terms in ((0, 1, 2, 3), (5, 6, 7))
    assert found.common == 4
    assert parting(actual, Tree.from_nested(actual.nested())) is None
    fused = parting(Tree.from_nested([[0, 1], 2]), Tree.from_nested([0, 1, 2]))
    assert fused.expected == ((0,), (1,), (2,))
    with pytest.raises(ValueError, match="3 and of 2 terms"):
        parting(Tree.from_nested([0, 1, 2]), Tree.from_nested([0, 1]))
