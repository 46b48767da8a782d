"""What the benchmark asks of a GPU: time between events, graphs of calls, an empty cache."""

from __future__ import annotations

import abc
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from exactness import environment
from exactness.claim import CPU, Claim
from exactness.errors import UsageError

Call = Callable[[], Any]

_ALLOCATIONS = "allocation.all.allocated"
"""Requests that torch's allocator has received, in its own statistics."""


class Graph(abc.ABC):
    """Calls that are issued as one.

    Attributes:
        results: what each call returned; a replay writes the same tensors again.
    """

    results: list[Any]

    @abc.abstractmethod
    def replay(self) -> None:
        """Issue all calls, and wait for nothing."""


class Device(abc.ABC):
    """A machine that can be timed.

    Attributes:
        name: for reports.
        place: the torch device of tensors.
        cache_bytes: size of the cache in front of its memory.
        peak_copy_bytes: a copy of as many bytes shows the bandwidth of the memory.
        peak_matrix_size: a product of square matrices of this size shows the arithmetic rate.
    """

    name: str
    place: str
    cache_bytes: int
    peak_copy_bytes: int = 1 << 31
    peak_matrix_size: int = 8192

    def clock(self) -> float:
        """Seconds on the host."""
        return time.perf_counter()

    @abc.abstractmethod
    def refuses(self, claim: Claim) -> str | None:
        """Why the claim's kernel cannot be timed here, or None if it can."""

    @abc.abstractmethod
    def free_bytes(self) -> int:
        """Memory that can still be allocated."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Wait for everything issued."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Issue something that leaves nothing useful in the cache."""

    @abc.abstractmethod
    def between_events(self, call: Call) -> tuple[float, Any]:
        """The µs between an event before the call and one behind it, and what the call returned."""

    @abc.abstractmethod
    def refuses_capture(self, call: Call) -> str | None:
        """Why the call cannot stand in a graph, or None if it can; runs it."""

    @abc.abstractmethod
    def capture(self, calls: Sequence[Call]) -> Graph:
        """The calls as a graph."""

    @abc.abstractmethod
    def trace(self, call: Call, calls: int) -> tuple[dict[str, Any], int]:
        """A trace of some calls in Chrome's format, and the allocations of device memory."""

    @abc.abstractmethod
    def empty_cache(self) -> None:
        """Give memory back that nothing uses."""


class _CudaGraph(Graph):
    def __init__(self, calls: Sequence[Call]) -> None:
        import torch

        # On a stream of its own once, so that what a first call allocates or compiles is there.
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream):
            self.results = [call() for call in calls]
        torch.cuda.synchronize()

    def replay(self) -> None:
        self._graph.replay()


class Cuda(Device):
    """The CUDA GPU of this machine."""

    place = "cuda"

    def __init__(self) -> None:
        found = environment.collect()
        if found.gpu is None:
            raise UsageError(
                "no CUDA GPU was found, and bench times kernels on one; --list-cases works without"
            )
        import torch

        self.name = found.gpu
        self.cache_bytes = int(torch.cuda.get_device_properties().L2_cache_size)
        self._scratch = torch.zeros(self.cache_bytes, dtype=torch.float32, device=self.place)
        event: Any = torch.cuda.Event
        self._events = tuple(event(enable_timing=True) for _ in range(2))

    def refuses(self, claim: Claim) -> str | None:
        """A callable on CPU tensors has no time on a GPU."""
        return "the kernel runs on CPU tensors" if claim.runs_on == CPU else None

    def free_bytes(self) -> int:
        """What the driver has left; memory that torch keeps cached is not counted."""
        import torch

        return int(torch.cuda.mem_get_info()[0])

    def synchronize(self) -> None:
        """Wait for every stream."""
        import torch

        torch.cuda.synchronize()

    def flush(self) -> None:
        """Read four times the L2 cache; what is written would still have to leave it later."""
        self._scratch.sum()

    def between_events(self, call: Call) -> tuple[float, Any]:
        """Events on the current stream."""
        start, end = self._events
        start.record()
        result = call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3, result

    def refuses_capture(self, call: Call) -> str | None:
        """A graph cannot hold a call that waits for the GPU, such as a copy of pageable memory."""
        import torch

        before = torch.cuda.get_sync_debug_mode()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch calls the mode a prototype
                torch.cuda.set_sync_debug_mode("error")
                call()
        except RuntimeError as error:
            return f"it waits for the GPU ({str(error).splitlines()[0]})"
        finally:
            torch.cuda.set_sync_debug_mode(before)
        return None

    def capture(self, calls: Sequence[Call]) -> Graph:
        """A CUDA graph with one node after the other."""
        return _CudaGraph(calls)

    def trace(self, call: Call, calls: int) -> tuple[dict[str, Any], int]:
        """By torch's profiler; its first trace in a process may lack events and is thrown away."""
        import torch

        self._profiled(call, 1)
        before = torch.cuda.memory_stats()[_ALLOCATIONS]
        trace = self._profiled(call, calls)
        return trace, torch.cuda.memory_stats()[_ALLOCATIONS] - before

    def _profiled(self, call: Call, calls: int) -> dict[str, Any]:
        from torch.profiler import ProfilerActivity, profile

        self.synchronize()
        both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about cycles of a schedule, of which there is none
            with profile(activities=both) as profiler:
                for _ in range(calls):
                    call()
                self.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            trace: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return trace

    def empty_cache(self) -> None:
        """Return cached blocks to the driver."""
        import torch

        torch.cuda.empty_cache()
