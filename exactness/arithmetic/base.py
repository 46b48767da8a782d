"""The Arithmetic that decides what a reference's operations mean, and the trace of its launches.

Every operation of a reference passes through `Arithmetic.operate`, which checks formats, turns
Python numbers into host constants and hands an `Operation` to `perform`. A subclass decides the
bits there; a mutant changes one operation there, found by its site.
"""

from __future__ import annotations

import abc
import functools
import numbers
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from exactness import arrays
from exactness.arithmetic import sites
from exactness.arithmetic.integers import Word, WordOperation
from exactness.arithmetic.value import PLAIN, Value
from exactness.arrays import Array
from exactness.bits import Bits, as_payload, format_of
from exactness.formats import Format

P = ParamSpec("P")
R = TypeVar("R")

_RUNNING: ContextVar[Arithmetic] = ContextVar("running")
"""What runs the program that is being run: integers alone do not say."""


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation of a reference, about to be performed.

    Attributes:
        name: "add", "sum", "cast", "constant" ….
        operands: the values it takes.
        format: the format of its result.
        attributes: what else it needs (`order`, `axis`, `mode`, `number` …).
    """

    name: str
    operands: tuple[Value, ...]
    format: Format
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def payloads(self) -> tuple[Array, ...]:
        """The operands' payloads."""
        return tuple(operand.payload for operand in self.operands)

    @staticmethod
    def rearranged(value: Value) -> Operation:
        """The origin of a value that takes elements of another as they are."""
        return Operation(PLAIN, (value,), value.format)


@dataclass(frozen=True, eq=False)
class Launch:
    """What one kernel launch of the baseline produced.

    Attributes:
        name: the `@launch` function.
        target: the variable it was assigned to in the reference, or None.
        results: the values it returned; plain arrays in place of words.
    """

    name: str
    target: str | None
    results: tuple[Value | Array, ...]

    @property
    def label(self) -> str:
        """`target` where there is one, else the function's name."""
        return self.target or self.name

    def answers_to(self, tensor: str) -> bool:
        """Whether `tensor` names this launch: its variable or its function, less a final `_`."""
        return tensor in (self.name.rstrip("_"), (self.target or "").rstrip("_"))


