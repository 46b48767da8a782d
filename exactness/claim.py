"""A claim: this kernel gives the same bits as that reference."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from exactness.inputs import Inputs
from exactness.inputs import dims as dimensions
from exactness.inputs.dims import Dim

GPU = "gpu"
"""The kernel runs on a GPU, or as PTX on the virtual Hopper."""
GPU_ONLY = "gpu-only"
"""The kernel runs on a GPU alone (an operator of an engine, compiled elsewhere)."""
CPU = "cpu"
"""The kernel is a callable on CPU tensors."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """An opt-in arithmetic that is not bit-identical to the default.

    Attributes:
        name: a boolean keyword argument of the kernel that turns it on.
        reference: its own reference, "file:function".
        env: the environment variable that turns it on when set to 1.
    """

    name: str
    reference: str
    env: str

    @property
    def enabled(self) -> bool:
        """Whether the environment turns it on for calls that do not say."""
        return os.environ.get(self.env, "") == "1"


@dataclass(frozen=True, kw_only=True)
class Exhaustive:
    """A proof over a domain: all patterns of one argument, on given sizes.

    Attributes:
        argument: the tensor that goes through all patterns of its format (16 bits at most).
        sizes: sizes and parameters; the argument must have a multiple of its patterns.
    """

    argument: str
    sizes: Mapping[str, Any]


@dataclass(frozen=True)
class Equivalent:
    """Why a mutant gives the same bits, and a check of that reason."""

    reason: str
    check: Callable[[], bool]


TOKENS = "tokens"
"""A benchmark case that grows with the number of tokens."""
SEQUENCE = "sequence"
"""A benchmark case that grows with the length of a sequence: attention."""

Work: TypeAlias = Dim | Callable[[Mapping[str, int]], int]
"""An amount of work: a number, an expression of sizes, or a function of them."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A benchmark case.

    Attributes:
        name: what selects it.
        sizes: every size, as a number or an expression of `tokens` such as "64*tokens";
            parameters and formats that differ from their default.
        bytes: logical bytes of a call, every tensor once in and once out; expressions are of the
            sizes, the integer parameters and `tokens`.
        flops: floating-point operations of a call, likewise.
        tokens: the values of `tokens` unless others are asked for.
        axis: what `tokens` counts, `TOKENS` or `SEQUENCE`.
        inputs: the space of arguments where it is not the claim's.
        against: name of a comparator to "file:function" below the folder of references: torch
            code that takes the kernel's arguments and gives its outputs. The one called "chain"
            is the chain of operations that the kernel replaces.
        large: why it only runs on request; empty if it always does.
    """

    name: str
    sizes: Mapping[str, Any]
    bytes: Work
    flops: Work = 0
    tokens: tuple[int, ...] = (512,)
    axis: str = TOKENS
    inputs: Inputs | None = None
    against: Mapping[str, str] = field(default_factory=dict)
    large: str = ""

    def __post_init__(self) -> None:
        """Refuse an unknown axis and a case without a size.

        Raises:
            ValueError: the axis, or the values of `tokens`.
        """
        if self.axis not in (TOKENS, SEQUENCE):
            raise ValueError(
                f"bench {self.name}: axis {self.axis!r} is neither {TOKENS} nor {SEQUENCE}"
            )
        if not self.tokens or min(self.tokens) < 1:
            raise ValueError(f"bench {self.name}: tokens {self.tokens}; numbers from 1 up")

    def amounts(self) -> Iterator[tuple[str, Dim]]:
        """What is written as a number or an expression, by field."""
        named: dict[str, Work] = {"bytes": self.bytes, "flops": self.flops}
        yield from ((name, value) for name, value in named.items() if not callable(value))


@dataclass(frozen=True, kw_only=True)
class Claim:
    r"""The declaration that pairs a kernel and a reference.

    Attributes:
        kernel: a callable on torch tensors; its parameter names are the argument names.
        reference: "file:function" below the folder of references.
        golden: key prefixes of its recordings; empty if there are none.
        inputs: the space of arguments.
        name: defaults to the kernel's name.
        baseline: the published implementation that `record` runs, "module:function", or
            "file:function" below the folder of references; it takes the same arguments.
        cases: sizes and parameters that are always checked.
        outputs: names of what the kernel returns, in order.
        mutates: argument to the name of the output it becomes.
        parameters: arguments of recorded cases that are not tensors.
        case_pattern: a regular expression with named groups that finds parameters in the name
            of a recorded case, as `_it(?P<iterations>\d+)`.
        implied: name of a recorded case to a function that gives the inputs it was recorded on
            but does not hold.
        runs_on: `GPU`, `GPU_ONLY` or `CPU`.
        order: "explicit" if the kernel writes its order of summation out.
        allows: numeric instructions beyond IEEE's that the kernel may use.
        equivalent: name of a mutant to the reason why it cannot be seen, and its check; faults of
            the compiled kernel after "kernel: ".
        unrounded: a launcher with the kernel's arguments that stores f32, before the last
            rounding; kernel and reference are then compared there too.
        exhaustive: domains over which kernel and reference are compared completely.
        batch: name of the size over which rows are independent; the first size if empty.
        variants: opt-in arithmetics.
        bench: benchmark cases.
    """

    kernel: Callable[..., Any]
    reference: str
    inputs: Inputs
    name: str = ""
    golden: tuple[str, ...] | str = ()
    baseline: str | None = None
    cases: Sequence[Mapping[str, Any]] = ()
    outputs: tuple[str, ...] = ("out",)
    mutates: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    case_pattern: str = ""
    implied: Mapping[str, Callable[[], Mapping[str, Any]]] = field(default_factory=dict)
    runs_on: str = GPU
    order: str = "explicit"
    allows: tuple[str, ...] = ()
    equivalent: Mapping[str, Equivalent] = field(default_factory=dict)
    unrounded: Callable[..., Any] | None = None
    exhaustive: Sequence[Exhaustive] = ()
    batch: str = ""
    variants: Sequence[Variant] = ()
    bench: Sequence[Bench] = ()

    def __post_init__(self) -> None:
        """Fill the name and refuse what cannot be checked."""
        object.__setattr__(self, "name", self.name or getattr(self.kernel, "__name__", ""))
        if isinstance(self.golden, str):
            object.__setattr__(self, "golden", (self.golden,))
        if not re.fullmatch(r"[A-Za-z_]\w*", self.name):
            raise ValueError(f"claim name {self.name!r}: an identifier is accepted")
        if self.runs_on not in (GPU, GPU_ONLY, CPU):
            raise ValueError(
                f"claim {self.name}: runs_on {self.runs_on!r} is none of {GPU}, {GPU_ONLY}, {CPU}"
            )
        if not re.fullmatch(r"[^:]+:[^:]+", self.reference):
            raise ValueError(
                f"claim {self.name}: reference {self.reference!r} is not file:function"
            )
        self._check_arguments()
        for bench in self.bench:
            self._check_bench(bench)

    def _check_bench(self, bench: Bench) -> None:
        """Refuse a benchmark case that does not fix all sizes, or depends on unknown ones."""
        inputs = bench.inputs or self.inputs
        parameters = {**inputs.parameters, **self.parameters}
        known = {"tokens", *inputs.sizes, *parameters}
        for name in inputs.sizes:
            if name not in bench.sizes:
                raise ValueError(f"claim {self.name}: bench {bench.name} gives no {name}")
            self._check_expression(bench, name, bench.sizes[name], {"tokens"})
        unknown = sorted(set(bench.sizes) - known - set(inputs.formats))
        if unknown:
            raise ValueError(f"claim {self.name}: bench {bench.name} gives unknown {unknown[0]!r}")
        for field_name, amount in bench.amounts():
            self._check_expression(bench, field_name, amount, known)

    def _check_expression(self, bench: Bench, what: str, dim: Dim, known: set[str]) -> None:
        unknown = sorted(dimensions.names(dim) - known)
        if unknown:
            raise ValueError(
                f"claim {self.name}: bench {bench.name}: {what} depends on {unknown[0]!r}; "
                f"known are {', '.join(sorted(known))}"
            )

    def _check_arguments(self) -> None:
        accepted = inspect.signature(self.kernel).parameters
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values()):
            return
        named = [*self.inputs.tensors, *self.inputs.parameters, *self.parameters, *self.mutates]
        named += [variant.name for variant in self.variants]
        named += re.compile(self.case_pattern).groupindex
        unknown = [name for name in named if name not in accepted]
        if unknown:
            raise ValueError(
                f"claim {self.name}: the kernel has no argument {unknown[0]!r}; "
                f"it has {', '.join(accepted)}"
            )

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the kernel returns, then what it mutates."""
        return (*self.outputs, *self.mutates.values())

    def case_parameters(self, case: str) -> dict[str, Any]:
        """Parameters of a recorded case: the claim's, then those in its name."""
        found = re.search(self.case_pattern, case) if self.case_pattern else None
        named = found.groupdict() if found else {}
        return {**self.parameters, **{k: _number(v) for k, v in named.items() if v is not None}}

    def variant(self, name: str) -> Variant:
        """The variant called `name`.

        Raises:
            KeyError: there is none.
        """
        for variant in self.variants:
            if variant.name == name:
                return variant
        known = ", ".join(variant.name for variant in self.variants) or "none"
        raise KeyError(f"claim {self.name} has no variant {name!r}; known are {known}")

    def call(
        self,
        arguments: Mapping[str, Any],
        variant: Variant | None = None,
        *,
        unrounded: bool = False,
    ) -> dict[str, Any]:
        """Run the kernel; named outputs, mutated arguments among them.

        Variants are said explicitly, so that the environment does not decide a check.

        Args:
            arguments: the keyword arguments.
            variant: the opt-in variant to switch on.
            unrounded: run the launcher that stores f32 before the last rounding instead.

        Raises:
            TypeError: the kernel returned something else than its outputs.
        """
        if unrounded and self.unrounded is not None:
            return _results(self.unrounded(**arguments), self.outputs, self.name)
        said = {v.name: v is variant for v in self.variants}
        return self.named(self.kernel(**arguments, **said), arguments)

    def named(self, result: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name: what a call returned, then the arguments that it mutated.

        Raises:
            TypeError: the call returned something else than the claim's outputs.
        """
        results = _results(result, self.outputs, self.name)
        return {**results, **{out: arguments[name] for name, out in self.mutates.items()}}


def _results(result: Any, names: tuple[str, ...], claim: str) -> dict[str, Any]:
    if not names:
        return {}
    items = result if isinstance(result, tuple) else (result,)
    if len(items) != len(names) or any(item is None for item in items):
        raise TypeError(
            f"claim {claim}: returned {len(items)} results ({type(result).__name__}), "
            f"expected {', '.join(names)}"
        )
    return dict(zip(names, items, strict=True))


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
