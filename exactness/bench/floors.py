"""What no kernel can beat: an empty launch, a copy of as many bytes, the machine's two ceilings."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from exactness.bench.device import Call, Device
from exactness.bench.measure import GRAPH_CALLS, Effort
from exactness.bench.model import GIVEN, MEASURED, Peaks
from exactness.bench.timer import Timing, time_events, time_graph

PEAK_REPEATS = 10


@dataclass(frozen=True)
class Copy:
    """The time of a copy: on memory that no cache holds, and on the same memory again."""

    graph: Timing
    warm: Timing

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"graph": self.graph.to_dict(), "graph_warm": self.warm.to_dict()}


class Floors:
    """Floors of one machine; each copy is measured once."""

    def __init__(self, device: Device, effort: Effort) -> None:
        self._device, self._effort = device, effort
        self._copies: dict[int, Copy] = {}

    @functools.cached_property
    def empty(self) -> Timing:
        """A launch that writes one element."""
        import torch

        element = torch.empty(1, device=self._device.place)
        call = functools.partial(element.fill_, 1.0)
        return self._in_graph([call] * GRAPH_CALLS, warm=True)

    def copy(self, moved: int, buffers: int) -> Copy:
        """A copy that reads half of `moved` bytes and writes them, the quicker of two ways.

        Args:
            moved: bytes read plus bytes written.
            buffers: how many sources and targets take turns.
        """
        if moved not in self._copies:
            ways = ("copy_", "bitwise_not")
            found = [self._copy(way, max(moved // 2, 1), buffers) for way in ways]
            self._copies[moved] = Copy(
                min((each.graph for each in found), key=lambda timing: timing.median),
                min((each.warm for each in found), key=lambda timing: timing.median),
            )
            self._device.empty_cache()
        return self._copies[moved]

    def _copy(self, way: str, size: int, buffers: int) -> Copy:
        """`copy_` may be left to the driver; `bitwise_not` is an elementwise kernel."""
        import torch

        place = self._device.place
        count = -(-size // 16) * 4  # whole vectors of 16 bytes
        pairs = [
            tuple(torch.ones(count, dtype=torch.int32, device=place) for _ in range(2))
            for _ in range(buffers)
        ]
        calls: list[Call] = [
            functools.partial(target.copy_, source)
            if way == "copy_"
            else functools.partial(torch.bitwise_not, source, out=target)
            for source, target in pairs
        ]
        return Copy(
            self._in_graph(calls, warm=False), self._in_graph([calls[0]] * buffers, warm=True)
        )

    def _in_graph(self, calls: list[Call], *, warm: bool) -> Timing:
        graph = self._device.capture(calls)
        ahead = graph.replay if warm else self._device.flush
        return time_graph(
            self._device,
            graph,
            len(calls),
            repeat=self._effort.repeat,
            before=lambda: None,
            ahead=ahead,
        )


def peaks(device: Device, bandwidth_gbs: float | None, bf16_tflops: float | None) -> Peaks:
    """The ceilings: as given, else measured.

    Args:
        device: the machine.
        bandwidth_gbs: memory bandwidth, 10^9 bytes a second, or None.
        bf16_tflops: bf16 matrix rate, 10^12 operations a second, or None.
    """
    return Peaks(
        measured_bandwidth(device) if bandwidth_gbs is None else bandwidth_gbs,
        measured_tflops(device) if bf16_tflops is None else bf16_tflops,
        MEASURED if bandwidth_gbs is None else GIVEN,
        MEASURED if bf16_tflops is None else GIVEN,
    )


def measured_bandwidth(device: Device) -> float:
    """A large copy: bytes read plus bytes written, 10^9 a second."""
    import torch

    size = device.peak_copy_bytes
    source = torch.ones(size, dtype=torch.uint8, device=device.place)
    target = torch.empty_like(source)
    timing = _timed(device, functools.partial(target.copy_, source))
    del source, target
    device.empty_cache()
    return 2 * size / timing.median / 1e3


def measured_tflops(device: Device) -> float:
    """A large bf16 product of random matrices, 10^12 operations a second."""
    import torch

    n = device.peak_matrix_size
    a, b = (torch.randn(n, n, device=device.place).to(torch.bfloat16) for _ in range(2))
    timing = _timed(device, functools.partial(torch.matmul, a, b))
    device.empty_cache()
    return 2 * n**3 / timing.median / 1e6


def _timed(device: Device, call: Call) -> Timing:
    timing, _ = time_events(
        device, call, warmup=3, repeat=PEAK_REPEATS, before=lambda: None, after=lambda _: None
    )
    return timing
