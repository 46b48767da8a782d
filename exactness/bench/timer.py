"""Three times of one call: between events, within a graph, and what the host spends on it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from exactness.bench.device import Call, Device, Graph


@dataclass(frozen=True)
class Timing:
    """Repeated measurements of the time of one call.

    Attributes:
        samples: in µs, in the order measured.
    """

    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse an empty measurement.

        Raises:
            ValueError: there is no sample.
        """
        if not self.samples:
            raise ValueError("samples: none; at least one is needed")

    @property
    def median(self) -> float:
        """The median, µs."""
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        """The shortest, µs."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """The middle half of the samples, relative to the median."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median if self.median else 0.0

    def to_dict(self) -> dict[str, float | int]:
        """Plain data, µs."""
        return {
            "median_us": self.median,
            "best_us": self.best,
            "worst_us": max(self.samples),
            "spread": self.spread,
            "samples": len(self.samples),
        }


def time_events(
    device: Device,
    call: Call,
    *,
    warmup: int,
    repeat: int,
    before: Call,
    after: Callable[[Any], None],
) -> tuple[Timing, Any]:
    """Events around one call on an idle GPU: mostly what the host needs to launch it.

    Args:
        device: the machine.
        call: what is timed.
        warmup: calls that are not counted.
        repeat: calls that are.
        before: run ahead of each call, outside of the time.
        after: given each result but the last, outside of the time.

    Returns:
        The times, and what the last timed call returned.
    """
    samples, result = [], None
    for number in range(warmup + repeat):
        before()
        device.synchronize()
        elapsed, result = device.between_events(call)
        if number >= warmup:
            samples.append(elapsed)
        if number < warmup + repeat - 1:
            after(result)
            result = None
    return Timing(tuple(samples)), result


def time_graph(
    device: Device, graph: Graph, calls: int, *, repeat: int, before: Call, ahead: Call
) -> Timing:
    """The GPU's own time of a call, within a graph.

    Args:
        device: the machine.
        graph: the graph.
        calls: how many it holds.
        repeat: replays that are counted; one more goes before them.
        before: run ahead of each replay, outside of the time.
        ahead: issued just before; while the GPU is busy with it, the host issues the replay, so
            that the time holds no wait for the host.
    """
    samples = []
    for _ in range(repeat + 1):
        before()
        device.synchronize()
        ahead()
        elapsed, _ = device.between_events(graph.replay)
        samples.append(elapsed / calls)
    return Timing(tuple(samples[1:]))


def time_host(device: Device, call: Call, *, repeat: int, issued: int) -> Timing:
    """What the host spends on issuing a call, waiting for nothing.

    Args:
        device: the machine.
        call: what is issued.
        repeat: how often it is measured.
        issued: calls in one measurement.
    """
    samples = []
    for _ in range(repeat):
        device.synchronize()
        start = device.clock()
        for _ in range(issued):
            call()
        samples.append((device.clock() - start) * 1e6 / issued)
    device.synchronize()
    return Timing(tuple(samples))
