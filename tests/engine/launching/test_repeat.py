"""When a launch is repeated, and when Triton must launch: drivers, devices, hooks, scratch."""

import itertools

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.runtime import driver

from exactness import virtual
from exactness.launching import Launch, Part, launcher


@triton.jit
def _double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=index < n) * 2, mask=index < n)


def doubling(kernel, **keywords):
    """A launcher of a kernel with the parameters of `_double_kernel`, and its plan's runs."""
    runs = []

    @launcher
    def double(x: torch.Tensor) -> Launch[torch.Tensor]:
        runs.append(x.shape)
        out = torch.empty(x.shape, dtype=x.dtype)
        grid = (triton.cdiv(x.numel(), 64),)
        return Launch(out, kernel, grid, x, out, x.numel(), **keywords)

    return runs, double


@pytest.fixture
def double():
    """Runs of the plan, and the launcher."""
    return doubling(_double_kernel, BLOCK=64)


def entered(gpu):
    """How often Triton's own launcher was called for `_double_kernel`."""
    cache = _double_kernel.device_caches[gpu.device][0]
    return sum(kernel.run.entered for kernel in cache.values())


X = torch.arange(100.0)


def test_a_repeated_launch_skips_triton_s_launcher(gpu, cuda, double):
    _, launch = double
    launch(X)
    before = entered(gpu)
    cuda.layouts[gpu.launches[0].function] = [(0, 8), (8, 8), (16, 4), (24, 8), (32, 8)]
    _, launch = doubling(_double_kernel, BLOCK=64)
    gpu.stream = 0x77
    launch(X)
    out = launch(X)
    assert entered(gpu) == before + 1
    (launched,) = cuda.launched
    assert launched.function == gpu.launches[0].function
    assert launched.grid == (2, 1, 1)
    assert launched.stream == 0x77
    addresses = [at.to_bytes(8, "little") for at in (X.data_ptr(), out.data_ptr(), 0, 0)]
    assert launched.params == [*addresses[:2], (100).to_bytes(4, "little"), *addresses[2:]]


def test_a_launch_in_place_is_repeated(gpu, cuda):
    @launcher
    def doubled(x: torch.Tensor) -> Launch[None]:
        return Launch(None, _double_kernel, (2,), x, Part(x, x[4:]), 96, BLOCK=64)

    doubled(X)
    cuda.layouts[gpu.launches[0].function] = [(0, 8), (8, 8), (16, 4), (24, 8), (32, 8)]
    doubled.__globals__["calls"].clear()
    doubled.__globals__["last"] = None, None, None
    for _ in range(3):
        assert doubled(X) is None
    assert len(cuda.launched) == 2
    at = (X.data_ptr(), X.data_ptr() + 16)
    assert cuda.launched[1].params[:2] == [each.to_bytes(8, "little") for each in at]


def test_the_stream_is_asked_for_in_each_call(gpu, double):
    for gpu.stream in (5, 6, 0):
        double[1](X)
    assert [launched.stream for launched in gpu.launches] == [5, 6, 0]


def test_another_driver_gets_its_own_launches(gpu, double):
    _, launch = double
    launch(X)
    for _ in range(2):
        with virtual.hopper() as machine:
            assert torch.equal(launch(X), 2 * X)
            assert torch.equal(launch(X), 2 * X)
        assert len(machine.launches) == 2
        launch(X)
    driver.set_active(another := type(gpu)())
    launch(X)
    assert len(gpu.launches) == 3
    assert len(another.launches) == 1


def test_an_edited_kernel_is_executed_as_edited(gpu, double):
    _, launch = double
    launch(X)
    with virtual.hopper():
        launch(X)
    with virtual.hopper(edit=lambda text, _: text.replace("0f40000000", "0f40400000")) as machine:
        assert not torch.equal(launch(X), 2 * X) or "0f40000000" not in machine.launches[0].ptx
    with virtual.hopper(options={"num_warps": 2}) as machine:
        launch(X)
    assert machine.launches[0].num_warps == 2


