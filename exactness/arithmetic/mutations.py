"""Ways to get one operation wrong: what a careless fusion, port or compiler does.

Each `Mutation` replaces the arithmetic of a single operation of a reference. `mutations` lists
those that make sense for an operation met in a run; `arithmetic.mutants` applies one at a site.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from exactness import arrays
from exactness.arithmetic import orders
from exactness.arithmetic.base import Arithmetic, Operation
from exactness.arithmetic.dot_mutations import dot_mutations
from exactness.arithmetic.ieee import fmax, fmin, reduce_along
from exactness.arithmetic.orders import Order
from exactness.arithmetic.value import Value
from exactness.arrays import Array
from exactness.formats import Format, f32, f64
from exactness.hopper import division, special
from exactness.rounding import Rounding, fma, host_constant, round_to

Perform: TypeAlias = Callable[[Arithmetic, Operation], Array]


@dataclass(frozen=True)
class Mutation:
    """A wrong way to perform an operation.

    Attributes:
        name: what is wrong, as "toward_zero" or "order=sequential".
        perform: the payload of the wrong result.
    """

    name: str
    perform: Perform


_PLAIN: Mapping[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "sqrt": lambda x: arrays.namespace(x).sqrt(x),
    "cast": lambda x: x,
}


def _carrier(fmt: Format) -> str:
    return "float64" if fmt is f64 else "float32"


def _wide(operation: Operation) -> Array:
    """The result in f64, all but exact."""
    operands = [arrays.astype(payload, "float64") for payload in operation.payloads]
    return _PLAIN[operation.name](*operands)


def _unrounded(arithmetic: Arithmetic, operation: Operation) -> Array:
    """In f32 for narrow formats, as a fused kernel keeps it in a register; f32 in f64."""
    wide = _wide(operation)
    return wide if operation.format is f32 else arrays.astype(wide, "float32")


def _rounded(mode: Rounding) -> Perform:
    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        rounded = round_to(_wide(operation), operation.format, mode)
        return arrays.astype(rounded, _carrier(operation.format))

    return perform


def _flushed(arithmetic: Arithmetic, operation: Operation) -> Array:
    """Subnormal operands and results become zeros of their sign."""
    fmt = operation.format
    operands = [
        Value(arithmetic, _flush(operand.payload, operand.format), operand.format)
        for operand in operation.operands
    ]
    flushed = Operation(operation.name, tuple(operands), fmt, operation.attributes)
    rounded = round_to(_wide(flushed), fmt)
    return arrays.astype(_flush(rounded, fmt), _carrier(fmt))


def _flush(x: Array, fmt: Format) -> Array:
    return arrays.where(abs(x) < fmt.smallest_normal, x * 0.0, x)


NO_ROUNDING = Mutation("no_rounding", _unrounded)
_ROUNDINGS = (
    NO_ROUNDING,
    Mutation("toward_zero", _rounded(Rounding.TOWARD_ZERO)),
    Mutation("flush_subnormals", _flushed),
)


def _reciprocal(arithmetic: Arithmetic, operation: Operation) -> Array:
    """The product with the rounded reciprocal."""
    x, y = operation.operands
    one = arithmetic.constant(1.0, y.format, y.payload)
    inverse = arithmetic.perform(Operation("div", (one, y), y.format))
    return arithmetic.perform(Operation("mul", (x, inverse), operation.format)).payload


def _in_f32(function: Callable[..., Array], **how: bool) -> Perform:
    """A special function of f32 in place of the operation, rounded to its format."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        operands = [arrays.astype(payload, "float32") for payload in operation.payloads]
        return round_to(function(*operands, **how), operation.format)

    return perform


