"""Time one thing (a kernel, or what it is compared with) and check the bits of what was timed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exactness.bench.bitcheck import BitCheck, poison
from exactness.bench.buffers import ArgumentSet
from exactness.bench.device import Call, Device, Graph
from exactness.bench.timer import Timing, time_events, time_graph, time_host
from exactness.claim import Claim
from exactness.machines import poisoned_memory

GRAPH_CALLS = 20
"""Calls in a graph, where memory allows as many sets of arguments."""


@dataclass(frozen=True)
class Effort:
    """How often things are timed.

    Attributes:
        warmup: calls before the first that counts.
        repeat: calls between events, and replays of a graph, that count.
        issued: calls issued in one go when the host is timed; far below what a stream can queue.
        issues: how often that is done.
    """

    warmup: int = 25
    repeat: int = 100
    issued: int = 100
    issues: int = 15


@dataclass(frozen=True)
class Subject:
    """Something that is timed.

    Attributes:
        name: "kernel", or the name of a comparator.
        claim: names the outputs.
        run: takes the arguments of the claim's kernel by keyword.
    """

    name: str
    claim: Claim
    run: Callable[..., Any]

    @classmethod
    def kernel(cls, claim: Claim) -> Subject:
        """The claim's kernel; variants are switched off, whatever the environment says."""
        said = {variant.name: False for variant in claim.variants}
        return cls("kernel", claim, functools.partial(claim.kernel, **said))

    def call(self, arguments: Mapping[str, Any]) -> Call:
        """One call, without the claim's bookkeeping; by position, which costs the host less."""
        bound = inspect.signature(self.run).bind(**arguments)
        return functools.partial(self.run, *bound.args, **bound.kwargs)

    def outputs(self, result: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Named outputs of a call."""
        return self.claim.named(result, arguments)

    def returned(self, result: Any) -> dict[str, Any]:
        """The outputs that a call allocated itself."""
        everything = self.claim.named(result, dict.fromkeys(self.claim.mutates))
        return {name: everything[name] for name in self.claim.outputs}


@dataclass(frozen=True)
class Measurement:
    """The times of one subject in one case, and its bits.

    Attributes:
        event: between events around one call.
        host: what the host spends on issuing one.
        graph: one call of a graph, on arguments that no cache holds; None without a graph.
        warm: one call of a graph in which all calls have the same arguments.
        bits: what was compared.
        calls: calls of a graph, each with arguments of its own.
        no_graph: why there is no graph.
    """

    event: Timing
    host: Timing
    graph: Timing | None
    warm: Timing | None
    bits: BitCheck = field(default_factory=BitCheck)
    calls: int = 0
    no_graph: str = ""

    @property
    def best_known(self) -> Timing:
        """The GPU's own time of a call, or the time between events where there is no graph."""
        return self.event if self.graph is None else self.graph

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "event": self.event.to_dict(),
            "graph": self.graph and self.graph.to_dict(),
            "graph_warm": self.warm and self.warm.to_dict(),
            "host": self.host.to_dict(),
            "graph_calls": self.calls,
            "no_graph": self.no_graph,
            "bits": self.bits.to_dict(),
        }


def measure(
    device: Device, subject: Subject, sets: Sequence[ArgumentSet], effort: Effort
) -> Measurement:
    """Time a subject in three ways, comparing outputs with the reference before, between and after.

    Args:
        device: the machine.
        subject: what is timed.
        sets: arguments of different values.
        effort: how often.
    """
    bits, first = BitCheck(), sets[0]
    _check_fresh(device, subject, first, bits, "before timing")
    call = subject.call(first.arguments)
    event, result = time_events(
        device,
        call,
        warmup=effort.warmup,
        repeat=effort.repeat,
        before=first.restore,
        after=lambda result: poison(subject.returned(result)),
    )
    bits.add("last timed call", subject.outputs(result, first.arguments), first.expected)
    del result
    host = time_host(device, call, repeat=effort.issues, issued=effort.issued)
    first.restore()
    no_graph = device.refuses_capture(call) or ""
    cold = warm = None
    if not no_graph:
        cold = _rotating(device, subject, sets, effort, bits)
        warm = _warm(device, call, first, len(sets), effort)
    _check_fresh(device, subject, sets[-1], bits, "after timing")
    return Measurement(event, host, cold, warm, bits, len(sets), no_graph)


def _check_fresh(
    device: Device, subject: Subject, given: ArgumentSet, bits: BitCheck, when: str
) -> None:
    """One call on restored arguments and poisoned memory."""
    given.restore()
    with poisoned_memory():
        result = subject.call(given.arguments)()
    device.synchronize()
    bits.add(when, subject.outputs(result, given.arguments), given.expected)


def _rotating(
    device: Device,
    subject: Subject,
    sets: Sequence[ArgumentSet],
    effort: Effort,
    bits: BitCheck,
) -> Timing:
    """A graph in which each call has arguments of its own, and the cache is emptied before it."""
    graph = device.capture([subject.call(each.arguments) for each in sets])

    def restore() -> None:
        for each in sets:
            each.restore()

    timing = time_graph(
        device, graph, len(sets), repeat=effort.repeat, before=restore, ahead=device.flush
    )
    _check_graph(subject, graph, sets, bits, "last timed replay")
    restore()
    for result in graph.results:
        poison(subject.returned(result))
    graph.replay()
    device.synchronize()
    _check_graph(subject, graph, sets, bits, "replay after timing")
    return timing


def _check_graph(
    subject: Subject, graph: Graph, sets: Sequence[ArgumentSet], bits: BitCheck, when: str
) -> None:
    for number, (result, each) in enumerate(zip(graph.results, sets, strict=True)):
        outputs = subject.outputs(result, each.arguments)
        bits.add(f"{when}, call {number}", outputs, each.expected)


def _warm(device: Device, call: Call, first: ArgumentSet, calls: int, effort: Effort) -> Timing:
    """A graph in which all calls have the same arguments: what they read is in the cache."""
    graph = device.capture([call] * calls)
    return time_graph(
        device, graph, calls, repeat=effort.repeat, before=first.restore, ahead=graph.replay
    )
