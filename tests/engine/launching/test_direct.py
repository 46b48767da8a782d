"""Launches without Triton's launcher: the bytes that reach the driver, and when it is left out."""

import struct
import threading
from types import SimpleNamespace

import pytest

from exactness.launching import direct
from exactness.launching.plan import Slot

FUNCTION = 0x5000
POINTERS = [(0, 8), (8, 8), (16, 8)]
SCRATCH = [(24, 8), (32, 8)]


@pytest.fixture
def driver(cuda):
    """The driver whose launches `cuda` writes down."""
    return direct.driver_of(None)


def compiled(*types, **metadata):
    """What Triton would compile for parameters of these types."""
    given = {"num_warps": 4, "shared": 64, "launch_pdl": False, **metadata}
    signature = dict(enumerate(types))
    return SimpleNamespace(
        metadata=SimpleNamespace(**given),
        src=SimpleNamespace(signature=signature),
        function=FUNCTION,
    )


KINDS = [
    ("i1", True, "<?", True),
    ("u8", 255, "<B", 255),
    ("i16", -2, "<h", -2),
    ("i32", -(2**31), "<i", -(2**31)),
    ("u32", 2**32 - 1, "<I", 2**32 - 1),
    ("i64", -(2**40), "<q", -(2**40)),
    ("u64", 2**63, "<Q", 2**63),
    ("fp32", 0.1, "<f", 0.1),
    ("fp32", 1e300, "<f", float("inf")),
    ("fp32", -0.0, "<f", -0.0),
    ("fp64", 0.1, "<d", 0.1),
]


@pytest.mark.parametrize(("kind", "value", "form", "stored"), KINDS)
def test_constants_are_the_bytes_of_their_type(kind, value, form, stored):
    (parameter,) = direct.parameters_of([kind], [value])
    assert parameter.constant == struct.pack(form, stored)


def test_a_launch_has_its_addresses_among_the_constants(cuda, driver):
    cuda.layouts[FUNCTION] = [(0, 8), (8, 4), (16, 8), (24, 4), (28, 1), (32, 8), (40, 8), (48, 8)]
    types = ("*bf16", "i32", ("*fp32", ("fp32", "constexpr"), "i1"), "constexpr", "*i64")
    values = (Slot("x_at"), 7, (Slot("y_at", 4096), (2.5, 3), True), 64, Slot("x_at", -16))
    made = direct.launch(driver, compiled(*types), (5, 6, 7), values)
    assert made.names == ("x_at", "y_at")
    high = 2**63 + 2**20
    made.function(0xABC, 2**47, high)
    made.function(0, 0, 0)
    launched, again = cuda.launched
    addresses = [struct.pack("<Q", at) for at in (2**47, high + 4096, 2**47 - 16, 0, 0)]
    constants = [struct.pack("<i", 7), struct.pack("<f", 2.5), b"\1"]
    assert launched.params == [
        addresses[0], constants[0], addresses[1], *constants[1:], *addresses[2:]
    ]  # fmt: skip
    assert launched.offsets == [offset for offset, _ in cuda.layouts[FUNCTION]]
    assert again.params[2] == struct.pack("<Q", 4096)
    assert (launched.grid, launched.block, launched.shared) == ((5, 6, 7), (128, 1, 1), 64)
    assert (launched.stream, launched.function) == (0xABC, FUNCTION)
    assert not launched.early


def test_an_early_launch_has_the_attribute(cuda, driver):
    cuda.layouts[FUNCTION] = POINTERS[:1]
    made = direct.launch(driver, compiled("*i8", launch_pdl=True), (1, 1, 1), (Slot("x_at"),))
    made.function(0, 16)
    assert cuda.launched[0].early


@pytest.mark.parametrize(
    ("types", "values"),
    [
        (["i32", "i32"], [1]),
        ([("i32", "i32")], [(1,)]),
        ([("i32",)], [1]),
        (["i32"], [(1,)]),
        (["fp32"], [None]),
        (["fp16"], [0.5]),
        (["nvTmaDesc"], [Slot("x_at")]),
    ],
)
def test_types_that_are_not_those_of_the_values(types, values):
    assert direct.parameters_of(types, values) is None


LEFT_OUT = {
    "no driver": ({}, (1, 1, 1), False),
    "a cluster": ({"num_ctas": 2}, (1, 1, 1), True),
    "cooperative": ({"launch_cooperative_grid": True}, (1, 1, 1), True),
    "scratch": ({"global_scratch_size": 128}, (1, 1, 1), True),
    "profile": ({"profile_scratch_size": 128}, (1, 1, 1), True),
    "no block": ({}, (1, 0, 1), True),
}


@pytest.mark.parametrize(("metadata", "grid", "there"), LEFT_OUT.values(), ids=list(LEFT_OUT))
def test_what_triton_s_launcher_must_do(cuda, driver, metadata, grid, there):
    cuda.layouts[FUNCTION] = [*POINTERS[:1], (8, 8), (16, 8)]
    values = (Slot("x_at"),)
    kernel = compiled("*i8", **metadata)
    assert direct.launch(driver if there else None, kernel, grid, values) is None
    assert direct.launch(driver, compiled("*i8"), (1, 1, 1), values) is not None


