"""Ways to get a tensor-core product wrong: another step, width, rounding, order or split of K."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from exactness import arrays
from exactness.arithmetic.base import Arithmetic, Operation
from exactness.arrays import Array
from exactness.formats import bf16, f32, tf32
from exactness.hopper.tensor_core import Kind, kind_of, matmul
from exactness.rounding import Rounding, round_to

Perform: TypeAlias = Callable[[Arithmetic, Operation], Array]
Product: TypeAlias = Callable[[Array, Array, "Array | None", Kind], Array]


def dot_mutations(operation: Operation) -> Iterator[tuple[str, Perform]]:
    """Names and wrong results that make sense for a product met in a run.

    Another step only where the product is long enough to show it.
    """
    kind: Kind = operation.attributes["kind"]
    depth = operation.operands[0].shape[-1]
    fewer = replace(kind, fraction_bits=kind.fraction_bits - 1)
    yield f"fraction_bits={fewer.fraction_bits}", _with(fewer)
    yield "terms_rounded", _with(replace(kind, alignment=_other(kind.alignment)))
    yield "step_rounded_otherwise", _with(replace(kind, rounding=_other(kind.rounding)))
    if depth > kind.step // 2:
        yield f"step={kind.step // 2}", _with(replace(kind, step=kind.step // 2))
    if depth > kind.step:
        yield f"step={2 * kind.step}", _with(replace(kind, step=2 * kind.step))
        yield "descending", _by(_descending)
        yield "two_parts", _by(_two_parts)
    if kind.a is kind.b is tf32:
        yield "bf16", _by(_in_bf16)
    if depth:
        yield "fma_chain", _by(_fma_chain)
        yield (
            "drop_last",
            _by(lambda a, b, c, kind: matmul(a[..., :-1], b[..., :-1, :], c, kind=kind)),
        )
    if len(operation.operands) == 3:
        yield "accumulator_last", _by(_accumulator_last)


def _other(mode: Rounding) -> Rounding:
    nearest = Rounding.NEAREST_EVEN
    return Rounding.TOWARD_ZERO if mode is nearest else nearest


def _with(kind: Kind) -> Perform:
    """The product by instructions of another kind."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        attributes = {**operation.attributes, "kind": kind}
        return arithmetic.perform(
            Operation(operation.name, operation.operands, operation.format, attributes)
        ).payload

    return perform


def _by(product: Product) -> Perform:
    """The product computed otherwise, from operands as their registers hold them."""

    def perform(arithmetic: Arithmetic, operation: Operation) -> Array:
        a, b, *rest = (
            arrays.astype(round_to(operand.payload, operand.format), "float32")
            for operand in operation.operands
        )
        return product(a, b, rest[0] if rest else None, operation.attributes["kind"])

    return perform


def _plus(x: Array, y: Array | None, kind: Kind) -> Array:
    """An addition outside of the tensor core."""
    return x if y is None else round_to(x + y, kind.accumulator)


def _accumulator_last(a: Array, b: Array, acc: Array | None, kind: Kind) -> Array:
    return _plus(matmul(a, b, kind=kind), acc, kind)


def _two_parts(a: Array, b: Array, acc: Array | None, kind: Kind) -> Array:
    """K split in the middle, between two steps; the parts are added at the end."""
    half = -(-a.shape[-1] // (2 * kind.step)) * kind.step
    first = matmul(a[..., :half], b[..., :half, :], acc, kind=kind)
    return _plus(first, matmul(a[..., half:], b[..., half:, :], kind=kind), kind)


def _descending(a: Array, b: Array, acc: Array | None, kind: Kind) -> Array:
    """The last step first."""
    for start in reversed(range(0, a.shape[-1], kind.step)):
        part = slice(start, start + kind.step)
        acc = matmul(a[..., part], b[..., part, :], acc, kind=kind)
    return acc


def _in_bf16(a: Array, b: Array, acc: Array | None, kind: Kind) -> Array:
    """Operands of tf32 rounded to bf16, and its instructions."""
    return matmul(round_to(a, bf16), round_to(b, bf16), acc, kind=kind_of(bf16, bf16, f32))


def _fma_chain(a: Array, b: Array, acc: Array | None, kind: Kind) -> Array:
    """One product after the other, as without tensor cores; the products are exact in f32."""
    total = arrays.full(a, (), 0.0, "float32") if acc is None else acc
    for k in range(a.shape[-1]):
        total = round_to(total + a[..., k, None] * b[..., None, k, :], kind.accumulator)
    return total
