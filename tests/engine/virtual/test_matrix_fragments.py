"""mma.sync and wgmma in hand-written PTX: where every element lies, as the PTX ISA draws it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from exactness.bits import decode, encode
from exactness.formats import INTEGERS, bf16, e4m3fn, e5m2, f16, f32, tf32
from exactness.hopper.tensor_core import fp8_mma_sync, integer_matmul, kind_of, matmul
from exactness.virtual.errors import (
    BarrierDivergenceError,
    SharedRaceError,
    UndefinedValueError,
    UnsupportedInstructionError,
)

FORMATS = {"bf16": bf16, "f16": f16, "tf32": tf32, "e4m3": e4m3fn, "e5m2": e5m2}


def elements(shape: tuple[int, ...], name: str, seed: int = 0) -> np.ndarray:
    """Patterns of moderate values, unsigned."""
    rng = np.random.default_rng(seed)
    if name in ("s8", "u8"):
        return rng.integers(0, 256, shape, dtype=np.uint8)
    fmt = FORMATS[name]
    x = rng.choice([-1, 1], shape) * (1 + rng.integers(0, 4, shape) / 4)
    return encode((x * 2.0 ** rng.integers(-3, 3, shape)).astype(np.float32), fmt)


def pack(parts: list[np.ndarray]) -> np.ndarray:
    """Elements of one 32-bit register, the first in the low bits, for each lane."""
    return np.ascontiguousarray(np.stack(parts, axis=-1)).view(np.uint32)[..., 0]


def a_registers(a: np.ndarray) -> list[np.ndarray]:
    """The A fragment of a warp: lane g·4 + t holds rows g and g + 8."""
    per = 4 // a.itemsize
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    found = []
    for block in range(a.shape[1] // (4 * per)):
        for row in (g, g + 8):
            first = block * 4 * per + t * per
            found.append(pack([a[row, first + i] for i in range(per)]))
    return found


def b_registers(b: np.ndarray) -> list[np.ndarray]:
    """The B fragment of a warp: lane g·4 + t holds column g."""
    per = 4 // b.itemsize
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    return [
        pack([b[block * 4 * per + t * per + i, g] for i in range(per)])
        for block in range(b.shape[0] // (4 * per))
    ]


def d_matrix(registers: np.ndarray, itemsize: int) -> np.ndarray:
    """Rows of 16 (a warp) from its accumulator registers [registers, 32]."""
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    per = 4 // itemsize
    kind = np.uint32 if itemsize == 4 else np.uint16
    columns = registers.shape[0] * per * 2
    d = np.zeros((16, columns), kind)
    words = np.ascontiguousarray(registers)
    for index in range(registers.shape[0]):
        parts = words[index].view(kind).reshape(32, per)
        for part in range(per):
            value = index * per + part
            row = g + 8 * (value // 2 % 2)
            d[row, 8 * (value // 4) + 2 * t + value % 2] = parts[:, part]
    return d


def mma_text(name: str, a: int, b: int, c: int) -> str:
    """A kernel that reads fragments [registers, 32] and runs one mma.sync."""
    lines = [f".reg .b32 %a<{a}>, %b<{b}>, %c<{c}>, %t; .reg .b64 %p, %q, %o;"]
    lines += ["mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4;"]
    for letter, count in (("a", a), ("b", b), ("c", c)):
        lines.append(f"ld.param.b64 %p, [{letter}]; add.s64 %p, %p, %o;")
        lines += [f"ld.global.b32 %{letter}{i}, [%p+{128 * i}];" for i in range(count)]
    d, x, y = ("{" + ", ".join(f"%{k}{i}" for i in range(n)) + "}" for k, n in
               (("c", c), ("a", a), ("b", b)))  # fmt: skip
    lines.append(f"{name} {d}, {x}, {y}, {d};")
    lines += ["ld.param.b64 %q, [d]; add.s64 %q, %q, %o;"]
    lines += [f"st.global.b32 [%q+{128 * i}], %c{i};" for i in range(c)]
    return "\n".join([*lines, "ret;"])


MMA = [
    ("m16n8k16", "f32", "bf16", "bf16"),
    ("m16n8k8", "f32", "bf16", "bf16"),
    ("m16n8k16", "f32", "f16", "f16"),
    ("m16n8k8", "f16", "f16", "f16"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "f32", "tf32", "tf32"),
    ("m16n8k4", "f32", "tf32", "tf32"),
    ("m16n8k32", "f32", "e4m3", "e5m2"),
    ("m16n8k16", "f32", "e5m2", "e5m2"),
    ("m16n8k32", "s32", "s8", "s8"),
    ("m16n8k16", "s32", "u8", "s8"),
    ("m16n8k32", "s32", "s8", "u8"),
]


def expected_product(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, types: tuple[str, str, str], step: int
) -> np.ndarray:
    """Patterns of a · b + c by the model."""
    result, left, right = types
    if result == "s32":
        named = {"s8": INTEGERS["i8"], "u8": INTEGERS["u8"]}
        x, y = decode(a, named[left]), decode(b, named[right])
        return integer_matmul(x, y, c.view(np.int32)).view(np.uint32)
    accumulator = f16 if result == "f16" else f32
    kind = kind_of(FORMATS[left], FORMATS[right], accumulator)
    x, y = decode(a, FORMATS[left]), decode(b, FORMATS[right])
    start = decode(c, accumulator)
    multiply = fp8_mma_sync if left.startswith("e") and step == 0 else matmul
    return encode(np.asarray(multiply(x, y, start, kind=kind)), accumulator)


@pytest.mark.parametrize("shape, result, left, right", MMA)  # noqa: PT006
def test_mma_sync(run_kernel, shape: str, result: str, left: str, right: str) -> None:
    depth = int(shape.split("k")[1])
    a, b = elements((16, depth), left, 1), elements((depth, 8), right, 2)
    registers = 2 if result == "f16" else 4
    rng = np.random.default_rng(3)
    if result == "s32":
        c = rng.integers(-1000, 1000, (registers, 32), dtype=np.int32).view(np.uint32)
    else:
        start = rng.integers(-8, 8, (registers, 64 if registers == 2 else 32))
        c = encode(start.astype(np.float32), f16 if registers == 2 else f32).view(np.uint32)
    name = f"mma.sync.aligned.{shape}.row.col.{result}.{left}.{right}.{result}"
    fragments = {"a": np.stack(a_registers(a)), "b": np.stack(b_registers(b)), "c": c}
    d = np.zeros_like(c)
    text = mma_text(name, len(fragments["a"]), len(fragments["b"]), registers)
    run_kernel(text, {**fragments, "d": d})
    itemsize = 2 if registers == 2 else 4
    want = expected_product(a, b, d_matrix(c, itemsize), (result, left, right), 0)
    assert np.array_equal(d_matrix(d, itemsize), want)


@pytest.mark.parametrize("name", ["bf16", "f16"])
@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_bit_patterns(run_kernel, name: str, data: st.DataObject) -> None:
    """Infinities, NaN with any payload, subnormals and zeros of both signs among them."""
    shape = st.sampled_from([(16, 16), (16, 8)])
    rows, depth = data.draw(shape, label="shape of a")
    bits = st.integers(0, 0xFFFF)
    a = data.draw(arrays(np.uint16, (rows, depth), elements=bits), label="a")
    b = data.draw(arrays(np.uint16, (depth, 8), elements=bits), label="b")
    c = data.draw(arrays(np.uint32, (4, 32), elements=st.integers(0, 0xFFFFFFFF)), label="c")
    buffers = {"a": np.stack(a_registers(a)), "b": np.stack(b_registers(b)), "c": c}
    d = np.zeros_like(c)
    text = f"mma.sync.aligned.m16n8k{depth}.row.col.f32.{name}.{name}.f32"
    counts = len(buffers["a"]), len(buffers["b"]), 4
    run_kernel(mma_text(text, *counts), {**buffers, "d": d})
    kind = replace(kind_of(FORMATS[name], FORMATS[name]), step=depth)
    x, y, start = decode(a, FORMATS[name]), decode(b, FORMATS[name]), d_matrix(c, 4)
    expected = matmul(x, y, start.view(np.float32), kind=kind)
    assert np.array_equal(d_matrix(d, 4), expected.view(np.uint32))


def test_mma_sync_saturates_when_asked_to(run_kernel) -> None:
    a, b = np.full((16, 32), 127, np.uint8), np.full((32, 8), 127, np.uint8)
    c = np.full((4, 32), 0x7FFFFFF0, np.uint32)
    for modifier, want in (("", (0x7FFFFFF0 + 32 * 127 * 127) % 2**32), (".satfinite", 0x7FFFFFFF)):
        d = np.zeros_like(c)
        name = f"mma.sync.aligned.m16n8k32.row.col{modifier}.s32.s8.s8.s32"
        buffers = {"a": np.stack(a_registers(a)), "b": np.stack(b_registers(b)), "c": c, "d": d}
        run_kernel(mma_text(name, 4, 2, 4), buffers)
        assert (d == want).all()


def test_tf32_operands_lose_their_low_bits(run_kernel) -> None:
    a = np.full((16, 8), 0x3F801FFF, np.uint32)
    b, c = np.full((8, 8), 0x3F800000, np.uint32), np.zeros((4, 32), np.uint32)
    d = np.zeros_like(c)
    name = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    buffers = {"a": np.stack(a_registers(a)), "b": np.stack(b_registers(b)), "c": c, "d": d}
    run_kernel(mma_text(name, 4, 2, 4), buffers)
    assert (d.view(np.float32) == 8).all()


@pytest.mark.parametrize(
    "name",
    [
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32",
    ],
)
def test_other_forms_are_refused_by_name(run_kernel, name: str) -> None:
    buffers = {key: np.zeros((4, 32), np.uint32) for key in "abcd"}
    with pytest.raises(UnsupportedInstructionError, match=name.split(".")[0]):
        run_kernel(mma_text(name, 4, 2, 4), buffers)


def test_undefined_registers_are_no_operands(run_kernel) -> None:
    text = """
    .reg .b32 %a<4>, %b<2>, %c<4>;
    mov.b32 %b0, 0; mov.b32 %b1, 0; mov.b32 %a0, 0; mov.b32 %a1, 0; mov.b32 %a2, 0;
    mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
        {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
    ret;"""
    with pytest.raises(UndefinedValueError, match="matrix operand"):
        run_kernel(text, {})


def test_part_of_a_warp_multiplies_nothing(run_kernel) -> None:
    text = mma_text("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4)
    text = text.replace("mma.sync", ".reg .pred %q0; setp.lt.u32 %q0, %t, 16; @%q0 mma.sync")
    buffers = {key: np.zeros((4, 32), np.uint32) for key in "abcd"}
    with pytest.raises(BarrierDivergenceError, match="part of a warp"):
        run_kernel(text, buffers)


# wgmma: the image of shared memory is made here, element by element, from the tables of the ISA.

SPANS = {0: 16, 1: 128, 2: 64, 3: 32}
OFFSET = 1024
SHARED = 1024


def place(mode: int, mn: int, k: int, size: int, strides: tuple[int, int], transposed: bool) -> int:
    """Byte offset of an element before swizzling."""
    span, (leading, stride) = SPANS[mode], strides
    per = 16 // size
    if not transposed:
        inside = k * size if mode else k // per * leading + k % per * size
        return mn // 8 * stride + mn % 8 * span + inside
    if mode == 0:
        return mn // per * stride + k // 8 * leading + k % 8 * 16 + mn % per * size
    wide = span // size
    return mn // wide * leading + k // 8 * stride + k % 8 * span + mn % wide * size


def swizzled(address: int, mode: int) -> int:
    """The address with bits 4 to 6 changed by bits 7 to 9, as many as the mode says."""
    return address ^ ((address >> 7 & (SPANS[mode] // 16 - 1)) << 4)


def image(matrix: np.ndarray, mode: int, transposed: bool) -> tuple[np.ndarray, int]:
    """Bytes of an operand [M or N, K] and the upper fields of its descriptor."""
    rows, size = matrix.shape[0], matrix.itemsize
    span = SPANS[mode]
    if not transposed:
        leading, stride = (8 * 16 * (rows // 8), 8 * 16) if mode == 0 else (16, 8 * span)
    elif mode == 0:
        leading, stride = 8 * 16, 2 * 8 * 16
    else:
        leading, stride = 2 * 8 * span, 8 * span
    data = np.zeros(48 << 10, np.uint8)
    raw = matrix.view(np.uint8).reshape(*matrix.shape, size)
    used = 0
    for mn in range(rows):
        for k in range(matrix.shape[1]):
            at = swizzled(place(mode, mn, k, size, (leading, stride), transposed), mode)
            data[at : at + size] = raw[mn, k]
            used = max(used, at + size)
    return data[: -(-used // 1024) * 1024], mode << 62 | stride >> 4 << 32 | leading >> 4 << 16


def wgmma_text(
    name: str,
    registers: int,
    descriptors: tuple[int, int],
    tail: str,
    size: int,
    barrier: bool = True,
) -> str:
    """Copy an image to shared memory, multiply, write D [registers, 128]."""
    d = ", ".join(f"%d{i}" for i in range(registers))
    lines = [
        f".reg .b32 %d<{registers}>, %t, %s, %w; .reg .b64 %p, %o, %q, %x, %y; .reg .pred %z;",
        "mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; ld.param.b64 %p, [m]; add.s64 %p, %p, %o;",
        f"shl.b32 %s, %t, 2; add.s32 %s, %s, {SHARED};",
    ]
    for step in range(size // 512):
        lines.append(f"ld.global.b32 %w, [%p+{512 * step}]; st.shared.b32 [%s+{512 * step}], %w;")
    lines += [f"mov.b32 %d{i}, 0f40000000;" for i in range(registers)]
    lines += ["bar.sync 0;"] * barrier
    lines += [
        "fence.proxy.async.shared::cta; wgmma.fence.sync.aligned; setp.eq.u32 %z, %t, %t;",
        f"mov.b64 %x, {descriptors[0]}; mov.b64 %y, {descriptors[1]};",
        f"{name} {{{d}}}, %x, %y, {tail};",
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "ld.param.b64 %q, [d]; add.s64 %q, %q, %o;",
        *(f"st.global.b32 [%q+{512 * i}], %d{i};" for i in range(registers)),
        "ret;",
    ]
    return "\n".join(lines)


def multiply(
    run_kernel: Callable[..., object],
    types: tuple[str, str, str],
    columns: int,
    modes: tuple[int, int],
    transposed: tuple[bool, bool] = (False, False),
    keep: str = "%z",
    signs: tuple[int, int] = (1, 1),
    **options: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """What wgmma gives, and what the model gives."""
    result, left, right = types
    size = 4 if left == "tf32" else 1 if left[0] in "esu" else 2
    depth = 32 // size
    a, b = elements((64, depth), left, 4), elements((columns, depth), right, 5)
    (first, upper_a), (second, upper_b) = image(a, modes[0], transposed[0]), image(
        b, modes[1], transposed[1])  # fmt: skip
    data = np.concatenate([first, second])
    descriptors = (upper_a | SHARED >> 4, upper_b | (SHARED + first.size) >> 4)
    registers = columns // 2 if result != "f16" else columns // 4
    tail = keep
    if result != "s32":
        tail += f", {signs[0]}, {signs[1]}"
    if size == 2:
        tail += f", {int(transposed[0])}, {int(transposed[1])}"
    name = f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{result}.{left}.{right}"
    d = np.zeros((registers, 128), np.uint32)
    run_kernel(
        wgmma_text(name, registers, descriptors, tail, data.size, **options),
        {"m": data, "d": d},
        block=(128, 1, 1),
        declarations=f".extern .shared .align 1024 .b8 s[{data.size}];",
    )
    itemsize = 2 if result == "f16" else 4
    actual = np.concatenate(
        [d_matrix(d[:, 32 * warp : 32 * warp + 32], itemsize) for warp in range(4)]
    )
    fill = {"f32": 0x40000000, "s32": 0x40000000, "f16": 0}[result]
    start = np.full(actual.shape, fill, actual.dtype)
    if result == "f16":
        start[:, 1::2] = 0x4000
    if keep == "0":
        start[:] = 0
    flip = (8 * size - 1) if left not in ("s8", "u8") else 0
    x = a ^ a.dtype.type((signs[0] < 0) << flip)
    y = b ^ b.dtype.type((signs[1] < 0) << flip)
    return actual, expected_product(x, np.ascontiguousarray(y.T), start, types, 1)


@pytest.mark.parametrize("columns", [8, 24, 64, 136, 256])
def test_wgmma_of_every_width(run_kernel, columns: int) -> None:
    actual, expected = multiply(run_kernel, ("f32", "bf16", "bf16"), columns, (1, 1))
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_wgmma_swizzles(run_kernel, mode: int, transposed: tuple[bool, bool]) -> None:
    types = ("f32", "f16", "f16")
    actual, expected = multiply(run_kernel, types, 128, (mode, 3 - mode), transposed)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize(
    "types",
    [("f32", "tf32", "tf32"), ("f32", "e4m3", "e4m3"), ("f32", "e5m2", "e4m3"),
     ("f16", "f16", "f16"), ("s32", "s8", "u8"), ("s32", "u8", "u8")],
)  # fmt: skip
@pytest.mark.parametrize("keep", ["%z", "0"])
def test_wgmma_types(run_kernel, types: tuple[str, str, str], keep: str) -> None:
    actual, expected = multiply(run_kernel, types, 16, (1, 2), keep=keep)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("signs", [(-1, 1), (1, -1), (-1, -1)])
def test_wgmma_negates_operands(run_kernel, signs: tuple[int, int]) -> None:
    types = ("f32", "bf16", "bf16")
    actual, expected = multiply(run_kernel, types, 16, (1, 1), signs=signs)
    assert np.array_equal(actual, expected)


def test_wgmma_sees_a_missing_barrier(run_kernel) -> None:
    with pytest.raises(SharedRaceError, match="matrix product reads"):
        multiply(run_kernel, ("f32", "bf16", "bf16"), 16, (1, 1), barrier=False)


def test_wgmma_reads_until_it_is_waited_for(run_kernel) -> None:
    """A barrier alone does not end a product; the next stage must not overwrite its operands."""
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
    descriptor = 1 << 62 | 64 << 32 | SHARED >> 4
    declarations = ".extern .shared .align 1024 .b8 s[8192];"
    data = np.zeros(8192, np.uint8)
    text = wgmma_text(name, 4, (descriptor, descriptor), "%z, 1, 1, 0, 0", data.size)
    wait, store = "wgmma.wait_group.sync.aligned 0;", "bar.sync 0; st.shared.b32 [%s], %t;"
    d = np.zeros((4, 128), np.uint32)
    for order, fails in ((wait + store, False), (store + wait, True)):
        buffers = {"m": data, "d": d}
        changed = text.replace(wait, order)
        if fails:
            with pytest.raises(SharedRaceError, match="overwrites what a matrix product reads"):
                run_kernel(changed, buffers, block=(128, 1, 1), declarations=declarations)
        else:
            run_kernel(changed, buffers, block=(128, 1, 1), declarations=declarations)