@pytest.mark.parametrize(
    ("types", "layout"),
    [
        (("*i8", "i32"), [(0, 8)]),
        (("*i8", "i32"), [(0, 8), (8, 8)]),
        (("*i8", "i32"), [(0, 8), (8, 4), (12, 4)]),
        (("*i8", "tensordesc<fp16[64, 64]>"), [(0, 8), (64, 128)]),
        (("*i8", "fp16"), [(0, 8), (8, 2)]),
        (("*i8",), []),
        (("*i8",), [(8 * i, 8) for i in range(direct.MAX_PARAMETERS + 1)]),
        (("*i8",), [(0, 8), (direct.MAX_BYTES, 8)]),
    ],
)
def test_a_kernel_with_other_parameters_is_left_to_triton(cuda, driver, types, layout):
    cuda.layouts[FUNCTION] = layout
    values = (Slot("x_at"), 1)[: len(types)]
    assert direct.launch(driver, compiled(*types), (1, 1, 1), values) is None


def test_the_driver_s_error_is_raised_by_name(cuda, driver):
    cuda.layouts[FUNCTION] = POINTERS[:1]
    made = direct.launch(driver, compiled("*i8"), (1, 1, 1), (Slot("x_at"),))
    cuda.statuses = [719]
    with pytest.raises(RuntimeError, match=r"cuLaunchKernelEx: CUDA_ERROR_SOMETHING \(719\)"):
        made.function(0, 16)
    made.function(0, 16)
    assert len(cuda.launched) == 2


def test_a_thread_without_a_context_gets_that_of_the_plan(cuda, driver):
    cuda.layouts[FUNCTION] = POINTERS[:1]
    made = direct.launch(driver, compiled("*i8"), (1, 1, 1), (Slot("x_at"),))
    cuda.statuses = [201]
    made.function(0, 16)
    assert cuda.made_current == [0x1234]
    assert len(cuda.launched) == 2
    cuda.statuses = [201, 201]
    with pytest.raises(RuntimeError, match=r"\(201\)"):
        made.function(0, 16)


def test_threads_have_parameters_of_their_own(cuda, driver):
    cuda.layouts[FUNCTION] = POINTERS
    values = (Slot("x_at"), Slot("y_at"), Slot("x_at", 1))
    made = direct.launch(driver, compiled("*i8", "*i8", "*i8"), (1, 1, 1), values)

    def work(start):
        for i in range(200):
            made.function(start, start + 2 * i, start + 2 * i)

    threads = [threading.Thread(target=work, args=(1000 * (i + 1),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cuda.launched) == 800
    for launched in cuda.launched:
        x, y, after_x = (int.from_bytes(each, "little") for each in launched.params)
        assert x == y == after_x - 1
        assert x - launched.stream in range(0, 400, 2)


WRONG = {
    "too few": ((0,), TypeError),
    "too many": ((0, 1, 2), TypeError),
    "no address": ((0, "1"), TypeError),
    "negative": ((0, -1), OverflowError),
    "no stream": ((None, 1), TypeError),
}


@pytest.mark.parametrize(("arguments", "error"), WRONG.values(), ids=list(WRONG))
def test_wrong_arguments_are_refused(cuda, driver, arguments, error):
    cuda.layouts[FUNCTION] = POINTERS[:1]
    made = direct.launch(driver, compiled("*i8"), (1, 1, 1), (Slot("x_at"),))
    with pytest.raises(error):
        made.function(*arguments)
    with pytest.raises(TypeError):
        made.function(0, at=1)
    assert not cuda.launched


@pytest.mark.parametrize(
    "changed",
    [
        {"data": bytes(direct.MAX_BYTES + 1)},
        {"offsets": (8,)},
        {"offsets": (0,) * (direct.MAX_PARAMETERS + 1)},
        {"addresses": ((1, 0, 0),)},
        {"addresses": ((0, 1, 0),)},
    ],
)
def test_a_layout_that_does_not_fit_is_refused(cuda, driver, changed):
    given = {"data": bytes(8), "offsets": (0,), "addresses": ((0, 0, 0),), **changed}
    with pytest.raises(ValueError, match=r"beyond|too many|at most"):
        driver.module.Launch(
            driver.functions, 0, 0, (1, 1, 1), 32, 0, False,
            given["data"], given["offsets"], 1, given["addresses"],
        )  # fmt: skip


def test_a_driver_that_cannot_be_used_is_said_once(monkeypatch):
    direct._driver.cache_clear()
    monkeypatch.setattr(direct.ctypes, "CDLL", lambda name: SimpleNamespace())
    try:
        with pytest.warns(RuntimeWarning, match="launches take longer.*cuLaunchKernelEx"):
            assert direct._driver() is None
        assert direct._driver() is None
    finally:
        direct._driver.cache_clear()
