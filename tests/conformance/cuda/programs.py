"""The CUDA conformance programs: launches of the kernels in the .cu files of this folder."""

from __future__ import annotations

from collections.abc import Iterator

from ..draws import Draw, constant, integers, moderate, patterns
from ..program import empty
from .program import Build, CudaProgram

FAST = ("--use_fast_math",)
UNFUSED = ("-fmad=false",)


def load() -> dict[str, CudaProgram]:
    """Return all programs by name.

    Raises:
        ValueError: two programs share a name.
    """
    programs: dict[str, CudaProgram] = {}
    for make in (_reductions, _norms, _functions, _directed, _halves, _private, _calls, _integers,
                 _warps, _selection, _tables, _tiles):  # fmt: skip
        for program in make():
            if program.name in programs:
                raise ValueError(f"there are two programs named {program.name!r}")
            programs[program.name] = program
    return programs


def _suffix(flags: tuple[str, ...]) -> str:
    return {FAST: "-fast", UNFUSED: "-unfused"}.get(flags, "")


def _reductions() -> Iterator[CudaProgram]:
    for flags in ((), UNFUSED, FAST):
        build = Build("reductions", flags)
        for n in (1, 257, 1000):
            x = {"x": moderate((48, n), "f32", -6, 6)}
            yield CudaProgram(
                f"shuffle_sum_of_squares-n={n}{_suffix(flags)}", build, "shuffle_sum_of_squares",
                48, 256, ("x", "out", n), x, {"out": empty(48, "f32")},
            )  # fmt: skip
            yield CudaProgram(
                f"welford-n={n}{_suffix(flags)}", build, "welford", 48, 32, ("x", "out", n),
                x, {"out": empty((48, 2), "f32")},
            )  # fmt: skip
    build = Build("reductions")
    for n in (1, 127, 128, 129, 1000):
        x = {"x": moderate((48, n), "f32", -6, 6)}
        yield CudaProgram(
            f"tree_sum-n={n}", build, "tree_sum", 48, 128, ("x", "out", n), x,
            {"out": empty(48, "f32")},
        )  # fmt: skip
    for threads in (64, 256):
        yield CudaProgram(
            f"max_and_sum-threads={threads}", build, "max_and_sum", 32, threads,
            ("x", "largest", "total", 777), {"x": moderate((32, 777), "f32", -20, 20)},
            {"largest": empty(32, "f32"), "total": empty(32, "f64")}, shared=12 * threads,
        )  # fmt: skip


def _norms() -> Iterator[CudaProgram]:
    for flags in ((), UNFUSED, FAST):
        build, end = Build("norms", flags), _suffix(flags)
        affine = {"weight": moderate((256,), "f32", -2, 2), "bias": moderate((256,), "f32", -2, 2)}
        yield CudaProgram(
            f"layer_norm{end}", build, "layer_norm", 4, 64,
            ("x", "weight", "bias", "out", 256, 1e-5),
            {"x": moderate((4, 256), "f32", -4, 4), **affine}, {"out": empty((4, 256), "f32")},
        )  # fmt: skip
        rows = (4, 320)
        yield CudaProgram(
            f"add_rms_norm{end}", build, "add_rms_norm", 4, 96,
            ("x", "residual", "weight", "out", 320, 1e-6),
            {"residual": moderate(rows, "bf16", -4, 4), "weight": moderate((320,), "bf16", -2, 2)},
            {"x": moderate(rows, "bf16", -4, 4), "out": empty(rows, "bf16")},
        )  # fmt: skip
        yield CudaProgram(
            f"softmax{end}", build, "softmax", 4, 32, ("x", "out", 251),
            {"x": moderate((4, 251), "f32", -5, 3)}, {"out": empty((4, 251), "f32")},
        )  # fmt: skip


_EVERYWHERE = (
    "exponential exponential_fast powers_of_two reciprocal_root root quotient quotient_fast"
    " reciprocal error_function silu gelu"
).split()
_ACCURATE = ("hyperbolic_tangent", "logarithm", "sine", "power")
_APPROXIMATE = {
    "hyperbolic_tangent": "tanh.approx.f32",
    "logarithm": "lg2.approx.ftz.f32",
    "sine": "sin.approx.ftz.f32",
    "power": "lg2.approx.ftz.f32",
}
"""What fast math makes of them, none of which has a bit model."""