class Arithmetic(abc.ABC):
    """Decides the bits of every operation; records the launches of the program it runs."""

    name = "abstract"

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self._inside_launch = False

    def value(self, tensor: Any) -> Value:
        """A tensor (`Bits`, NumPy, or torch on a CPU or GPU) of a float format as a value.

        Raises:
            TypeError: not a float tensor.
        """
        payload, fmt = as_payload(tensor)
        return Value(self, self.enter(payload), fmt)

    def enter(self, payload: Array) -> Array:
        """The payload of an input; an arithmetic may widen it."""
        return payload

    def operate(
        self, name: str, *operands: Value | float, fmt: Format | None = None, **attributes: Any
    ) -> Value:
        """Perform the operation `name`.

        Args:
            name: the operation.
            operands: values of one format; Python numbers become host constants of it.
            fmt: the format of the result; that of the operands if None.
            attributes: what else the operation needs.

        Raises:
            TypeError: operands of different formats; cast one of them.
        """
        values = self._values(name, operands)
        result = fmt or values[0].format
        return self.perform(Operation(name, values, result, attributes))

    def compare(self, name: str, x: Value, y: Value | float) -> Array:
        """A plain boolean array: `x` lt, le, gt, ge or eq `y`."""
        return self.perform_comparison(name, *self._values(name, (x, y)))

    def constant(self, number: float, fmt: Format, like: Array) -> Value:
        """A Python number as a host constant beside `like`.

        Raises:
            TypeError: not a number; an array must become a value first, or it would be read as
                a constant.
        """
        if not isinstance(number, numbers.Real):
            raise TypeError(f"{number!r:.60} is neither a Value nor a number ({type(number)})")
        return self.perform(Operation("constant", (), fmt, {"number": number, "like": like}))

    def _values(self, name: str, operands: tuple[Value | float, ...]) -> tuple[Value, ...]:
        given = [operand for operand in operands if isinstance(operand, Value)]
        formats = {value.format.name for value in given}
        if len(formats) > 1:
            raise TypeError(f"{name}: formats {' and '.join(sorted(formats))} mixed; cast one")
        first = given[0]
        return tuple(
            operand
            if isinstance(operand, Value)
            else self.constant(operand, first.format, first.payload)
            for operand in operands
        )

    @abc.abstractmethod
    def perform(self, operation: Operation) -> Value:
        """Decide the bits of one operation."""

    def perform_comparison(self, name: str, x: Value | Word, y: Value | Word) -> Array:
        """Decide a comparison; NaN compares false."""
        return _COMPARISONS[name](x.payload, y.payload)

    def operate_words(self, operation: WordOperation) -> tuple[Word, ...]:
        """Perform an operation on words."""
        results = self.perform_words(operation)
        return tuple(Word(self, result, operation.format, operation) for result in results)

    def perform_words(self, operation: WordOperation) -> tuple[Array, ...]:
        """Decide the results of an operation on words."""
        return operation.perform()

    def leave(self, word: Word) -> Array:
        """A word becomes a plain array."""
        return word.payload

    def run(self, program: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Run a reference from the start: float tensors become values, the trace is cleared.

        Args:
            program: the reference.
            arguments: its keyword arguments; float tensors become values, integer tensors plain
                arrays, all else is passed on.

        Returns:
            What the program returns, words as plain arrays.
        """
        self.launches = []
        running = _RUNNING.set(self)
        try:
            result = program(**{name: self._argument(given) for name, given in arguments.items()})
        finally:
            _RUNNING.reset(running)
        return tuple(map(_plain, result)) if isinstance(result, tuple) else _plain(result)

    def _argument(self, given: Any) -> Any:
        if not isinstance(given, Bits) and not hasattr(given, "dtype"):
            return given
        if isinstance(format_of(given), Format):
            return self.value(given)
        if isinstance(given, Bits):
            return given.values()
        return given if arrays.is_numpy(given) or given.is_cuda else given.numpy()

    def record(self, name: str, target: str | None, result: Any) -> None:
        """Add a finished launch to the trace."""
        results = result if isinstance(result, tuple) else (result,)
        kept = tuple(
            made.payload if isinstance(made, Word) else made for made in results if made is not None
        )
        self.launches.append(Launch(name, target, kept))


def running() -> Arithmetic:
    """The arithmetic that runs this program.

    Raises:
        TypeError: none does.
    """
    arithmetic = _RUNNING.get(None)
    if arithmetic is None:
        raise TypeError("no arithmetic runs this program; Hopper().run(program, arguments) does")
    return arithmetic


def _plain(result: Any) -> Any:
    return result.plain() if isinstance(result, Word) else result


_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
}


def launch(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function of a reference as one kernel launch of the baseline.

    Launches make the trace (which launch is the first to diverge) and the count of launches
    that a fused kernel replaces.

    Raises:
        RuntimeError: when called within another launch.
        TypeError: when no argument is a value and no arithmetic runs the program.
    """

    @functools.wraps(function)
    def launched(*args: P.args, **kwargs: P.kwargs) -> R:
        arithmetic = _arithmetic_of(function.__name__, (*args, *kwargs.values()))
        if arithmetic._inside_launch:
            raise RuntimeError(f"launch {function.__name__} is called within another launch")
        arithmetic._inside_launch = True
        try:
            result = function(*args, **kwargs)
        finally:
            arithmetic._inside_launch = False
        arithmetic.record(function.__name__, sites.assigned_name(), result)
        return result

    return launched


def _arithmetic_of(name: str, arguments: tuple[Any, ...]) -> Arithmetic:
    for argument in arguments:
        if isinstance(argument, Value | Word):
            return argument.arithmetic
    try:
        return running()
    except TypeError as error:
        raise TypeError(f"launch {name}: no argument is a Value, and {error}") from None
