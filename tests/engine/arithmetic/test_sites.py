"""Sites of a small program whose lines are known: this file's own functions are the reference."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from exactness.arithmetic import IEEE, Value, fma, launch, orders, sites, sum_
from exactness.arithmetic.sites import Position, Site

SPY = """
class Spy(IEEE):
    def __init__(self):
        super().__init__()
        self.sites = []

    def perform(self, operation):
        self.sites.append(sites.current(operation.name))
        return super().perform(operation)
"""


def new_spy() -> Any:
    """An arithmetic that notes the site of every operation.

    Frames of the engine are told by their module, so the spy is defined in one of its name.
    """
    space: dict[str, Any] = {"__name__": "exactness.spy", "IEEE": IEEE, "sites": sites}
    exec(SPY, space)
    return space["Spy"]()


def sites_of(program: Any) -> list[Site]:
    spy = new_spy()
    spy.run(program, {"x": np.ones(4, np.float32)})
    return spy.sites


def labels_of(program: Any) -> list[str]:
    return [site.label for site in sites_of(program)]


def line_of(function: Any, offset: int) -> int:
    """The line `offset` lines below a function's `def`."""
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return first + start + offset


def position(function: str, line: int, column: int, end: int, target: str | None) -> Position:
    return Position(function, line, column, line, end, target)


@launch
def square(x: Value) -> Value:
    return x * x


@launch
def affine(x: Value, mul: float, add: float) -> Value:
    product = x * mul
    return product + add


def chain(x: Value) -> Value:
    squared = square(x)
    mean = affine(squared, 0.25, 0.0)
    shifted = affine(mean, 1.0, 1e-6)
    return x * shifted


def test_labels_name_the_function_and_what_its_result_becomes() -> None:
    labels = labels_of(chain)
    assert labels == [
        "square:mul(squared)",
        "affine:product=constant(mean)",
        "affine:product=mul(mean)",
        "affine:constant(mean)",
        "affine:add(mean)",
        "affine:product=constant(shifted)",
        "affine:product=mul(shifted)",
        "affine:constant(shifted)",
        "affine:add(shifted)",
        "chain:mul",
    ]


def test_a_path_leads_from_the_program_to_the_operation() -> None:
    add = sites_of(chain)[4]
    assert add.operation == "add"
    assert add.path == (
        position("chain", line_of(chain, 2), 11, 37, "mean"),
        position("affine", line_of(affine, 2), 11, 24, None),
    )


def test_a_path_ends_at_the_engine_that_runs_the_program() -> None:
    for site in sites_of(chain):
        assert site.path[0].function == "chain"
        assert {position.function for position in site.path} <= {"chain", "square", "affine"}


def loop(x: Value) -> Value:
    for _ in range(3):
        x = x * x
    return x


def test_a_loop_is_one_site() -> None:
    assert len(sites_of(loop)) == 3
    assert len(set(sites_of(loop))) == 1
    assert labels_of(loop)[0] == "loop:x=mul"


def twice(x: Value) -> Value:
    return x * x + x * x


def test_two_operations_of_a_line_are_two_sites() -> None:
    first, second, add = sites_of(twice)
    assert first != second
    assert [site.operation for site in (first, second, add)] == ["mul", "mul", "add"]
    columns = [site.path[-1].column for site in (first, second, add)]
    assert columns == [11, 19, 11]


def chained(x: Value) -> Value:
    y = x + x + x + x
    return (
        y * y
        * y
    )  # fmt: skip


def test_a_chain_of_one_operation_is_as_many_sites() -> None:
    """`a + b` and `(a + b) + c` begin at the same column."""
    found = sites_of(chained)
    assert [site.operation for site in found] == ["add"] * 3 + ["mul"] * 2
    assert len(set(found)) == 5
    assert {site.path[-1].column for site in found} == {8}


def named(x: Value) -> Value:
    y: Value = x + x
    y *= x
    a, b = y + x, y - x
    parts = {}
    parts["sum"] = a + b
    first = second = a * b
    return fma(first, second, parts["sum"]) / sum_(a, order=orders.halving(4))


def test_every_kind_of_assignment_has_a_target() -> None:
    assert labels_of(named) == [
        "named:y=add",
        "named:y=mul",
        "named:a, b=add",
        "named:a, b=sub",
        "named:parts['sum']=add",
        "named:mul",
        "named:fma",
        "named:sum",
        "named:div",
    ]


def comprehended(x: Value) -> Value:
    parts = [x[i] * x[i] for i in range(2)]
    nested = [[part + part for part in parts] for _ in range(1)]
    return nested[0][0]


def test_a_comprehension_belongs_to_its_function() -> None:
    """From Python 3.12 on it has no frame; labels and paths must not depend on the version."""
    found = sites_of(comprehended)
    assert [site.label for site in found] == ["comprehended:parts=mul"] * 2 + [
        "comprehended:nested=add"
    ] * 2
    first, second = line_of(comprehended, 1), line_of(comprehended, 2)
    assert found[0].path == (position("comprehended", first, 13, 24, "parts"),)
    assert found[2].path == (position("comprehended", second, 15, 26, "nested"),)


def squares(x: Value) -> list[Value]:
    return [part * part for part in [x]]


def called_in_a_comprehension(x: Value) -> Value:
    made = [squares(x) for _ in range(1)]
    return made[0][0]


def test_a_path_goes_through_comprehensions() -> None:
    (site,) = sites_of(called_in_a_comprehension)
    assert [position.function for position in site.path] == ["called_in_a_comprehension", "squares"]
    assert site.label == "squares:mul(made)"


def helper(x: Value) -> Value:
    return affine(x, 2.0, 1.0)


def through_helper(x: Value) -> Value:
    first = helper(x)
    return helper(first)


def test_the_caller_distinguishes_the_operations_of_a_helper() -> None:
    adds = [site for site in sites_of(through_helper) if site.operation == "add"]
    assert [site.label for site in adds] == [
        "affine:add(first > return)",
        "affine:add(return > return)",
    ]
    assert adds[0] != adds[1]


def test_an_operation_outside_of_any_program_has_a_bare_label() -> None:
    assert Site("add", ()).label == "add"


def nested_calls(x: Value) -> Value:
    mean = affine(square(x), 0.25, 0.0)
    pair = (square(mean), 1)
    spread = affine(*[pair[0], 1.0, 1.0])
    total: Value = square(spread)
    return square(total)


def test_a_launch_is_named_by_the_variable_that_gets_its_result() -> None:
    """A call within an expression is assigned to nothing, or it would pass for its caller."""
    spy = new_spy()
    spy.run(nested_calls, {"x": np.ones(4, np.float32)})
    found = [(launched.name, launched.target) for launched in spy.launches]
    assert found == [
        ("square", None),
        ("affine", "mean"),
        ("square", None),
        ("affine", "spread"),
        ("square", "total"),
        ("square", None),
    ]


def test_code_without_source_has_positions_but_no_targets() -> None:
    space: dict[str, Any] = {"__name__": "elsewhere"}
    exec("def program(x):\n    y = x * x\n    return y", space)
    (site,) = sites_of(space["program"])
    assert site.path == (position("program", 2, 8, 13, None),)
    assert site.label == "program:mul"


def test_the_source_file_of_a_reference() -> None:
    assert sites.source_file(chain) == __file__
    assert sites.source_file(square) == __file__


@pytest.mark.parametrize("repeat", range(2))
def test_sites_are_the_same_in_every_run(repeat: int) -> None:
    assert sites_of(chain) == sites_of(chain)
    assert len(set(sites_of(chain))) == len(sites_of(chain))
