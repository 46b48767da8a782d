"""CUDA kernels by load_ptx: names, arguments, variables, what is refused."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from exactness import virtual
from exactness.errors import UsageError
from exactness.virtual.errors import (
    LaunchError,
    OrderDependenceError,
    OutOfBoundsError,
    UnsupportedInstructionError,
    VirtualHopperError,
)

pytest.importorskip("triton", reason="Triton's wheel ships ptxas and nvdisasm")

HERE = Path(__file__).parent / "cuda"
STEPS = virtual.Struct("if3q", 3, 2.5, 10, 20, 30)
X = np.linspace(-3, 3, 64, dtype=np.float32)


@pytest.fixture(scope="module", params=["nvcc", "kept"])
def module(request, tmp_path_factory) -> virtual.PTXModule:
    if request.param == "kept":
        return virtual.load_ptx(HERE / "kernels.ptx")
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not Path(nvcc).exists():
        pytest.skip("nvcc is not installed")
    folder = tmp_path_factory.mktemp("cuda")
    command = [nvcc, "-ptx", "-arch=sm_90", "-O3", "-lineinfo", "-o", str(folder / "kernels.ptx")]
    subprocess.run([*command, str(HERE / "kernels.cu")], check=True, capture_output=True)
    return virtual.load_ptx(str(folder / "kernels.ptx"))


def fma(x, y, z) -> np.ndarray:
    """f32 fma of values whose product and sum are exact in f64."""
    return (np.float64(x) * np.float64(y) + np.float64(z)).astype(np.float32)


def test_functions_take_and_return_structs(module):
    x, out = X, np.zeros_like(X)
    launch = module["calls"].launch(4, 16, x, out, 64, STEPS)
    second = fma(x, 2.5, np.float32(0.3)) + np.float32(20)
    assert np.array_equal(out, fma(x, 2.5, 3) + second)
    assert launch.counts["call.uni"] == 2 * 64
    assert (launch.grid, launch.num_warps, launch.kernel) == ((4, 1, 1), 1, "calls")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(struct.pack("if3q", 3, 2.5, 10, 20, 30), id="bytes"),
        pytest.param(
            np.array((3, 2.5, [10, 20, 30]), dtype="i4,f4,3i8")[()], id="numpy record"
        ),
        pytest.param(
            type("Steps", (ctypes.Structure,), {"_fields_": [
                ("start", ctypes.c_int), ("scale", ctypes.c_float), ("offset", ctypes.c_int64 * 3),
            ]})(3, 2.5, (10, 20, 30)),
            id="ctypes",
        ),
    ],
)  # fmt: skip
def test_structs_come_in_several_forms(module, steps):
    out = np.zeros(32, np.int64)
    module["indexed"].launch(1, 32, steps, np.arange(32, dtype=np.int32) % 3, out)
    assert out.tolist() == ([10, 20, 30] * 11)[:32]
    module["read_only"].launch(1, 32, steps, out)
    assert out.tolist() == ([10, 20, 30] * 11)[:32]


def test_functions_write_to_local_memory_and_return_early(module):
    out = np.zeros(64, np.float32)
    module["local_memory"].launch(1, 64, X, out, 5)
    assert np.array_equal(out, np.where(X > 2, 0, X + np.float32(5)))


def test_one_access_reaches_several_state_spaces(module):
    x, out = X[:32].copy(), np.zeros(32, np.float32)
    module["spaces"].launch(1, 32, x, out)
    own = [5.0, 6.0, 7.0, x[0]]
    kinds = [own, [-v for v in x], x]
    assert out.tolist() == [kinds[t % 3][t & 3] for t in range(32)]


def test_atomics_reach_shared_and_global_memory_through_pointers(module):
    out = np.zeros(3, np.int32)
    before = int(module.variables["visits"].view(np.int32)[0])
    launch = module["counters"].launch(3, 96, out)
    assert out.tolist() == [96, 96, 96]
    assert int(module.variables["visits"].view(np.int32)[0]) == before + 288
    assert launch.counts["call.uni"] == 2 * 288


def test_constants_are_initialised_and_can_be_written(module):
    out = np.zeros(32, np.float32)
    module.variables["weights"].view(np.float32)[:] = np.arange(32)
    module["constants"].launch(1, 32, X[:32].copy(), out)
    assert np.array_equal(out, fma(X[:32], np.arange(32) % 4 + 1, np.arange(32)))


def test_dynamic_shared_memory(module):
    out = np.zeros(64, np.float32)
    module["dynamic"].launch((1,), (32, 1, 1), X, out, 64, shared=256)
    assert np.array_equal(out, X[::-1])
    with pytest.raises(OutOfBoundsError, match="outside of the block's 128 bytes of shared"):
        module["dynamic"].launch(1, 32, X, out, 64, shared=128)


def test_scalars_are_typed_by_the_declaration(module):
    out = np.zeros(32)
    half = np.uint16(0x3FC0)  # 1.5
    module["scalars"].launch(1, 32, 200, -3, half, 0.125, True, out)
    assert (out == 200 - 3 + 1.5 + 0.125 + 1).all()


def test_numpy_and_torch_share_a_launch(module):
    torch = pytest.importorskip("torch")
    out = torch.zeros(2, 64)
    module["dynamic"].launch(1, 32, X, out[1], 64, shared=256)
    assert torch.equal(out[1], torch.from_numpy(X[::-1].copy()))
    assert not out[0].any()


def test_kernels_are_found_by_their_names(module):
    out = np.zeros(32, np.float32)
    module["square"].launch(1, 32, X[:32].copy(), out)
    assert np.array_equal(out, X[:32] * X[:32])
    module["twice"].launch(1, 32, X[:32].copy(), out)
    assert np.array_equal(out, 2 * X[:32])
    assert module["square"].name in set(module)
    assert len(module) == len(module.entries)
    with pytest.raises(KeyError, match=r"kernel 'cube': the module has: .*calls"):
        module["cube"]
    assert "are" not in module


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, X, 64), "3 arguments; the kernel declares 4: 0 .*pointer.*3 .*a struct of 32 bytes"),
        ((X, X, 64.0, STEPS), r"argument 2 .* is a float; an integer \(\.u32\) was declared"),
        ((X, X, 1 << 32, STEPS), "argument 2 .* is 4294967296, which does not fit"),
        ((X, X, X, STEPS), r"argument 2 .* is a ndarray; an integer \(\.u32\) was declared"),
        ((2.0, X, 64, STEPS), "argument 0 .* is a float; .*pointer"),
        ((X, X, 64, bytes(30)), "argument 3 .*: 30 bytes; a struct of 32 bytes was declared"),
        ((X, X, 64, 7), "argument 3 .* is a int; a struct of 32 bytes was declared"),
        ((X, X, 64, virtual.Struct("i3q", 1, 2, 3)), "argument 3 .*: Struct"),
    ],
)
def test_arguments_that_do_not_fit_are_named(module, arguments, message):
    with pytest.raises(LaunchError, match=message) as caught:
        module["calls"].launch(4, 16, *arguments)
    assert caught.value.kernel == "calls"


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((1, 2, 3, 4), 32, "grid: .*one to three"),
        (1, 32.0, "block: 32.0"),
        (1, 65, "the kernel allows at most"),
        (0, 32, "grid: .*positive"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(module, grid, block, message):
    with pytest.raises((LaunchError, TypeError), match=message):
        module["bounded"].launch(grid, block, np.zeros(64, np.float32))


def test_memory_errors_name_the_source_line(module):
    with pytest.raises(OutOfBoundsError, match=r"(?s)past the end of .*kernels\.cu:\d+") as caught:
        module["calls"].launch(4, 16, X, np.zeros(63, np.float32), 64, STEPS)
    assert caught.value.kernel == "calls"


def test_a_read_only_array_is_not_written(module):
    out = np.zeros(64, np.float32)
    out.setflags(write=False)
    with pytest.raises(OutOfBoundsError, match="a store to the constant"):
        module["calls"].launch(4, 16, X, out, 64, STEPS)


def test_a_result_that_depends_on_the_order_of_blocks_is_noticed(module):
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(OrderDependenceError, match="changes what another block reads"):
        module["square"].launch(2, 64, x, x)


def test_an_assertion_fails_where_it_is(module):
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    module["checked"].launch(1, 32, x, out)
    assert np.array_equal(out, x)
    x[7] = -1
    with pytest.raises(VirtualHopperError, match=r"(?s)assertion failed: .* thread \(7, 0, 0\)"):
        module["checked"].launch(1, 32, x, out)


def test_launches_in_a_hopper_block_are_recorded(module):
    out = np.zeros(32, np.float32)
    with virtual.hopper() as machine:
        done = module["twice"].launch(1, 32, X[:32].copy(), out)
    assert machine.launches == [done]
    assert machine.counts == done.counts


def test_an_edit_reaches_the_kernel(module):
    def wrong(text: str, kernel: str) -> str:
        assert kernel.endswith("twiceEPKfPf")
        return text.replace("add.rn.f32", "sub.rn.f32").replace("add.f32", "sub.f32")

    out = np.ones(32, np.float32)
    with virtual.hopper(wrong):
        module["twice"].launch(1, 32, X[:32].copy(), out)
    assert not out.any()


def test_files_that_are_no_ptx(tmp_path):
    with pytest.raises(UsageError, match=r"nothing\.ptx cannot be read: No such file"):
        virtual.load_ptx(tmp_path / "nothing.ptx")
    (tmp_path / "a.cubin").write_bytes(b"\x7fELF\xff\xfe")
    with pytest.raises(UsageError, match="write PTX with `nvcc -ptx`"):
        virtual.load_ptx(tmp_path / "a.cubin")
    (tmp_path / "a.cu").write_text("int main() {}")
    with pytest.raises(UsageError, match="holds no PTX"):
        virtual.load_ptx(tmp_path / "a.cu")


@pytest.mark.parametrize("target", ["sm_100a", "sm_120", "sm_80a"])
def test_other_architectures_are_refused(target):
    with pytest.raises(UnsupportedInstructionError, match=f"the PTX is for {target}"):
        virtual.load_ptx(f".version 9.0\n.target {target}\n.address_size 64\n")


def test_machine_code_that_is_given_is_believed(tmp_path):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not Path(nvcc).exists():
        pytest.skip("nvcc is not installed")
    for form in ("ptx", "cubin"):
        command = [nvcc, f"-{form}", "-arch=sm_90", "-lineinfo", "-o", str(tmp_path / f"k.{form}")]
        subprocess.run([*command, str(HERE / "kernels.cu")], check=True, capture_output=True)
    cubin = (tmp_path / "k.cubin").read_bytes()
    out = np.zeros(32, np.float32)
    module = virtual.load_ptx(tmp_path / "k.ptx", cubin=cubin)
    module["twice"].launch(1, 32, X[:32].copy(), out)
    assert np.array_equal(out, 2 * X[:32])
    other = module.text.replace("calls", "others")
    with pytest.raises(LaunchError, match="the cubin has no kernel 'others'"):
        virtual.load_ptx(other, cubin=cubin)["others"].launch(4, 16, X, out, 32, STEPS)
