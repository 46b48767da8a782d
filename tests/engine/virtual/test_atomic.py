"""Atomics: those whose result depends on the order of threads are refused."""

import numpy as np
import pytest

from exactness.virtual.errors import OrderDependenceError

START = """
    .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<8>;
    .shared .align 16 .b8 box[256];
    ld.param.b64 %rd1, [x]; ld.param.b64 %rd2, [y];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
    mad.wide.u32 %rd3, %r3, 4, %rd1; mad.wide.u32 %rd4, %r3, 4, %rd2;
    ld.global.b32 %r4, [%rd3];
    and.b32 %r5, %r3, 7; mad.wide.u32 %rd5, %r5, 4, %rd2;
"""


def run(run_kernel, body: str, y: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(2).integers(0, 1 << 32, 256, dtype=np.uint32)
    y = np.full(256, 3, np.uint32) if y is None else y
    run_kernel(f"{START} {body} ret;", {"x": x, "y": y}, block=(64, 1, 1), grid=(4, 1, 1))
    return x, y


@pytest.mark.parametrize(
    ("name", "ufunc", "view"),
    [
        ("add.u32", np.add, np.uint32),
        ("min.u32", np.minimum, np.uint32),
        ("max.s32", np.maximum, np.int32),
        ("and.b32", np.bitwise_and, np.uint32),
        ("or.b32", np.bitwise_or, np.uint32),
        ("xor.b32", np.bitwise_xor, np.uint32),
    ],
)
@pytest.mark.parametrize("form", ["red.global", "atom.global.gpu.acq_rel"])
def test_commuting_atomics_take_any_number_of_threads(run_kernel, name, ufunc, view, form):
    result = "%r9, " if form.startswith("atom") else ""
    x, y = run(run_kernel, f"{form}.{name} {result}[%rd5], %r4;")
    want = np.full(8, 3, np.uint32).view(view)
    for value, place in zip(x.view(view), np.arange(256) % 8, strict=True):
        want[place] = ufunc(want[place], value)
    assert (y[:8] == want.view(np.uint32)).all()
    assert (y[8:] == 3).all()


def test_one_contribution_an_address_may_do_anything(run_kernel):
    x, y = run(run_kernel, "atom.global.add.u32 %r9, [%rd4], %r4; st.global.b32 [%rd3], %r9;")
    assert (x == 3).all()
    x, y = run(run_kernel, "atom.global.exch.b32 %r9, [%rd4], %r4;")
    assert (y == x).all()
    x, y = run(run_kernel, "atom.global.cas.b32 %r9, [%rd4], 3, %r4;")
    assert (y == x).all()
    start = np.full(256, 0x3F800000, np.uint32)
    x, y = run(run_kernel, "mov.b32 %r8, 0f40000000; red.global.add.f32 [%rd4], %r8;", start)
    assert (y == 0x40400000).all()


@pytest.mark.parametrize(
    "body",
    [
        "atom.global.add.u32 %r9, [%rd5], 1; st.global.b32 [%rd3], %r9;",
        "mov.b32 %r8, 0f3F800000; red.global.add.f32 [%rd5], %r8;",
        "atom.global.exch.b32 %r9, [%rd5], %r4;",
        "atom.global.cas.b32 %r9, [%rd5], 3, %r4;",
        "red.global.add.u32 [%rd5], 1; red.global.max.u32 [%rd5], 9;",
        "red.global.add.u32 [%rd5], 1; ld.global.b32 %r9, [%rd4];",
        "st.global.b32 [%rd4], 3; red.global.add.u32 [%rd5], 1;",
        "atom.shared.exch.b32 %r9, [box], %r4;",
        "red.global.add.u32 [%rd5], 1; st.global.b32 [%rd4], 3;",
    ],
)
def test_results_that_depend_on_the_order_are_refused(run_kernel, body):
    if "shared" in body:
        body = (
            "mov.b32 %r7, 0; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.b32 [box], %r7;"
            f" bar.sync 0; {body}"
        )
    with pytest.raises(OrderDependenceError, match=r"depends on the order|another block|an atomic"):
        run(run_kernel, body)


def test_shared_histogram(run_kernel):
    x, y = run(run_kernel, """
        mad.lo.u32 %r6, %r1, 4, box; setp.lt.u32 %p1, %r1, 8;
        mov.b32 %r7, box; mad.lo.u32 %r6, %r1, 4, %r7;
        @%p1 st.shared.b32 [%r6], 0; bar.sync 0;
        and.b32 %r8, %r4, 7; mad.lo.u32 %r8, %r8, 4, %r7;
        atom.shared.add.u32 %r9, [%r8], 1; bar.sync 0;
        @%p1 ld.shared.b32 %r10, [%r6];
        @%p1 st.global.b32 [%rd4], %r10;""")  # fmt: skip
    for block in range(4):
        part = x[64 * block : 64 * block + 64]
        want = np.bincount(part & 7, minlength=8)
        assert (y[64 * block : 64 * block + 8] == want).all()


def test_f32_add_flushes_on_global_memory(run_kernel):
    start = np.full(256, 0x00000001, np.uint32)
    _, y = run(run_kernel, "mov.b32 %r8, 0f80000000; red.global.add.f32 [%rd4], %r8;", start)
    assert (y == 0).all()
