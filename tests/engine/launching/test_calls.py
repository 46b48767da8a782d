"""Launchers: what is planned anew, what is repeated, and that a repeated launch is Triton's."""

import contextlib
import enum
import gc
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exactness import virtual
from exactness.aliasing import same_memory
from exactness.launching import Launch, Part, calls, launcher
from exactness.machines import poisoned_memory

OUT = 2
"""Position of the output among the kernel's arguments."""


@triton.jit
def _kernel(x_ptr, y_ptr, out_ptr, n, stride, factor, strides, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index * stride, mask=index < strides[1])
    if y_ptr is not None:
        x += tl.load(y_ptr + index, mask=index < n)
    tl.store(out_ptr + index, x * factor, mask=index < n)


class Way(enum.Enum):
    ONE = "one"
    TWO = "two"


@pytest.fixture
def planned():
    """How often the plan of a launcher ran, as a list, and the launcher."""
    return _planned()


def _planned():
    runs = []

    @launcher
    def scaled(
        x: torch.Tensor,
        y: torch.Tensor | None = None,
        factor: float = 2.0,
        *,
        way: Way = Way.ONE,
        dtype: torch.dtype | None = None,
        sizes: Sequence[int] = (1,),
        anything=None,
    ) -> Launch[torch.Tensor]:
        """Documented."""
        runs.append(x.shape)
        if not isinstance(factor, float):
            raise TypeError(f"factor: got {type(factor).__name__}; a float is accepted")
        n, stride = x.shape[0], x.stride(0)
        out = torch.empty(n, dtype=dtype or x.dtype)
        other = None if y is None else Part(y, y[1:])
        grid = (triton.cdiv(n, 64),)
        return Launch(out, _kernel, grid, x, other, out, n, stride, factor, (stride, n), BLOCK=64)

    return runs, scaled


def equals_triton(gpu, launch, arguments):
    """Whether a launcher's launch is the one that Triton makes of the same plan."""
    out = launch(**arguments)
    launched = gpu.launches[-1]
    launch.__wrapped__(**arguments).run()
    arguments = list(gpu.launches[-1].arguments)
    arguments[OUT] = out.data_ptr()
    return launched == replace(gpu.launches[-1], arguments=tuple(arguments))


def test_the_same_signature_is_planned_once(gpu, planned):
    runs, scaled = planned
    outs = [scaled(torch.zeros(100), torch.zeros(200)) for _ in range(3)]
    assert len(runs) == 1
    assert len(gpu.launches) == 3
    assert len({out.data_ptr() for out in outs}) == 3
    assert all(out.shape == (100,) and out.is_contiguous() for out in outs)


def test_a_repeated_launch_has_the_new_addresses(gpu, planned):
    _, scaled = planned
    for _ in range(2):
        x, y = torch.zeros(100), torch.zeros(200)
        out = scaled(x, y)
        at = (x.data_ptr(), y.data_ptr() + 4, out.data_ptr(), 100, 1, 2.0, (1, 100), 64)
        assert gpu.launches[-1].arguments == at
        assert gpu.launches[-1].grid == (2, 1, 1)


BASE = torch.zeros(4096)
WEIGHT = torch.nn.Parameter(torch.zeros(128), requires_grad=False)
SIZES = (3, 4)
LIKE_THE_LAST = {
    "one tensor": lambda: {"x": BASE[:64]},
    "two": lambda: {"x": torch.zeros(100), "y": BASE[:200]},
    "a parameter": lambda: {"x": WEIGHT, "y": BASE[:200]},
    "integers": lambda: {"x": BASE[:64], "sizes": SIZES},
}


@pytest.mark.parametrize("arguments", LIKE_THE_LAST.values(), ids=list(LIKE_THE_LAST))
@pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.inference_mode, torch.no_grad])
def test_a_call_like_the_last_one_looks_up_nothing(gpu, planned, arguments, mode):
    _, scaled = planned
    scaled(**arguments())
    scaled(**arguments())
    with mode():
        scaled(**arguments())
        known = scaled.__globals__["calls"]
        scaled.__globals__["calls"] = None
        scaled(**arguments())
        scaled.__globals__["calls"] = known
    assert len(planned[0]) == 1
    assert len(gpu.launches) == 4


def test_integers_are_looked_up_unless_they_are_the_same_tuple(gpu, planned):
    runs, scaled = planned
    sizes = [3, 4]
    for value in (4, 5, 4):
        sizes[1] = value
        scaled(BASE[:64], sizes=sizes)
        scaled(BASE[:64], sizes=sizes)
    assert len(runs) == 2
    for value in (True, 1):
        scaled(BASE[:64], sizes=(3, value))
        scaled(BASE[:64], sizes=(3, value))
    assert len(runs) == 4


def test_torch_without_guards(gpu, planned, monkeypatch):
    monkeypatch.delattr(torch._C._dynamo.guards, "TensorGuards")
    runs, scaled = planned
    for n in (1, 2, 1, 2):
        scaled(BASE[:n])
    assert len(runs) == 2