def test_triton_says_that_there_is_no_driver_or_that_cuda_has_no_cpu_tensors(double):
    with pytest.raises((RuntimeError, ValueError), match=r"0 active drivers|cpu tensor"):
        double[1](X)


@pytest.mark.parametrize("chain", ["launch_enter_hook", "launch_exit_hook"])
def test_launch_hooks_see_every_launch(gpu, double, chain):
    _, launch = double
    seen = []
    launch(X)

    def hook(metadata):
        seen.append(metadata.get()["name"])

    getattr(knobs.runtime, chain).add(hook)
    try:
        launch(X)
        launch(X)
    finally:
        getattr(knobs.runtime, chain).remove(hook)
    launch(X)
    assert seen == ["_double_kernel"] * 2
    assert len(gpu.launches) == 4


def test_hooks_of_a_kernel_see_every_launch(gpu, double):
    _, launch = double
    launch(X)
    seen = []
    _double_kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(args[2]))
    try:
        launch(X)
        launch(X)
    finally:
        _double_kernel.pre_run_hooks.clear()
    launch(X)
    assert seen == [100, 100]


def test_options_that_triton_takes_from_its_knobs_are_in_the_signature(gpu, double):
    runs, launch = double
    launch(X)
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        launch(X)
    launch(X)
    assert len(runs) == 2


def test_on_a_machine_with_several_gpus_the_device_is_looked_at(gpu, double, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    runs, launch = double
    launch(X)
    launch(X)
    assert len(runs) == 1
    gpu.device, old = gpu.device + 1, gpu.device
    launch(X)
    launch(X)
    assert _double_kernel.device_caches[gpu.device][0]
    gpu.device = old
    launch(X)
    assert len(gpu.launches) == 5


def test_an_output_at_an_odd_address_is_not_taken_for_an_aligned_one(gpu, monkeypatch):
    starts = itertools.cycle((0, 0, 1))

    def empty_strided(shape, stride, dtype):
        start = next(starts)
        return torch.zeros(200)[start : start + shape[0]]

    monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cpu", empty_strided)
    runs, launch = doubling(_double_kernel, BLOCK=64)
    for _ in range(6):
        assert launch(X).data_ptr() % 16 == 0
    assert len(gpu.launches) == 6
    assert len(runs) == 3


def test_torch_without_the_short_allocation(gpu, double, monkeypatch):
    monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cpu")
    runs, launch = double
    assert [launch(X).shape for _ in range(3)] == [X.shape] * 3
    assert len(runs) == 1


def test_a_kernel_with_scratch_memory_is_launched_by_triton_s_launcher(gpu):
    original = gpu.launcher_cls

    class WithScratch(original):
        def __init__(self, src, metadata):
            super().__init__(src, metadata)
            self.global_scratch_size = 64

    gpu.launcher_cls = WithScratch
    _, launch = doubling(_double_kernel, BLOCK=64)
    launch(X)
    launch(X)
    assert entered(gpu) == 2
    assert gpu.launches[0].function == gpu.launches[1].function


def test_autotuned_kernels_are_tuned_and_launched(gpu):
    tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], ["n"])
    runs, launch = doubling(tuned(_double_kernel))
    launch(X)
    tuning = len(gpu.launches)
    launch(X)
    assert len(gpu.launches) == tuning + 1
    assert len(runs) == 2


def test_interpreted_kernels_run():
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        interpreted = triton.jit(_double_kernel.fn)
        _, launch = doubling(interpreted, BLOCK=64)
        assert torch.equal(launch(X), 2 * X)
        assert torch.equal(launch(X + 1), 2 * X + 2)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_compiled_function_may_call_a_launcher(gpu, double):
    _, launch = double
    compiled = torch.compile(lambda x: launch(x + 1).shape, backend="eager")
    shapes = [(100,), (100,), (64,), (65,), (64,)]
    assert [compiled(torch.zeros(shape)) for shape in shapes] == shapes
    assert [launched.arguments[2] for launched in gpu.launches] == [n for (n,) in shapes]
