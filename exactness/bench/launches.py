"""What a call makes the GPU do: launches, allocations, copies from the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from exactness.bench.device import Call, Device

CALLS = 5
"""Calls in one trace; every count must be a multiple of it."""


@dataclass(frozen=True)
class Accounting:
    """What one call issues; None where it could not be counted.

    Attributes:
        launches: kernel launches.
        allocations: requests to torch's allocator of device memory.
        uploads: copies from the host to the device.
        upload_bytes: their bytes.
        other_copies: copies within the device, and memory that is set.
        reason: why something was not counted.
    """

    launches: float | None
    allocations: float
    uploads: float | None = None
    upload_bytes: float | None = None
    other_copies: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def account(device: Device, call: Call) -> Accounting:
    """Trace some calls and count what one of them issued."""
    call()
    trace, allocations = device.trace(call, CALLS)
    return counted(trace, allocations, CALLS)


def counted(trace: Mapping[str, Any], allocations: int, calls: int) -> Accounting:
    """Count in a trace of torch's profiler, in Chrome's format.

    Args:
        trace: the trace as JSON data.
        allocations: requests for device memory while it was taken.
        calls: how many calls it holds.
    """
    events = list(_device_events(trace))
    per_call = allocations / calls
    if not events:
        return Accounting(None, per_call, reason="the profiler recorded no activity of the GPU")
    uploads = [event for event in events if "HtoD" in event["name"]]
    launches = [event for event in events if event["cat"] == "kernel"]
    return Accounting(
        launches=len(launches) / calls,
        allocations=per_call,
        uploads=len(uploads) / calls,
        upload_bytes=sum(event.get("args", {}).get("bytes", 0) for event in uploads) / calls,
        other_copies=(len(events) - len(uploads) - len(launches)) / calls,
    )


def _device_events(trace: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for event in trace.get("traceEvents", ()):
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            yield event
