"""Atomics whose result does not depend on order, cache hints, 64-bit offsets and masks."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import Draw, constant, integers, moderate, patterns, permutation
from ..program import Program, Tensors, elementwise, empty

N = 1019


@triton.jit
def _atomic(x_ptr, slot_ptr, add_ptr, max_ptr, min_ptr, and_ptr, or_ptr, xor_ptr, n,
            BLOCK: tl.constexpr):  # fmt: skip
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    slot = tl.load(slot_ptr + offsets, mask=inside)
    tl.atomic_add(add_ptr + slot, x, mask=inside)
    tl.atomic_max(max_ptr + slot, x, mask=inside)
    tl.atomic_min(min_ptr + slot, x, mask=inside)
    tl.atomic_and(and_ptr + slot, x, mask=inside)
    tl.atomic_or(or_ptr + slot, x, mask=inside, sem="relaxed")
    tl.atomic_xor(xor_ptr + slot, x, mask=inside, scope="sys")


@triton.jit
def _atomic_alone(x_ptr, slot_ptr, sum_ptr, old_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    slot = tl.load(slot_ptr + offsets, mask=inside)
    old = tl.atomic_add(sum_ptr + slot, x, mask=inside)
    tl.store(old_ptr + offsets, old, mask=inside)


@triton.jit
def _exchange(x_ptr, expected_ptr, slot_ptr, swap_ptr, cas_ptr, old_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, expected = tl.load(x_ptr + offsets), tl.load(expected_ptr + offsets)
    slot = tl.load(slot_ptr + offsets)
    old = tl.atomic_xchg(swap_ptr + slot, x)
    seen = tl.atomic_cas(cas_ptr + slot, expected, x)
    tl.store(old_ptr + offsets, old ^ seen)


@triton.jit
def _count(x_ptr, total_ptr, largest_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))
    tl.atomic_max(largest_ptr, tl.max(x, axis=0))


@triton.jit
def _hints(x_ptr, y_ptr, out_ptr, other_ptr, third_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, eviction_policy="evict_last")
    y = tl.load(y_ptr + offsets, mask=inside, eviction_policy="evict_first")
    y += tl.load(x_ptr + offsets, mask=inside, cache_modifier=".ca")
    y -= tl.load(x_ptr + offsets, mask=inside, cache_modifier=".cg")
    z = tl.load(x_ptr + offsets, mask=inside, volatile=True)
    tl.store(out_ptr + offsets, x + y, mask=inside, cache_modifier=".cs")
    tl.store(third_ptr + offsets, z, mask=inside, eviction_policy="evict_first")
    tl.store(other_ptr + offsets, z - y, mask=inside, cache_modifier=".wt")


@triton.jit
def _masked(x_ptr, y_ptr, out_ptr, sparse_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    y = tl.load(y_ptr + offsets, mask=inside, other=0)
    x = tl.load(x_ptr + offsets, mask=inside & (y % 3 == 0), other=-2.5)
    tl.store(out_ptr + offsets, x, mask=inside)
    tl.store(sparse_ptr + offsets, x, mask=inside & (y % 5 == 0))


@triton.jit
def _far(x_ptr, index_ptr, out_ptr, base, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offsets, mask=offsets < n)
    # The offsets pass 2^32 bytes on the way, and come back.
    there = x_ptr + base
    tl.store(out_ptr + offsets, tl.load(there + (index - base), mask=offsets < n), mask=offsets < n)


@triton.jit
def _scatter(x_ptr, slot_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slot_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + slot, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def _in_place(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.debug_barrier()
    tl.store(x_ptr + offsets, x * x, mask=offsets < n)


@triton.jit
def _grid(out_ptr, X: tl.constexpr, Y: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    shape = tl.num_programs(0) * 10000 + tl.num_programs(1) * 100 + tl.num_programs(2)
    tl.store(out_ptr + (z * Y + y) * X + x, shape + x + y * 7 + z * 49)


def _shared_slots(dtype: str) -> Program:
    names = ("add", "max", "min", "and", "or", "xor")

    def launch(t: Tensors) -> None:
        grid = (triton.cdiv(N, 256),)
        _atomic[grid](t["x"], t["slot"], *(t[key] for key in names), N, BLOCK=256)

    inputs = {"x": patterns((N,), dtype), "slot": integers((N,), "i32", 0, 36)}
    outputs = {key: patterns((37,), dtype) for key in names}
    return Program(f"atomic_{dtype}", launch, inputs, outputs)


def _own_slot(dtype: str, values: Draw) -> Program:
    def launch(t: Tensors) -> None:
        grid = (triton.cdiv(N, 256),)
        _atomic_alone[grid](t["x"], t["slot"], t["sum"], t["old"], N, BLOCK=256)

    outputs = {"sum": values, "old": empty(N, dtype)}
    return Program(
        f"atomic_alone_{dtype}", launch, {"x": values, "slot": permutation((N,))}, outputs
    )


def _exchanges(dtype: str) -> Program:
    def launch(t: Tensors) -> None:
        _exchange[(2,)](t["x"], t["expected"], t["slot"], t["swap"], t["cas"], t["old"], 256)

    few = integers((512,), dtype, 0, 2)
    inputs = {"x": patterns((512,), dtype), "expected": few, "slot": permutation((512,))}
    outputs = {"swap": patterns((512,), dtype), "cas": few, "old": empty(512, dtype)}
    return Program(f"atomic_exchange_{dtype}", launch, inputs, outputs)


def _counters() -> Program:
    def launch(t: Tensors) -> None:
        _count[(triton.cdiv(N, 128),)](t["x"], t["total"], t["largest"], N, BLOCK=128)

    outputs = {"total": constant((1,), "i32"), "largest": constant((1,), "i32")}
    return Program("atomic_counters", launch, {"x": patterns((N,), "i32")}, outputs)


def _distant() -> Program:
    def launch(t: Tensors) -> None:
        grid = (triton.cdiv(N, 256),)
        _far[grid](t["x"], t["index"], t["out"], 3 << 33, N, BLOCK=256)

    inputs = {"x": patterns((N,), "f32"), "index": integers((N,), "i64", 0, N - 1)}
    return Program("offsets_64_bit", launch, inputs, {"out": empty(N, "f32")})


def _scattered(dtype: str) -> Program:
    inputs = {"x": patterns((N,), dtype), "slot": permutation((N,), "i64")}
    return elementwise(f"scatter_{dtype}", _scatter, inputs, {"out": dtype}, block=256)


def _squared_in_place(dtype: str) -> Program:
    def launch(t: Tensors) -> None:
        _in_place[(triton.cdiv(N, 256),)](t["x"], N, BLOCK=256, enable_fp_fusion=False)

    return Program(f"in_place_{dtype}", launch, {}, {"x": patterns((N,), dtype)})


def _three_dimensional_grid() -> Program:
    def launch(t: Tensors) -> None:
        _grid[(5, 3, 4)](t["out"], 5, 3)

    return Program("grid_3d", launch, {}, {"out": empty((4, 3, 5), "i32")})


PROGRAMS = [
    _shared_slots("i32"), _shared_slots("u32"), _shared_slots("i64"), _counters(),
    _own_slot("i32", patterns((N,), "i32")), _own_slot("f32", moderate((N,), "f32")),
    _own_slot("f64", moderate((N,), "f64")), _own_slot("f16", moderate((N,), "f16")),
    _exchanges("i32"), _exchanges("i64"), _distant(),
    elementwise("cache_hints", _hints,
                {"x": moderate((1024,), "f32"), "y": moderate((1024,), "f32")},
                dict.fromkeys(("out", "other", "third"), "f32"), enable_fp_fusion=False),
    elementwise("masks", _masked, {"x": patterns((N,), "f32"), "y": patterns((N,), "i32")},
                {"out": "f32", "sparse": "f32"}),
    _scattered("f32"), _scattered("bf16"), _scattered("i8"),
    _squared_in_place("f32"), _squared_in_place("bf16"), _three_dimensional_grid(),
]  # fmt: skip
