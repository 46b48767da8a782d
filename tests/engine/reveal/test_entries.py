"""Entries of PTX as summations: how they are called, and their orders."""

from __future__ import annotations

from pathlib import Path

import pytest

from exactness.errors import UsageError
from exactness.formats import bf16, f32
from exactness.reveal import RevealError, Shape, known, reveal
from exactness.reveal.confirmation import accumulator
from exactness.reveal.entries import Call, PTXEntry

FILE = Path(__file__).parent / "data" / "sums.ptx"
DOT = Call(("x", "ones", "out", "n"), block=("1",))
NORM = Call(("x", "out:bf16", "0.0"), block=("32",))


def test_product_with_ones() -> None:
    summation = PTXEntry(f"{FILE}:backwards", Shape(40, rows=16), DOT)
    tree = reveal(summation)
    assert tree == known.named("reverse", 40)
    assert summation.probes == 40 * 39 // 2
    assert summation.calls < summation.probes / 10
    assert accumulator(summation, tree, 16) is f32


def test_norm_is_opened() -> None:
    summation = PTXEntry(f"{FILE}:norm", Shape(32, bf16, rows=16), NORM)
    assert summation.opened
    assert reveal(summation) == known.named("halving", 32)


def test_norm_that_adds_something_else_is_refused() -> None:
    how = Call(("x", "out:bf16", "0.5"), block=("32",))
    with pytest.raises(RevealError, match="is no sum of 32 terms"):
        reveal(PTXEntry(f"{FILE}:norm", Shape(32, bf16, rows=16), how))


@pytest.mark.parametrize(
    ("entry", "how", "message"),
    [
        ("nope", DOT, "kernel 'nope': the module has: backwards, norm"),
        ("backwards", Call(("x", "n")), "--args x,n: out is needed once"),
        ("backwards", Call(("x", "x", "out")), "x is needed once"),
        ("backwards", Call(("x", "y", "out", "n")), "'y' is not accepted: numbers, n, rows"),
        ("backwards", Call(("x", "ones:f9", "out", "n")), "format 'f9' is unknown"),
    ],
)
def test_calls_are_checked(entry, how, message) -> None:
    with pytest.raises(RevealError, match=message):
        PTXEntry(f"{FILE}:{entry}", Shape(8), how)


def test_what_cannot_be_launched_is_refused_in_a_line() -> None:
    for how in (Call(("x", "out", "n")), Call(DOT.arguments, grid=("many",))):
        with pytest.raises(RevealError) as caught:
            reveal(PTXEntry(f"{FILE}:backwards", Shape(8), how))
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="cannot be read"):
        PTXEntry(f"{FILE.parent}/nope.ptx:k", Shape(8), DOT)
    with pytest.raises(RevealError, match="runs on the virtual Hopper"):
        PTXEntry(f"{FILE}:backwards", Shape(8, device="cuda"), DOT)
