"""Loops with data-dependent trip counts, branches, divergence and device functions."""

from __future__ import annotations

import triton
import triton.language as tl

from ..draws import constant, integers, moderate
from ..program import Program, Tensors, elementwise, empty

N = 1019


@triton.jit
def _collatz(x_ptr, steps_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    steps = 0
    while x != 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    tl.store(steps_ptr + tl.program_id(0), steps)


@triton.jit
def _newton(x_ptr, out_ptr, rounds_ptr, N: tl.constexpr):
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    y, rounds = x, 0
    change = tl.max(tl.abs(x), axis=0)
    while (change > 1e-3) & (rounds < 40):
        better = 0.5 * (y + tl.div_rn(x, y))
        change = tl.max(tl.abs(better - y), axis=0)
        y = better
        rounds += 1
    tl.store(out_ptr + lanes, y)
    tl.store(rounds_ptr + tl.program_id(0), rounds)


@triton.jit
def _ragged_rows(x_ptr, begin_ptr, length_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin, length = tl.load(begin_ptr + row), tl.load(length_ptr + row)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + begin + lanes, mask=lanes < length, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


@triton.jit
def _interpreter(x_ptr, code_ptr, out_ptr, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    """Every program runs the operations in its row of code: a branch to one of many places."""
    row = tl.program_id(0)
    lanes = row * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    kept = x
    for at in range(LENGTH):
        operation = tl.load(code_ptr + row * LENGTH + at)
        if operation == 0:
            x = x + kept
        elif operation == 1:
            x = x * 0.75
        elif operation == 2:
            kept = x
        elif operation == 3:
            x = tl.maximum(x, kept - 1.0)
        elif operation == 4:
            x = tl.sqrt_rn(tl.abs(x))
        elif operation == 5:
            x = tl.sum(x, axis=0) - x
        elif operation == 6:
            kept = tl.div_rn(x, tl.abs(kept) + 1.0)
        else:
            x = kept - x
    tl.store(out_ptr + lanes, x)


@triton.jit
def _branches(x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = row * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if row == 5:
        return
    first = tl.load(x_ptr + row * BLOCK)
    if first > 0.0:
        if row % 2 == 0:
            y = x * 2.0
        else:
            y = x + first
    elif row > 8:
        y = -x
    else:
        y = tl.full((BLOCK,), 7.0, tl.float32)
    tl.store(out_ptr + lanes, y)


@triton.jit
def _choose(x, y):
    z = x - y
    if x < y:
        z = x * y
        if x < -1.0:
            z = x + y
    return z


@triton.jit
def _diverge(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    z = tl.map_elementwise(_choose, x, y)
    tl.store(out_ptr + offsets, z, mask=offsets < n)


@triton.jit(noinline=True)
def _leaf(x, scale):
    return x * scale - 1.0


@triton.jit
def _calls(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    y = _leaf(x, 3.0)
    if y > 0.0:
        y = _leaf(y, x)
    tl.store(out_ptr + tl.program_id(0), y)


@triton.jit
def _nested(x_ptr, out_ptr, rounds, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    for i in range(rounds):
        for j in tl.static_range(STEPS):
            x = tl.where(x > 1.0, x * 0.5, x + (i * STEPS + j).to(tl.float32))
    tl.store(out_ptr + lanes, x)


@triton.jit
def _pipelined(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + lanes) * tl.load(y_ptr + lanes)
    tl.store(out_ptr + tl.arange(0, BLOCK), total)


@triton.jit
def _scalars(out_ptr, i, big, f, flag, none, names: tl.constexpr, BLOCK: tl.constexpr):
    value = tl.arange(0, BLOCK).to(tl.float32) * f + i
    if none is not None:
        value += tl.load(none)
    if flag:
        value += (big >> 33).to(tl.float32) + names[1]
    tl.store(out_ptr + tl.arange(0, BLOCK), value)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=2),
        triton.Config({"BLOCK": 256}, num_warps=4),
    ],
    key=["n"],
)
@triton.jit
def _tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.div_rn(x, 3.0 + x), mask=offsets < n)


@triton.heuristics({
    "BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"]),
    "EVEN": lambda arguments: arguments["n"] % 2 == 0,
})  # fmt: skip
@triton.jit
def _by_heuristics(x_ptr, out_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(out_ptr + lanes, x if EVEN else -x, mask=lanes < n)


@triton.jit
def _chosen(x_ptr, keep_ptr, out_ptr, any_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(keep_ptr + offsets, mask=offsets < n, other=False)
    x = tl.load(x_ptr + offsets, mask=keep, other=0.0)
    tl.store(out_ptr + offsets, x, mask=offsets < n)
    tl.store(any_ptr + offsets, keep | (x > 1.0), mask=offsets < n)


def _autotuned() -> Program:
    def launch(t: Tensors) -> None:
        _tuned[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](t["x"], t["out"], N)

    inputs = {"x": moderate((N,), "f32")}
    return Program("autotuned", launch, inputs, {"out": empty(N, "f32")})


def _heuristic(n: int) -> Program:
    def launch(t: Tensors) -> None:
        _by_heuristics[(1,)](t["x"], t["out"], n)

    x = {"x": moderate((n,), "f32")}
    return Program(f"heuristics-n={n}", launch, x, {"out": empty(n, "f32")})


def _halving() -> Program:
    def launch(t: Tensors) -> None:
        _collatz[(64,)](t["x"], t["steps"])

    x = integers((64,), "i32", 1, 300)
    return Program("while_collatz", launch, {"x": x}, {"steps": empty(64, "i32")})


def _square_roots() -> Program:
    def launch(t: Tensors) -> None:
        _newton[(8,)](t["x"], t["out"], t["rounds"], 128, enable_fp_fusion=False)

    # Bits with a clear sign: the positive floats from 2^-3 to 2^5.
    x = integers((1024,), "f32", 0x3E000000, 0x42000000)
    outputs = {"out": empty(1024, "f32"), "rounds": empty(8, "i32")}
    return Program("while_newton", launch, {"x": x}, outputs)


def _ragged(warps: int) -> Program:
    def launch(t: Tensors) -> None:
        _ragged_rows[(24,)](t["x"], t["begin"], t["length"], t["out"], 64, num_warps=warps,
                            enable_fp_fusion=False)  # fmt: skip

    inputs = {"x": moderate((900,), "f32"), "begin": integers((24,), "i64", 0, 500),
              "length": integers((24,), "i32", 0, 400)}  # fmt: skip
    return Program(f"for_ragged_rows-warps={warps}", launch, inputs, {"out": empty(24, "f32")})


def _scalar_branches() -> Program:
    def launch(t: Tensors) -> None:
        _branches[(16,)](t["x"], t["out"], 64)

    x = moderate((16, 64), "f32")
    return Program("scalar_branches", launch, {"x": x}, {"out": empty((16, 64), "f32")})


def _indexed_branches() -> Program:
    def launch(t: Tensors) -> None:
        _interpreter[(24,)](t["x"], t["code"], t["out"], 10, 64, enable_fp_fusion=False)

    inputs = {"x": moderate((24, 64), "f32"), "code": integers((24, 10), "i32", 0, 7)}
    return Program("indexed_branches", launch, inputs, {"out": empty((24, 64), "f32")})


def _device_function() -> Program:
    def launch(t: Tensors) -> None:
        _calls[(64,)](t["x"], t["out"], enable_fp_fusion=False)

    x = moderate((64,), "f32")
    outputs = {"out": empty(64, "f32")}
    # Recorded when calls were refused; inputs are drawn from the name, so it stays.
    return Program("refused_call", launch, {"x": x}, outputs)


def _loops(rounds: int) -> Program:
    def launch(t: Tensors) -> None:
        _nested[(4,)](t["x"], t["out"], rounds, 3, 128, enable_fp_fusion=False)

    name = f"for_nested-rounds={rounds}"
    return Program(name, launch, {"x": moderate((512,), "f32")}, {"out": empty(512, "f32")})


def _staged(stages: int, dtype: str) -> Program:
    def launch(t: Tensors) -> None:
        _pipelined[(1,)](t["x"], t["y"], t["out"], 1024, 128, stages, enable_fp_fusion=False)

    inputs = {"x": moderate((1024,), dtype), "y": moderate((1024,), dtype)}
    name = f"for_pipelined_{dtype}-stages={stages}"
    return Program(name, launch, inputs, {"out": empty(128, "f32")})


def _arguments(i: int, flag: bool, given: bool) -> Program:
    def launch(t: Tensors) -> None:
        none = t["extra"] if given else None
        _scalars[(1,)](t["out"], i, 5 << 40, 0.1, flag, none, ("a", 3), 64, enable_fp_fusion=False)

    name = f"scalar_arguments-i={i}-flag={flag}-given={given}"
    return Program(
        name, launch, {"extra": constant((1,), "f32", 0x3FC00000)}, {"out": empty(64, "f32")}
    )


PROGRAMS = [
    _halving(), _square_roots(), _ragged(1), _ragged(4), _scalar_branches(), _indexed_branches(),
    elementwise("diverge_elementwise", _diverge,
                {"x": moderate((N,), "f32"), "y": moderate((N,), "f32")}, {"out": "f32"},
                enable_fp_fusion=False),
    _device_function(), _autotuned(), _heuristic(100), _heuristic(333),
    elementwise("boolean_tensors", _chosen,
                {"x": moderate((N,), "f32"), "keep": integers((N,), "b8", 0, 1)},
                {"out": "f32", "any": "b8"}),
    _loops(0), _loops(5), _staged(1, "f32"), _staged(3, "f32"), _staged(4, "bf16"),
    _arguments(1, True, False), _arguments(16, False, True), _arguments(-7, True, True),
]  # fmt: skip
