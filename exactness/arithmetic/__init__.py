"""What a reference is a program over: values, named operations, orders, launches."""

from __future__ import annotations

from exactness.arithmetic.base import Arithmetic, Launch, Operation, launch
from exactness.arithmetic.exact import Exact
from exactness.arithmetic.functions import (
    cast,
    constant,
    equal,
    fma,
    max_,
    maximum,
    minimum,
    sqrt,
    sum_,
    where,
)
from exactness.arithmetic.ieee import IEEE
from exactness.arithmetic.orders import Order
from exactness.arithmetic.value import Value

__all__ = [
    "IEEE",
    "Arithmetic",
    "Exact",
    "Launch",
    "Operation",
    "Order",
    "Value",
    "cast",
    "constant",
    "equal",
    "fma",
    "launch",
    "max_",
    "maximum",
    "minimum",
    "sqrt",
    "sum_",
    "where",
]