ROW = {"x": BASE[:64]}
CHANGES = {
    "shape": (ROW, {"x": BASE[:65]}),
    "stride": (ROW, {"x": BASE[:128:2]}),
    "dtype": (ROW, {"x": BASE[:64].half()}),
    "alignment": (ROW, {"x": BASE[1:65]}),
    "alignment of another": ({**ROW, "y": BASE[:80]}, {**ROW, "y": BASE[2:82]}),
    "shape of another": ({**ROW, "y": BASE[:80]}, {**ROW, "y": BASE[:81]}),
    "None": (ROW, {**ROW, "y": BASE[:80]}),
    "value": (ROW, {**ROW, "factor": 3.0}),
    "sign of zero": ({**ROW, "factor": 0.0}, {**ROW, "factor": -0.0}),
    "member": (ROW, {**ROW, "way": Way.TWO}),
    "dtype argument": (ROW, {**ROW, "dtype": torch.float16}),
    "element of a sequence": (ROW, {**ROW, "sizes": (2,)}),
    "type of an element": (ROW, {**ROW, "sizes": (True,)}),
    "type of a sequence": (ROW, {**ROW, "sizes": [1]}),
    "type": ({**ROW, "anything": 1}, {**ROW, "anything": True}),
    "nested": ({**ROW, "anything": (1, (0.0,))}, {**ROW, "anything": (1, (-0.0,))}),
}


@pytest.mark.parametrize(("first", "second"), CHANGES.values(), ids=list(CHANGES))
def test_a_changed_signature_is_planned_anew(gpu, planned, first, second):
    runs, scaled = planned
    for arguments in (first, second, first, second):
        scaled(**arguments)
    assert len(runs) == 2
    assert equals_triton(gpu, scaled, first)
    assert equals_triton(gpu, scaled, second)
    assert gpu.launches[0].function in {launched.function for launched in gpu.launches[2:]}


def test_a_stride_that_leads_to_no_element_does_not_matter(gpu, planned):
    runs, scaled = planned
    for stride in (1, 3):
        scaled(BASE.as_strided((1,), (stride,)))
        scaled(BASE.as_strided((2,), (stride,)))
    assert [shape[0] for shape in runs] == [1, 2, 2]


def test_tensors_on_several_devices_are_planned_each_time(gpu):
    runs = []

    @launcher
    def mixed(x: torch.Tensor, y: torch.Tensor) -> Launch[None]:
        runs.append(y.device)
        return Launch(None, _kernel, (1,), x, None, x, 64, 1, 1.0, (1, 1), BLOCK=64)

    for _ in range(2):
        mixed(BASE[:64], BASE[:64].to("meta"))
    assert len(runs) == 2


_TENSORS = st.builds(
    lambda dtype, size, start: BASE.to(dtype)[start : start + size[0] * size[1] : size[1]],
    st.sampled_from([torch.float32, torch.float16]),
    st.sampled_from([(1, 1), (2, 1), (2, 16), (16, 1), (16, 16), (17, 3)]),  # length and stride
    st.sampled_from([0, 4, 8]),
)


@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(_TENSORS, st.sampled_from([1.0, 0.5])), min_size=2, max_size=8))
def test_any_sequence_of_launches_is_that_of_triton(gpu, sequence):
    _, scaled = _planned()
    for x, factor in [*sequence, *sequence]:
        assert equals_triton(gpu, scaled, {"x": x, "factor": factor})


def test_a_tensor_that_is_two_parameters_is_no_longer_so_in_the_next_call(gpu, planned):
    _, scaled = planned
    x = torch.zeros(100)
    scaled(x, x)
    assert equals_triton(gpu, scaled, {"x": x, "y": torch.zeros(100)})
    assert equals_triton(gpu, scaled, {"x": torch.zeros(100), "y": x})


def test_bad_arguments_are_refused_in_every_call(gpu, planned):
    _, scaled = planned
    x = torch.zeros(64)
    for _ in range(2):
        with pytest.raises(TypeError, match="factor: got int; a float is accepted") as caught:
            scaled(x, factor=2)
        assert caught.value.__context__ is None
        scaled(x, factor=2.0)
    for wrong in ("text", None, torch.zeros(4).to_sparse(), [1.0]):
        with pytest.raises((AttributeError, NotImplementedError, RuntimeError)):
            scaled(wrong)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        scaled()
    with pytest.raises(TypeError, match="unexpected keyword argument 'more'"):
        scaled(x, more=1)


def test_arguments_without_a_signature_are_planned_each_time(gpu, planned):
    runs, scaled = planned
    for _ in range(2):
        scaled(BASE[:64], anything={"a": 1})
    assert len(runs) == len(gpu.launches) == 2


def test_a_launcher_looks_like_its_plan(planned):
    _, scaled = planned
    assert scaled.__doc__ == "Documented."
    assert scaled.__name__ == "scaled"


def test_outputs_are_poisoned_in_every_call(gpu, planned):
    _, scaled = planned
    with poisoned_memory():
        outs = [scaled(BASE[:64]) for _ in range(3)]
    assert all(out.isnan().all() for out in outs)