def _correctly_rounded(function: Callable[..., Array]) -> Perform:
    """The true function in f64, rounded once."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        operands = [arrays.astype(payload, "float64") for payload in operation.payloads]
        exact = round_to(function(*operands), operation.format)
        return arrays.astype(exact, _carrier(operation.format))

    return perform


def _exp_by_ex2(x: Array) -> Array:
    """`__expf`: one product with log2(e), one ex2.approx."""
    return special.ex2_approx(x * arrays.full(x, (), math.log2(math.e), "float32"), ftz=False)


_FUNCTIONS: Mapping[str, tuple[Mutation, ...]] = {
    "div": (
        Mutation("reciprocal", _reciprocal),
        Mutation("approximate", _in_f32(division.div_full, ftz=False)),
    ),
    "sqrt": (Mutation("approximate", _in_f32(special.sqrt_approx, ftz=True)),),
    "expf": (Mutation("approximate", _in_f32(_exp_by_ex2)),),
    "div_full": (Mutation("accurate", _correctly_rounded(lambda x, y: x / y)),),
    "rcp_approx": (Mutation("accurate", _correctly_rounded(lambda x: 1.0 / x)),),
    "sqrt_approx": (
        Mutation("accurate", _correctly_rounded(lambda x: arrays.namespace(x).sqrt(x))),
    ),
    "rsqrt_approx": (
        Mutation("accurate", _correctly_rounded(lambda x: 1.0 / arrays.namespace(x).sqrt(x))),
    ),
    "ex2_approx": (
        Mutation("accurate", _correctly_rounded(lambda x: arrays.namespace(x).exp2(x))),
    ),
}


def _keep_nan(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def combine(x: Array, y: Array) -> Array:
        nan = (x != x) | (y != y)
        return arrays.where(nan, x + y, function(x, y))

    return combine


def _keeps_nan(function: Callable[[Array, Array], Array]) -> Perform:
    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        return _keep_nan(function)(*operation.payloads)

    return perform


def _first_of_equals(function: Callable[[Array, Array], Array]) -> Perform:
    """Zeros of either sign count as equal: the first operand stays, as `a < b ? b : a` does."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        x, y = operation.payloads
        return arrays.where(x == y, x, function(x, y))

    return perform


def _constant_in(narrow: bool) -> Perform:
    """A host constant left in f32, or rounded to f32 on the way to its format."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        like = operation.attributes["like"]
        value = host_constant(operation.attributes["number"], f32)
        if narrow:
            value = host_constant(value, operation.format)
        return arrays.full(like, (), value, "float32")

    return perform


def _contracted(product: int) -> Perform:
    """One fma in place of a product (operand `product`) and the sum that takes it."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        origin = operation.operands[product].origin
        if origin is None or origin.name != "mul":
            return arithmetic.round(_wide(operation), operation.format)  # type: ignore[attr-defined]
        a, b = origin.payloads
        c = operation.payloads[1 - product]
        if operation.name == "sub":
            a, c = (a, -c) if product == 0 else (-a, c)
        return fma(a, b, c, operation.format)

    return perform


def _uncontracted(arithmetic: Arithmetic, operation: Operation) -> Array:
    a, b, c = operation.operands
    product = arithmetic.perform(Operation("mul", (a, b), operation.format))
    return arithmetic.perform(Operation("add", (product, c), operation.format)).payload


_ORDERS: Mapping[str, Callable[[int], Order]] = {
    "sequential": orders.sequential,
    "reverse": orders.reverse,
    "halving": orders.halving,
    "pairwise": orders.pairwise,
    "strided by 32": lambda n: orders.strided(n, 32).then(orders.halving(32)),
    "strided by 256": lambda n: orders.strided(n, 256).then(orders.halving(256)),
    "layout 1x32x1": lambda n: orders.triton_layout(n, 1, 32, 1),
    "layout 4x32x4": lambda n: orders.triton_layout(n, 4, 32, 4),
    "layout 8x32x4": lambda n: orders.triton_layout(n, 8, 32, 4),
    "layout 8x32x8": lambda n: orders.triton_layout(n, 8, 32, 8),
}


def _reduced(change: Callable[[Order], Order]) -> Perform:
    """The same reduction in another order."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        order = change(operation.attributes["order"])
        attributes = {**operation.attributes, "order": order}
        return arithmetic.perform(
            Operation(operation.name, operation.operands, operation.format, attributes)
        ).payload

    return perform


def _sum_with(fmt: Format | None, mode: Rounding) -> Perform:
    """A sum whose every addition is rounded in `mode`, or kept wider until the end (None)."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        target = operation.format
        wide = "float64" if target in (f32, f64) else "float32"

        def add(x: Array, y: Array) -> Array:
            return x + y if fmt is None else round_to(x + y, target, mode)

        (payload,) = operation.payloads
        exact = mode is not Rounding.NEAREST_EVEN
        payload = arrays.astype(payload, "float64" if exact else wide)
        order, axis = operation.attributes["order"], operation.attributes["axis"]
        total = reduce_along(payload, order, axis, add, 0.0)
        return arrays.astype(round_to(total, target, mode), _carrier(target))

    return perform


