"""Triton's own launch path on CPU tensors: arguments, grids, tuning, and what is refused."""

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.virtual import VirtualHopperError, hopper
from exactness.virtual.arguments import STORAGE_SPACING, Argument, ArgumentMemory, pack_one
from exactness.virtual.errors import LaunchError, OutOfBoundsError, UnsupportedInstructionError
from exactness.virtual.memory import GlobalMemory

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def _scale_kernel(x_ptr, out_ptr, n, factor, shift, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n)
    if shift is not None:
        x = x + shift[0] + shift[1]
    tl.store(out_ptr + index, x * factor, mask=index < n)


def scale(x, factor=2.0, shift=None, block=64, **options):
    out = torch.full_like(x, float("nan"))
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)  # noqa: E731
    _scale_kernel[grid](x, out, x.numel(), factor, shift, BLOCK=block, **options)
    return out


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
def test_a_launch_computes_and_is_recorded(num_warps: int):
    x = torch.arange(100, dtype=torch.float32)
    with hopper() as machine:
        out = scale(x, 2.5, num_warps=num_warps)
    assert torch.equal(out, x * 2.5)
    (launch,) = machine.launches
    assert (launch.kernel, launch.grid, launch.num_warps) == ("_scale_kernel", (2, 1, 1), num_warps)
    assert launch.counts["st.global.b32"] > 0
    assert machine.counts == launch.counts
    assert machine.instructions == sum(launch.counts.values())


@settings(max_examples=25, deadline=None)
@given(size=st.integers(0, 300), offset=st.integers(0, 5), factor=st.sampled_from([1, 2, 0.5, -3]))
def test_any_size_offset_and_scalar(size: int, offset: int, factor: float):
    x = torch.arange(size + offset, dtype=torch.float32)[offset:]
    with hopper() as machine:
        out = scale(x, factor)
    assert torch.equal(out, x * factor)
    assert len(machine.launches) == (size > 0)


def test_tuples_none_and_integers_become_the_right_parameters():
    x = torch.arange(10, dtype=torch.float32)
    with hopper():
        assert torch.equal(scale(x, 3, shift=(1, 0.5)), (x + 1.5) * 3)
        assert torch.equal(scale(x, True, shift=None), x)


@triton.jit
def _sum_pair_kernel(pair, out_ptr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.load(pair[0] + index) + tl.load(pair[1] + index))


def test_tensors_in_a_tuple():
    x, y, out = torch.ones(32), torch.arange(32.0), torch.empty(32)
    with hopper():
        _sum_pair_kernel[(1,)]((x, y), out, BLOCK=32)
    assert torch.equal(out, x + y)


@triton.jit
def _columns_kernel(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + column, mask=column < n)
    tl.store(out_ptr + row * n + column, x, mask=column < n)


def test_strided_views_reach_from_their_first_to_their_last_element():
    base = torch.arange(60.0).reshape(6, 10)
    view, out = base[1:5, 2:7], torch.empty(4, 5)
    with hopper() as machine:
        _columns_kernel[(4,)](view, out, view.stride(0), 5, BLOCK=8)
        assert torch.equal(out, view)
        with pytest.raises(OutOfBoundsError, match="x_ptr") as caught:
            _columns_kernel[(5,)](view, torch.empty(5, 5), view.stride(0), 5, BLOCK=8)
    assert "_columns_kernel" in str(caught.value)
    assert "test_driver.py" in str(caught.value)
    assert len(machine.launches) == 1


def test_views_of_one_storage_may_overlap():
    base = torch.arange(64.0)
    with hopper():
        _scale_kernel[(1,)](base[:48], base[16:], 48, 1.0, None, BLOCK=64)
    assert torch.equal(base[16:], torch.arange(48.0))


def test_a_reinterpreted_tensor_is_its_own_memory():
    x, out = torch.arange(32, dtype=torch.int32), torch.empty(32)
    with hopper():
        _scale_kernel[(1,)](triton.reinterpret(x, tl.float32), out, 32, 1.0, None, BLOCK=32)
    assert torch.equal(out.view(torch.int32), x)


@triton.jit
def _copy_tile_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    index = (tl.program_id(2) * 3 + tl.program_id(1)) * 2 + tl.program_id(0)
    lanes = index * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))


def test_three_dimensional_grids():
    x, out = torch.arange(2 * 3 * 4 * 16), torch.empty(2 * 3 * 4 * 16, dtype=torch.int64)
    with hopper() as machine:
        _copy_tile_kernel[(2, 3, 4)](x, out, BLOCK=16)
    assert torch.equal(x, out)
    assert machine.launches[0].grid == (2, 3, 4)


def test_empty_grids_launch_nothing():
    with hopper() as machine:
        _copy_tile_kernel[(0,)](torch.ones(1), torch.ones(1), BLOCK=16)
    assert machine.launches == []


@pytest.mark.parametrize("grid", [(1, 65536), (1, 1, 65536), (-1,)])
def test_grids_beyond_cuda_are_refused(grid: tuple[int, ...]):
    with hopper(), pytest.raises(LaunchError, match=r"grid [xyz] is .* is accepted"):
        _copy_tile_kernel[grid](torch.ones(1), torch.ones(1), BLOCK=16)


def test_blocks_nest_and_the_innermost_records():
    x = torch.ones(8)
    with hopper() as outer:
        scale(x)
        with hopper() as inner:
            scale(x)
            scale(x)
        scale(x)
    assert (len(outer.launches), len(inner.launches)) == (2, 2)


