"""`triton.autotune` on the virtual Hopper: repeatable, contained, and every configuration alone."""

import pytest

from exactness.virtual import configurations, hopper
from exactness.virtual.autotuning import pseudo_time

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

CONFIGS = [
    triton.Config({"BLOCK": block}, num_warps=warps) for block in (64, 128) for warps in (1, 2)
]


@triton.autotune(CONFIGS, key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def _fill_kernel(out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + index, 1.0)
    else:
        tl.store(out_ptr + index, 1.0, mask=index < n)


@triton.heuristics({"FIRST": lambda args: True})
@triton.autotune(CONFIGS[:2], key=["n"])
@triton.jit
def _wrapped_kernel(out_ptr, n, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, 1.0, mask=index < n)


@triton.jit
def _plain_kernel(out_ptr):
    tl.store(out_ptr, 1.0)


def fill(n: int = 100):
    out = torch.zeros(n)
    _fill_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, n)
    return out


def test_tuning_runs_every_configuration_and_then_the_chosen_one():
    with hopper() as machine:
        assert fill().eq(1).all()
        fill()
    shapes = [(launch.grid[0], launch.num_warps) for launch in machine.launches]
    assert shapes[:4] == [(2, 1), (2, 2), (1, 1), (1, 2)]
    assert len(set(shapes[4:])) == 1
    assert len(shapes) == 6


def test_the_choice_is_the_one_with_the_fewest_instructions_every_time():
    chosen = []
    for _ in range(2):
        with hopper() as machine:
            fill()
        tuned, last = machine.launches[:4], machine.launches[4]
        fewest = min(sum(launch.counts.values()) for launch in tuned)
        assert sum(last.counts.values()) == fewest
        chosen.append((last.grid, last.num_warps))
    assert chosen[0] == chosen[1]


def test_choices_stay_inside_the_block(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_fill_kernel, "cache_results", True, raising=False)
    with hopper():
        fill()
    assert _fill_kernel.cache == {}
    assert _fill_kernel.cache_results is True


@pytest.mark.parametrize("n", [64, 100])
def test_each_configuration_by_itself(n: int):
    seen = {}
    for configuration in configurations(_fill_kernel):
        with hopper() as machine, configuration:
            assert fill(n).eq(1).all()
        (launch,) = machine.launches
        seen[str(configuration)] = (launch.grid[0], launch.num_warps)
    assert seen == {
        f"BLOCK={block}-num_warps={warps}-num_stages=3": (triton.cdiv(n, block), warps)
        for block in (64, 128)
        for warps in (1, 2)
    }
    assert len(_fill_kernel.configs) == 4


def test_the_innermost_block_names_the_tuned_kernels():
    with hopper() as outer, hopper() as inner:
        fill()
        fill(64)
        _plain_kernel[(1,)](torch.zeros(1))
    assert inner.tuned == [_fill_kernel]
    assert outer.tuned == []


def test_configurations_are_found_below_heuristics():
    assert [c.config.num_warps for c in configurations(_wrapped_kernel)] == [1, 2]


def test_a_kernel_without_configurations_has_none():
    assert configurations(_plain_kernel) == ()


def test_configurations_of_something_else():
    with pytest.raises(TypeError, match="kernel is a function; a Triton kernel is accepted"):
        configurations(fill)


def test_do_bench_reads_the_same_clock():
    from triton.testing import do_bench

    out = torch.zeros(1)
    with hopper() as machine:
        time = do_bench(lambda: _plain_kernel[(1,)](out))
    assert time == sum(machine.launches[0].counts.values())


def test_pseudo_time_is_what_the_clock_moved_on():
    clock = iter([10, 17])
    calls = []
    assert pseudo_time(lambda: calls.append(1), lambda: next(clock), (0.5, 0.2)) == [7.0, 7.0]
    assert calls == [1]
    clock = iter([10, 17])
    assert pseudo_time(lambda: None, lambda: next(clock)) == 7.0