def _max_with_nan(arithmetic: Arithmetic, operation: Operation) -> Array:
    (payload,) = operation.payloads
    order, axis = operation.attributes["order"], operation.attributes["axis"]
    return reduce_along(payload, order, axis, _keep_nan(fmax), -math.inf)


def _neighbour(step: int) -> Perform:
    """The rows before or behind; the last and the first one are neighbours."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        (table,) = operation.operands
        index = operation.attributes["index"] + step
        attributes = {**operation.attributes, "index": index % max(table.shape[0], 1)}
        return arithmetic.perform(
            Operation(operation.name, operation.operands, operation.format, attributes)
        ).payload

    return perform


def mutations(operation: Operation, known: Container[str] = ()) -> Iterator[Mutation]:
    """The mutations that make sense for an operation met in a run.

    Args:
        operation: the operation.
        known: names of mutations that need not be looked for again.
    """
    name, fmt = operation.name, operation.format
    if name in _PLAIN:
        widening = name == "cast" and operation.operands[0].format.precision <= fmt.precision
        yield from () if widening else (m for m in _ROUNDINGS if fmt is not f64)
    yield from _FUNCTIONS.get(name, ())
    if name in ("minimum", "maximum"):
        function = fmin if name == "minimum" else fmax
        yield Mutation("nan_kept", _keeps_nan(function))
        yield Mutation("zero_sign_of_first", _first_of_equals(function))
    if name == "constant" and fmt.precision < f32.precision:
        yield from _constants(operation)
    if name in ("add", "sub"):
        for index, side in enumerate(("left", "right")):
            origin = operation.operands[index].origin
            if origin is not None and origin.name == "mul":
                yield Mutation(f"contract_{side}", _contracted(index))
    if name == "fma":
        yield Mutation("uncontracted", _uncontracted)
    if name in ("sum", "max"):
        yield from _reductions(operation, known)
    if name == "dot":
        yield from (Mutation(*named) for named in dot_mutations(operation))
    if name == "take":
        yield Mutation("index_plus_one", _neighbour(1))
        yield Mutation("index_minus_one", _neighbour(-1))


def _constants(operation: Operation) -> Iterator[Mutation]:
    """Only where the number at hand would come out different."""
    right = host_constant(operation.attributes["number"], operation.format)
    single = host_constant(operation.attributes["number"], f32)
    if single != right:
        yield Mutation("constant_in_f32", _constant_in(narrow=False))
    if host_constant(single, operation.format) != right:
        yield Mutation("constant_rounded_twice", _constant_in(narrow=True))


def _reductions(operation: Operation, known: Container[str]) -> Iterator[Mutation]:
    order: Order = operation.attributes["order"]
    if operation.name == "sum":
        yield Mutation("wider_accumulator", _sum_with(None, Rounding.NEAREST_EVEN))
        yield Mutation("toward_zero", _sum_with(operation.format, Rounding.TOWARD_ZERO))
        for name, build in _ORDERS.items():
            if f"order={name}" not in known and not build(order.n).same_sums(order):
                yield Mutation(f"order={name}", _reduced(lambda o, build=build: build(o.n)))  # type: ignore[misc]
    else:
        yield Mutation("nan_kept", _max_with_nan)
    yield Mutation("drop_last", _reduced(orders.without_last))
    if operation.name == "sum":
        yield Mutation("double_last", _reduced(orders.with_last_twice))


def _zero_sign_lost(arithmetic: Arithmetic, operation: Operation) -> Array:
    return arithmetic.perform(operation).payload + 0.0


ZERO_SIGN_LOST = Mutation("zero_sign_lost", _zero_sign_lost)
"""−0 becomes +0, as when 0 is added on the way; for outputs that are −0 somewhere."""

COMPARISONS: Mapping[str, str] = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
"""A comparison and the one that is off by equality."""