def test_the_previous_driver_is_active_again_even_after_an_error():
    from triton.runtime import driver

    def fail():
        with hopper():
            assert driver._active is not previous
            raise KeyError("in the block")

    previous = driver._active
    with pytest.raises(KeyError, match="in the block"):
        fail()
    assert driver._active is previous


@triton.jit
def _cluster_kernel(out_ptr):
    tl.store(out_ptr, 1.0)


@pytest.mark.parametrize(
    ("run", "kind", "message"),
    [
        (lambda: scale(torch.ones(8, device="meta")), TypeError, "x_ptr is a .* on meta"),
        (lambda: scale(torch.from_numpy(np.ones(9, "f4")[1:])), ValueError, r"x_ptr: .*clone\(\)"),
        (
            lambda: _cluster_kernel[(1,)](torch.ones(1), num_ctas=2),
            UnsupportedInstructionError,
            "num_ctas is 2",
        ),
    ],
    ids=["meta", "misaligned", "cluster"],
)
def test_what_the_machine_cannot_run_is_refused(
    run: Callable[[], object], kind: type[Exception], message: str
):
    with hopper(), pytest.raises(kind, match=message):
        run()


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors_of_the_host(padding: str):
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")

    @triton.jit
    def kernel(descriptor, out_ptr):
        tl.store(
            out_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16), descriptor.load([1, -4])
        )

    x = torch.arange(20 * 12, dtype=torch.float32).reshape(20, 12)
    out = torch.empty(16, 16)
    descriptor = descriptors.TensorDescriptor.from_tensor(x, [16, 16])
    descriptor.padding = padding
    with hopper():
        if padding == "nan":
            with pytest.raises(UnsupportedInstructionError, match="a fill with NaN"):
                kernel[(1,)](descriptor, out)
            return
        kernel[(1,)](descriptor, out)
    expected = torch.zeros(16, 16)
    expected[:, 4:] = x[1:17]
    assert torch.equal(out, expected)


def test_the_interpreter_is_refused():
    code = "from exactness.virtual import hopper\nwith hopper(): pass"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "VirtualHopperError: TRITON_INTERPRET is set" in done.stderr


def test_a_kernel_kept_from_a_block_does_not_run_outside():
    with hopper():
        compiled = _cluster_kernel[(1,)](torch.ones(1))
        with hopper() as machine:
            compiled[(1, 1, 1)](torch.ones(1))
    assert len(machine.launches) == 1
    assert issubclass(LaunchError, VirtualHopperError)
    with pytest.raises((RuntimeError, ValueError), match=r"driver|cpu tensor"):
        compiled[(1, 1, 1)](torch.ones(1))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("i1", True, "01"),
        ("i8", -1, "ff"),
        ("i32", -2, "feffffff"),
        ("u32", 2**32 - 1, "ffffffff"),
        ("i64", 2**40, "0000000000010000"),
        ("u64", 2**64 - 1, "ffffffffffffffff"),
        ("fp32", 0.1, "cdcccc3d"),
        ("fp32", 1e300, "0000807f"),
        ("fp64", 0.1, "9a9999999999b93f"),
        ("fp16", 0.1, "662e"),
        ("bf16", 1.00390625 + 2**-20, "803f"),  # driver.c truncates
        ("*fp32", None, "0000000000000000"),
    ],
)
def test_scalars_are_packed_as_the_launcher_in_c_does(kind: str, value: object, expected: str):
    assert pack_one(Argument("a", kind, value), ArgumentMemory()).hex() == expected


@pytest.mark.parametrize(
    ("kind", "value", "error", "message"),
    [
        ("i32", 2**32, OverflowError, "argument n is 4294967296; it does not fit type i32"),
        ("i32", 1.5, TypeError, r"argument n is 1.5; type i32 takes an int"),
        ("fp32", "x", TypeError, "argument n is 'x'; type fp32 takes a float"),
        ("*fp32", np.ones(3), TypeError, "argument n is a ndarray; a tensor is accepted"),
        ("nvTmaDesc", None, UnsupportedInstructionError, "argument n has type nvTmaDesc"),
    ],
)
def test_values_that_do_not_fit_name_the_argument(
    kind: str, value: object, error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        pack_one(Argument("n", kind, value), ArgumentMemory())


def test_each_storage_is_far_from_the_others():
    base, other = torch.zeros(100), torch.zeros(100)
    memory = ArgumentMemory()
    views = {"a": base[4:8], "b": base[6:20], "c": base[50:], "d": other}
    addresses = {n: memory.pointer(Argument(n, "*fp32", view)) for n, view in views.items()}
    assert {n: a - STORAGE_SPACING for n, a in addresses.items() if n != "d"} == {
        "a": 16,
        "b": 24,
        "c": 200,
    }
    assert addresses["d"] == 2 * STORAGE_SPACING
    reachable = GlobalMemory()
    memory.register(reachable)
    assert [(r.base - STORAGE_SPACING, r.data.size) for r in reachable.regions[:2]] == [
        (16, 64),
        (200, 200),
    ]
    assert reachable.regions[0].names == ("a/b",)


def test_scratch_is_aligned_memory_of_its_own():
    memory = ArgumentMemory()
    assert memory.scratch("global scratch", 0, 1) == 0
    assert memory.scratch("global scratch", 100, 128) % 128 == 0
    with pytest.raises(LaunchError, match="global scratch is to be aligned to 24"):
        memory.scratch("global scratch", 1, 24)
