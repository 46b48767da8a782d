"""`triton.autotune` on the virtual Hopper: a pseudo-time, and every configuration by itself.

There is no time to measure, but tuning must work and must be repeatable: the "time" of a
configuration is the number of instructions it executed. Choices made this way stay inside the
`with` block: they are neither left in the tuner nor written to Triton's disk cache, where a GPU
would find them.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Clock = Callable[[], int]


class Configuration:
    """One configuration of an autotuned kernel.

    As a context manager it pins the kernel to this configuration, wherever it is launched from:

        for configuration in configurations(_kernel):
            with hopper(), configuration:
                run(x)

    Attributes:
        kernel: the `triton.runtime.Autotuner`.
        config: the `triton.Config`.
    """

    def __init__(self, kernel: Any, config: Any) -> None:
        """Keep both; nothing changes until the block is entered."""
        self.kernel = kernel
        self.config = config
        self._saved: list[Any] = []

    def __enter__(self) -> Configuration:
        """Leave the kernel this configuration only, which Triton then takes without tuning."""
        self._saved.append(self.kernel.configs)
        self.kernel.configs = [self.config]
        return self

    def __exit__(self, *_: object) -> None:
        """Give the kernel its configurations back."""
        self.kernel.configs = self._saved.pop()

    def __str__(self) -> str:
        """`BLOCK=128-num_warps=4-num_stages=3`, for test ids."""
        values = {**self.config.kwargs, **self._options()}
        return "-".join(f"{name}={value}" for name, value in values.items())

    def __repr__(self) -> str:
        """The name, with the class."""
        return f"Configuration({self})"

    def _options(self) -> dict[str, Any]:
        named = ("num_warps", "num_stages", "num_ctas", "maxnreg")
        found = {name: getattr(self.config, name, None) for name in named}
        return {n: v for n, v in found.items() if v is not None and (n, v) != ("num_ctas", 1)}


def configurations(kernel: Any) -> tuple[Configuration, ...]:
    """Every configuration of an autotuned kernel.

    Args:
        kernel: a kernel decorated with `triton.autotune`, with `triton.heuristics` above or below
            or without; a kernel without configurations gives an empty tuple.

    Returns:
        One context manager for each configuration, in the order of the decorator. Pruning does not
        apply: it depends on the arguments, and a pruned configuration must have the right bits too.

    Raises:
        TypeError: `kernel` is no Triton kernel.
    """
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction, KernelInterface

    inner = kernel
    while isinstance(inner, KernelInterface) and not isinstance(inner, JITFunction):
        if isinstance(inner, Autotuner):
            return tuple(Configuration(inner, config) for config in inner.configs)
        inner = inner.fn
    if not isinstance(inner, JITFunction):
        raise TypeError(f"kernel is a {type(kernel).__name__}; a Triton kernel is accepted")
    return ()


def pseudo_time(
    call: Callable[[], Any], clock: Clock, quantiles: Sequence[float] | None = None
) -> float | list[float]:
    """Run `call` once; its time is what `clock` moved on, the same at every quantile."""
    before = clock()
    call()
    elapsed = float(clock() - before)
    return elapsed if quantiles is None else [elapsed] * len(quantiles)


class PseudoEvents:
    """What `triton.testing.do_bench` needs of a device, on the same clock in milliseconds."""

    def __init__(self, clock: Clock) -> None:
        """Events that read `clock`."""
        self._clock = clock

    def synchronize(self, device: object = None) -> None:
        """Nothing is ever pending."""

    def Event(self, enable_timing: bool = False) -> _PseudoEvent:
        """A new event."""
        return _PseudoEvent(self._clock)


class _PseudoEvent:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.time = 0

    def record(self, stream: object = None) -> None:
        self.time = self._clock()

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def elapsed_time(self, end: _PseudoEvent) -> float:
        return float(end.time - self.time)


@contextlib.contextmanager
def isolated_tuning(note: Callable[[Any], None]) -> Iterator[None]:
    """Keep what tuners choose inside the block.

    Args:
        note: told of every `triton.runtime.Autotuner` that is launched.
    """
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.run
    caches: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(self)
        saved = self.cache, getattr(self, "cache_results", False)
        self.cache, self.cache_results = caches.setdefault(self, {}), False
        try:
            return original(self, *args, **kwargs)
        finally:
            self.cache, self.cache_results = saved

    Autotuner.run = run
    try:
        yield
    finally:
        Autotuner.run = original
