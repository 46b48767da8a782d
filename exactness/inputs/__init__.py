"""Inputs: bit patterns that make arithmetic show itself, drawn by Hypothesis, printed as JSON."""

from __future__ import annotations

from exactness.inputs.draws import Example, IntegerDraw, Layout, TensorDraw
from exactness.inputs.spec import USUAL_LAYOUTS, Inputs, IntegerTensor, Tensor, rows

__all__ = [
    "USUAL_LAYOUTS",
    "Example",
    "Inputs",
    "IntegerDraw",
    "IntegerTensor",
    "Layout",
    "Tensor",
    "TensorDraw",
    "rows",
]