def test_no_tensor_is_kept(gpu, planned):
    _, scaled = planned
    x = torch.zeros(100)
    kept = [weakref.ref(x), weakref.ref(scaled(x)), weakref.ref(scaled(x))]
    gpu.launches.clear()
    del x
    gc.collect()
    assert [reference() for reference in kept] == [None] * 3


def test_the_oldest_signatures_are_forgotten(gpu, planned, monkeypatch):
    monkeypatch.setattr(calls, "CAPACITY", 2)
    runs, scaled = planned
    for n in (1, 2, 3, 3, 2, 1):
        scaled(BASE[:n])
    assert [shape[0] for shape in runs] == [1, 2, 3, 1]


def test_threads_launch_at_once(gpu, planned, monkeypatch):
    monkeypatch.setattr(calls, "CAPACITY", 3)
    _, scaled = planned
    wrong = []

    def work(start):
        for i in range(60):
            n = 1 + (start + i) % 5
            if scaled(BASE[:n]).shape != (n,):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(gpu.launches) == 240
    assert all(launched.arguments[3] in range(1, 6) for launched in gpu.launches)


def test_launches_within_inference_mode_and_outside(gpu, planned):
    runs, scaled = planned
    with torch.inference_mode():
        scaled(BASE[:64])
    assert not scaled(BASE[:64]).is_inference()
    assert len(runs) == 1


def _apart():
    runs = []

    @launcher(compares=("x", "y"))
    def apart(x: torch.Tensor, y: torch.Tensor) -> Launch[None]:
        runs.append(y.data_ptr() - x.data_ptr())
        if same_memory(x, y):
            raise ValueError("y: the memory of x is not accepted")
        return Launch(None, _kernel, (1,), x, y, x, 64, 1, 1.0, (0, 0), BLOCK=64)

    return runs, apart


def test_memory_that_a_plan_compares_is_looked_at_again(gpu):
    runs, apart = _apart()
    x, y = BASE[:64], BASE[64:128]
    for _ in range(2):
        apart(x, y)
        apart(y, x)
        apart(x, BASE[200:264])
        for shared in (x, BASE[:64], BASE[4:68], BASE[60:124]):
            with pytest.raises(ValueError, match="the memory of x"):
                apart(x, shared)
    assert len(gpu.launches) == 6
    assert sum(distance in (256, -256, 800) for distance in runs) == 1


def test_interleaved_views_are_planned_once(gpu):
    runs, apart = _apart()
    rows = torch.zeros(3, 8, 64)
    x, y = rows[0, :, :32], rows[0, :, 32:]
    apart(rows[1, :, :32], rows[2, :, :32])
    for _ in range(3):
        apart(x, y)
        apart(rows[1, :, :32], rows[1, :, 32:])
        apart(rows[1, :, :32], rows[2, :, :32])
    assert len(runs) == 2
    with pytest.raises(ValueError, match="the memory of x"):
        apart(x, rows[0, :, 28:60])
    with pytest.raises(ValueError, match="the memory of x"):
        apart(x, rows.flatten()[64:].view(-1, 64)[:8, :32])


def test_what_a_launcher_returns(gpu):
    @launcher
    def made(x: torch.Tensor, copies: int) -> Launch[tuple[torch.Tensor | None, ...]]:
        outs = [torch.empty(i + 1, 2, dtype=x.dtype) for i in range(copies)]
        if not outs:
            return Launch((None,))
        last = (0, 0)
        return Launch((*outs, None), _kernel, (1,), x, x, outs[0], 64, 1, 1.0, last, BLOCK=64)

    for _ in range(3):
        assert made(BASE, 0) == (None,)
        shapes = [None if out is None else tuple(out.shape) for out in made(BASE, 2)]
        assert shapes == [(1, 2), (2, 2), None]
    assert len(gpu.launches) == 3


def test_the_virtual_hopper_is_not_kept(planned):
    _, scaled = planned
    with virtual.hopper() as machine:
        scaled(torch.zeros(64))
        scaled(torch.zeros(64))
        kept = weakref.ref(machine)
    del machine
    gc.collect()
    assert kept() is None


WRONG = {
    "another tensor": (lambda x: Launch(None, _kernel, (1,), x[1:]), "pass.*a Part"),
    "in a tuple": (lambda x: Launch(None, _kernel, (1,), (1, x[1:])), "pass.*a Part"),
    "part of another": (lambda x: Launch(None, _kernel, (1,), Part(x[1:], x)), "pass.*a Part"),
    "its parameter": (lambda x: Launch(x), "output 0 is a parameter"),
    "strides": (lambda x: Launch((None, torch.empty(4, 4).t())), r"output 0 has strides \(1, 4\)"),
}


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=list(WRONG))
def test_a_plan_that_cannot_be_repeated_is_refused(gpu, wrong, message):
    @launcher
    def launch(x: torch.Tensor) -> Launch[torch.Tensor]:
        return wrong(x)

    with pytest.raises(TypeError, match=message):
        launch(BASE)
    assert not gpu.launches
