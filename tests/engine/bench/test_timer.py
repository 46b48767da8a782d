"""What is inside a measured time, and what stays outside."""

import pytest

from exactness.bench.timer import Timing, time_events, time_graph, time_host


def test_timing_of_one_sample():
    timing = Timing((3.0,))
    assert (timing.median, timing.best, timing.spread) == (3.0, 3.0, 0.0)


def test_timing_of_several_samples():
    timing = Timing((4.0, 1.0, 2.0, 3.0, 5.0))
    assert (timing.median, timing.best) == (3.0, 1.0)
    assert timing.spread == pytest.approx(2.0 / 3.0)
    assert timing.to_dict() == {
        "median_us": 3.0,
        "best_us": 1.0,
        "worst_us": 5.0,
        "spread": timing.spread,
        "samples": 5,
    }


def test_timing_of_nothing_is_refused():
    with pytest.raises(ValueError, match="samples"):
        Timing(())


def watched(gpu, log):
    """The device, noting the order of what happens on it."""
    inner = gpu.between_events

    def between_events(call):
        log.append("start")
        found = inner(call)
        log.append("end")
        return found

    gpu.between_events = between_events
    gpu.synchronize = lambda: log.append("wait")
    return gpu


def test_events_enclose_the_call_alone(gpu):
    log = []
    timing, result = time_events(
        watched(gpu, log),
        lambda: log.append("call") or len(log),
        warmup=1,
        repeat=2,
        before=lambda: log.append("restore"),
        after=lambda _: log.append("poison"),
    )
    one = ["restore", "wait", "start", "call", "end"]
    assert log == [*one, "poison", *one, "poison", *one]
    assert timing.samples == (10.0, 10.0)
    assert result == len(log) - 1


def test_a_replay_follows_what_keeps_the_gpu_busy(gpu):
    log = []
    graph = gpu.capture([lambda: None] * 4)
    timing = time_graph(
        watched(gpu, log),
        graph,
        4,
        repeat=1,
        before=lambda: log.append("restore"),
        ahead=lambda: log.append("flush"),
    )
    assert log == ["restore", "wait", "flush", "start", "end"] * 2
    assert timing.samples == (2.0,)


def test_the_host_issues_without_waiting(gpu):
    log = []
    timing = time_host(watched(gpu, log), lambda: log.append("call"), repeat=2, issued=3)
    assert log == [*["wait", "call", "call", "call"] * 2, "wait"]
    assert timing.samples == pytest.approx((100.0 / 3,) * 2)
