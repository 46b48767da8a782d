"""Instructions that nvcc's headers use: dp2a, set of pairs, masks, tests of addresses."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(8)
WORDS = RNG.integers(0, 1 << 32, (3, 300), dtype=np.uint32)


@pytest.mark.parametrize("half", ["lo", "hi"])
@pytest.mark.parametrize("first", ["u32", "s32"])
@pytest.mark.parametrize("second", ["u32", "s32"])
def test_dp2a(apply, half, first, second):
    x, y, z = WORDS
    got = apply(f"dp2a.{half}.{first}.{second} {{d}}, {{0}}, {{1}}, {{2}};", x, y, z)
    halves = x.view("i2" if first == "s32" else "u2").reshape(-1, 2).astype(object)
    parts = y.view("i1" if second == "s32" else "u1").reshape(-1, 4).astype(object)
    parts = parts[:, 2:] if half == "hi" else parts[:, :2]
    want = ((halves * parts).sum(axis=1) + z.astype(object)) % (1 << 32)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize(("out", "true"), [("u32", 0xFFFF), ("f16x2", 0x3C00)])
def test_set_of_halves_in_pairs(apply, out, true):
    x, y, _ = WORDS
    y = np.where(np.arange(300) % 4 == 0, x, y)
    got = apply(f"set.le.{out}.f16x2 {{d}}, {{0}}, {{1}};", x, y)
    with np.errstate(invalid="ignore"):
        held = x.view(np.float16) <= y.view(np.float16)
    assert np.array_equal(got.view(np.uint16), np.where(held, true, 0))


def test_set_of_bf16_in_pairs(apply):
    x, y, _ = WORDS
    got = apply("set.gtu.bf16x2.bf16x2 {d}, {0}, {1};", x, y)
    wide = [(v.view(np.uint16).astype(np.uint32) << 16).view(np.float32) for v in (x, y)]
    with np.errstate(invalid="ignore"):
        held = ~(wide[0] <= wide[1])
    assert np.array_equal(got.view(np.uint16), np.where(held, 0x3F80, 0))


def ones_from(position: int) -> int:
    return (0xFFFFFFFF << position) & 0xFFFFFFFF if position < 32 else 0


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_masks(apply, mode):
    position, width = (np.repeat(np.arange(70), 70), np.tile(np.arange(70), 70))
    got = apply(f"bmsk.{mode}.b32 {{d}}, {{0}}, {{1}};", position.astype("u4"), width.astype("u4"))
    if mode == "wrap":
        position, width = position & 31, width & 31
    want = [ones_from(p) & ~ones_from(p + w) for p, w in zip(position, width, strict=True)]
    assert got.tolist() == want


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_extension_of_low_bits(apply, mode, kind):
    x, width = WORDS[0], np.arange(300, dtype=np.uint32) % 70
    got = apply(f"szext.{mode}.{kind} {{d}}, {{0}}, {{1}};", x, width)

    def model(value: int, bits: int) -> int:
        bits = min(bits, 32) if mode == "clamp" else bits & 31
        low = value % (1 << bits)
        negative = kind == "s32" and bits > 0 and low >> (bits - 1)
        return (low - (1 << bits)) % (1 << 32) if negative else low

    assert got.tolist() == [model(int(v), int(w)) for v, w in zip(x, width, strict=True)]


def test_spaces_of_generic_addresses(run_kernel):
    out = np.zeros(32, np.uint32)
    body = """.reg .b64 %a<4>; .reg .b32 %r<4>; .reg .pred %p<4>; .local .b8 own[4]; .shared .b32 s;
    ld.param.b64 %a0, [po]; mov.b64 %a1, own; cvta.local.u64 %a1, %a1;
    mov.b64 %a2, s; cvta.shared.u64 %a2, %a2; mov.u32 %r0, 0;
    """
    bit = 1
    for address in ("%a0", "%a1", "%a2"):
        for space in ("global", "local", "shared"):
            body += f"isspacep.{space} %p0, {address}; @%p0 or.b32 %r0, %r0, {bit};\n"
            bit *= 2
    body += """mov.u32 %r1, %tid.x; mul.wide.u32 %a3, %r1, 4; add.s64 %a0, %a0, %a3;
    st.global.b32 [%a0], %r0; ret;"""
    run_kernel(body, {"po": out})
    assert set(out.tolist()) == {0b100_010_001}