def _functions() -> Iterator[CudaProgram]:
    for flags in ((), FAST):
        for kernel in (*_EVERYWHERE, *_ACCURATE):
            refused = _APPROXIMATE.get(kernel, "") if flags == FAST else ""
            yield _map(f"{kernel}{_suffix(flags)}", Build("functions", flags), kernel, refused)
    refused = "lg2.approx.f32"
    yield _map("logarithm_fast", Build("functions"), "logarithm_fast", refused)


def _map(name: str, build: Build, kernel: str, refused: str, planes: int = 1) -> CudaProgram:
    n = 600 if planes == 1 else 250
    return CudaProgram(
        name, build, kernel, -(-n // 128), 128, ("x", "y", "out", n),
        {"x": patterns((n,), "f32"), "y": patterns((n,), "f32")},
        {"out": empty((planes, n), "f32")}, refused=refused,
    )  # fmt: skip


def _directed() -> Iterator[CudaProgram]:
    for flags in ((), UNFUSED):
        yield _map(f"directed{_suffix(flags)}", Build("functions", flags), "directed", "", 8)
    n = 160
    for flags in ((), UNFUSED):
        yield CudaProgram(
            f"doubles{_suffix(flags)}", Build("doubles", flags), "doubles", -(-n // 128), 128,
            ("x", "y", "out", n), {"x": patterns((n,), "f64"), "y": patterns((n,), "f64")},
            {"out": empty((8, n), "f64")},
        )  # fmt: skip


def _halves() -> Iterator[CudaProgram]:
    n, build = 500, Build("halves")
    for kernel, dtype, planes in (
        ("half_arithmetic", "f16", 10), ("bf16_arithmetic", "bf16", 9),
        ("bf16_contraction", "bf16", 2),
    ):  # fmt: skip
        yield CudaProgram(
            kernel, build, kernel, -(-n // 128), 128, ("x", "y", "z", "out", n),
            {key: patterns((n,), dtype) for key in "xyz"}, {"out": empty((planes, n), dtype)},
        )  # fmt: skip
    pairs = (n, 2)
    yield CudaProgram(
        "packed", build, "packed", -(-n // 128), 128,
        ("x", "y", "out", "u", "v", "result", "masks", n),
        {"x": patterns(pairs, "f16"), "y": patterns(pairs, "f16"),
         "u": patterns(pairs, "bf16"), "v": patterns(pairs, "bf16")},
        {"out": empty((2, *pairs), "f16"), "result": empty((2, *pairs), "bf16"),
         "masks": empty(n, "u32")},
    )  # fmt: skip
    yield CudaProgram(
        "conversions", build, "conversions", -(-n // 128), 128, ("x", "out", n),
        {"x": _numbers(n)}, {"out": empty((10, n), "u16")},
    )  # fmt: skip


def _numbers(n: int) -> Draw:
    """Any f32 but NaN, whose payload the outputs, which are integers, would show."""
    draw = patterns((n,), "f32")

    def make(words):  # type: ignore[no-untyped-def]
        bits = draw.make(words)
        return bits & ~((bits & 0x7FFFFFFF) > 0x7F800000).astype("u8") * bits

    return Draw(draw.shape, draw.dtype, make)


def _private() -> Iterator[CudaProgram]:
    build = Build("private")
    yield CudaProgram(
        "insertion_sort", build, "insertion_sort", 2, 64, ("x", "out", 1200),
        {"x": moderate((1200,), "f32", -2, 2)}, {"out": empty(1200, "f32")},
    )  # fmt: skip
    steps = ("4f5ih", 0.3, -1.7, 2.5, 1e-3, 7, -9, 11, 100, -3, -2)
    yield CudaProgram(
        "steps_by_value", build, "steps_by_value", 8, 128, (steps, "which", "x", "out", 1000),
        {"which": integers((1000,), "i32", -50, 50), "x": moderate((1000,), "f32", -4, 4)},
        {"out": empty(1000, "f32")},
    )  # fmt: skip
    yield CudaProgram(
        "pointers_in_a_struct", build, "pointers_in_a_struct", 6, 64,
        (("PPif", "x", "out", 150, 0.7),), {"x": moderate((6, 150), "f32", -4, 4)},
        {"out": empty((6, 150), "f32")},
    )  # fmt: skip


def _calls() -> Iterator[CudaProgram]:
    for flags in ((), UNFUSED):
        build = Build("calls", flags)
        yield CudaProgram(
            f"nested_calls{_suffix(flags)}", build, "nested_calls", 6, 96,
            ("x", "first", "second", "count", 333), {"x": moderate((333,), "f32", -3, 2)},
            {"first": empty(333, "f32"), "second": empty(333, "f64"), "count": empty(333, "i32")},
        )  # fmt: skip
        yield CudaProgram(
            f"generic_pointers{_suffix(flags)}", build, "generic_pointers", 8, 32, ("x", "out"),
            {"x": moderate((256,), "f32", -3, 3)}, {"out": empty(256, "f32")},
        )  # fmt: skip


def _integers() -> Iterator[CudaProgram]:
    n = 300
    for kernel, dtype, planes in (("wide", "i64", 9), ("words", "i32", 12)):
        yield CudaProgram(
            kernel, Build("integers"), kernel, -(-n // 128), 128, ("x", "y", "out", n),
            {"x": patterns((n,), dtype), "y": patterns((n,), dtype)},
            {"out": empty((planes, n), dtype)},
        )  # fmt: skip


def _warps() -> Iterator[CudaProgram]:
    build, n = Build("warps"), 256
    yield CudaProgram(
        "votes", build, "votes", 2, 128, ("x", "out", n), {"x": patterns((n,), "i32")},
        {"out": empty((7, n), "u32")},
    )  # fmt: skip
    for kernel, planes in (("shuffles", 5), ("tiles", 4)):
        yield CudaProgram(
            kernel, build, kernel, 2, 128, ("x", "out", n), {"x": moderate((n,), "f32", -4, 4)},
            {"out": empty((planes, n), "f32")},
        )  # fmt: skip
    yield CudaProgram(
        "prefix_sum", build, "prefix_sum", 2, 256, ("x", "k", "sums", "counts"),
        {"x": moderate((512,), "f32", -6, 6), "k": integers((512,), "i32", -9, 9)},
        {"sums": empty(512, "f32"), "counts": empty(512, "i32")},
    )  # fmt: skip


def _selection() -> Iterator[CudaProgram]:
    build = Build("selection")
    yield CudaProgram(
        "bitonic_sort", build, "bitonic_sort", 3, 256, ("x", "keys", "order"),
        {"x": moderate((768,), "f32", -1, 1)},
        {"keys": empty(768, "f32"), "order": empty(768, "i32")},
    )  # fmt: skip
    for n in (31, 500):
        yield CudaProgram(
            f"argmax-n={n}", build, "argmax", 40, 32, ("x", "index", "value", n),
            {"x": moderate((40, n), "f32", 0, 1)},
            {"index": empty(40, "i64"), "value": empty(40, "f32")},
        )  # fmt: skip
    yield CudaProgram(
        "gather", build, "gather", 60, 32, ("table", "ids", "out", 37, 9),
        {"table": patterns((37, 36), "u32"), "ids": integers((60,), "i64", -4, 41)},
        {"out": empty((60, 36), "u32")},
    )  # fmt: skip
    yield CudaProgram(
        "histogram", build, "histogram", 5, 96, ("x", "bins", "extremes", "total", 3000),
        {"x": patterns((3000,), "i32")},
        {"bins": constant((64,), "i32"), "extremes": constant((5,), "u32", 0xFFFF),
         "total": constant((1,), "u64", 5)},
    )  # fmt: skip


def _tables() -> Iterator[CudaProgram]:
    for flags in ((), UNFUSED):
        yield CudaProgram(
            f"polynomial{_suffix(flags)}", Build("tables", flags), "polynomial", 4, 128,
            ("x", "k", "out", "hashes", 500),
            {"x": moderate((500,), "f32", -8, 1), "k": patterns((500,), "i32")},
            {"out": empty(500, "f32"), "hashes": empty(500, "u32")},
        )  # fmt: skip


def _tiles() -> Iterator[CudaProgram]:
    for flags in ((), UNFUSED):
        build = Build("tiles", flags)
        yield CudaProgram(
            f"matmul{_suffix(flags)}", build, "matmul", (3, 2), (16, 16),
            ("a", "b", "c", 29, 37, 70),
            {"a": moderate((29, 70), "f32", -3, 3), "b": moderate((70, 37), "f32", -3, 3)},
            {"c": empty((29, 37), "f32")},
        )  # fmt: skip
        yield CudaProgram(
            f"stencil{_suffix(flags)}", build, "stencil", (2, 3, 2), (8, 4, 4),
            ("x", "out", 13, 11, 7), {"x": moderate((7, 11, 13), "f32", -3, 3)},
            {"out": empty((7, 11, 13), "f32")},
        )  # fmt: skip
    yield CudaProgram(
        "transpose", Build("tiles"), "transpose", (2, 3), (32, 8), ("x", "out", 70, 45),
        {"x": patterns((70, 45), "u16")}, {"out": empty((45, 70), "u16")},
    )  # fmt: skip
