"""ptxas's contractions: found, proven and executed, or refused by name."""

import functools
from pathlib import Path

import numpy as np
import pytest

from exactness.formats import f32
from exactness.hopper.special import rcp_approx
from exactness.rounding import fma
from exactness.virtual import fusion, hopper, machine, ptx, sass
from exactness.virtual.errors import LaunchError
from exactness.virtual.evidence import check_divisions, choices, compare
from exactness.virtual.freedoms import find
from exactness.virtual.fusion import FusionError, Proof, check_fusion_free, resolve
from exactness.virtual.memory import GlobalMemory
from exactness.virtual.rewriting import rewrite
from exactness.virtual.sass import Arithmetic, Operation

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

GOLDEN = Path(__file__).parents[2] / "golden"
NO_CONTRACTION = ("--fmad=false",)
COUNT = 32
HEAD = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 po)
{
.reg .b32 %i; .reg .f32 %a, %b, %c, %d, %s<9>; .reg .b64 %o, %p<5>; .reg .pred %q;
mov.u32 %i, %tid.x;
mul.wide.u32 %o, %i, 4;
ld.param.b64 %p1, [pa]; add.s64 %p1, %p1, %o; ld.global.f32 %a, [%p1];
ld.param.b64 %p2, [pb]; add.s64 %p2, %p2, %o; ld.global.f32 %b, [%p2];
ld.param.b64 %p3, [pc]; add.s64 %p3, %p3, %o; ld.global.f32 %c, [%p3];
"""
TAIL = """
ld.param.b64 %p4, [po]; add.s64 %p4, %p4, %o; st.global.f32 [%p4], %d;
ret;
}
"""
FIRST = HEAD.count("\n") + 1


def text_of(*statements: str) -> str:
    return HEAD + "\n".join(statements) + TAIL


@functools.cache
def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values for which a rounding more or less is seen in most lanes."""
    draw = np.random.default_rng(20251101)
    a, b = (draw.standard_normal(COUNT).astype(np.float32) for _ in range(2))
    return a, b, (-a * b * np.float32(1.0001)).astype(np.float32)


def execute(text: str) -> np.ndarray:
    """The results of kernel `k` on `operands()`."""
    arrays = [array.copy() for array in operands()] + [np.zeros(COUNT, np.float32)]
    memory, addresses = GlobalMemory(), [(i + 1) << 40 for i in range(4)]
    for address, array, name in zip(addresses, arrays, ("a", "b", "c", "out"), strict=True):
        memory.register(address, array.view(np.uint8), name)
    machine.launch(
        ptx.parse(text).entries["k"],
        grid=(1, 1, 1),
        block=(COUNT, 1, 1),
        params=addresses,
        memory=memory,
    )
    return arrays[3]


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


def test_a_product_and_a_sum_become_one_rounding():
    text = text_of("mul.f32 %s1, %a, %b;", "add.f32 %d, %s1, %c;")
    resolved = resolve(text, "k")
    a, b, c = operands()
    assert_same_bits(execute(resolved.text), fma(a, b, c, f32))
    assert (execute(text) != execute(resolved.text)).any(), "the PTX alone has other bits"
    (pair,) = resolved.verdict.contractions
    assert (pair.product.line, pair.total.line) == (FIRST, FIRST + 1)
    assert resolved.verdict.proof is Proof.SAME_CODE


def test_nothing_is_contracted_where_ptxas_must_not():
    text = text_of("mul.f32 %s1, %a, %b;", "add.f32 %d, %s1, %c;")
    resolved = resolve(text, "k", options=NO_CONTRACTION)
    a, b, c = operands()
    assert_same_bits(execute(resolved.text), a * b + c)
    assert resolved.verdict.contractions == ()


def test_rounded_operations_run_as_they_stand():
    text = text_of("mul.rn.f32 %s1, %a, %b;", "add.rn.f32 %d, %s1, %c;")
    resolved = resolve(text, "k")
    assert resolved.text == text
    assert resolved.verdict == fusion.Verdict((), (), Proof.EXPLICIT)


@pytest.mark.parametrize(
    ("statement", "signs"),
    [("sub.f32 %d, %s1, %c;", (1, -1)), ("sub.f32 %d, %c, %s1;", (-1, 1))],
)
def test_a_difference_negates_the_right_side(statement: str, signs: tuple[int, int]):
    resolved = resolve(text_of("mul.f32 %s1, %a, %b;", statement), "k")
    a, b, c = operands()
    product_sign, addend_sign = (np.float32(sign) for sign in signs)
    assert_same_bits(execute(resolved.text), fma(product_sign * a, b, addend_sign * c, f32))


@pytest.mark.parametrize("order", ["%s1, %s2", "%s2, %s1"])
def test_of_two_products_the_one_that_ptxas_took_is_taken(order: str):
    products = ("mul.f32 %s1, %a, %b;", "mul.f32 %s2, %c, %c;")
    text = text_of(*products, f"add.f32 %d, {order};")
    resolved = resolve(text, "k")
    a, b, c = operands()
    first, second = fma(a, b, c * c, f32), fma(c, c, a * b, f32)
    assert (first != second).any()
    assert_same_bits(execute(resolved.text), first if order.startswith("%s1") else second)


def test_a_product_that_is_also_read_elsewhere_stays_rounded():
    products = ("mul.f32 %s1, %a, %b;", "add.f32 %s2, %s1, %c;")
    resolved = resolve(text_of(*products, "min.f32 %d, %s1, %s2;"), "k")
    a, b, c = operands()
    assert_same_bits(execute(resolved.text), np.minimum(a * b, a * b + c))


def test_a_product_read_by_two_sums_is_merged_into_both():
    sums = ("add.f32 %s2, %s1, %c;", "sub.f32 %s3, %s1, %c;", "min.f32 %d, %s2, %s3;")
    resolved = resolve(text_of("mul.f32 %s1, %a, %b;", *sums), "k")
    a, b, c = operands()
    expected = np.minimum(fma(a, b, c, f32), fma(a, b, -c, f32))
    assert_same_bits(execute(resolved.text), expected)
    assert len(resolved.verdict.contractions) == 2


def test_a_factor_that_is_overwritten_is_kept():
    text = text_of(
        "mov.f32 %s1, %a;",
        "mul.f32 %s2, %s1, %b;",
        "mov.f32 %s1, %c;",
        "add.f32 %s3, %s2, %c;",
        "max.f32 %d, %s3, %s1;",
    )
    a, b, c = operands()
    assert_same_bits(execute(resolve(text, "k").text), np.maximum(fma(a, b, c, f32), c))


@pytest.mark.parametrize("flag", ["full", "approx"])
@pytest.mark.parametrize("options", [(), NO_CONTRACTION], ids=["fused", "unfused"])
def test_division_by_a_constant_is_a_multiplication(flag: str, options: tuple[str, ...]):
    constant = "mov.f32 %s1, 0f42C00000;"  # 96
    text = text_of(constant, f"div.{flag}.f32 %s2, %a, %s1;", "add.f32 %d, %s2, %c;")
    resolved = resolve(text, "k", options=options)
    a, _, c = operands()
    inverse = np.float32(1) / np.float32(96)
    expected = a * inverse + c if options else fma(a, np.full_like(a, inverse), c, f32)
    assert_same_bits(execute(resolved.text), expected)
    assert [i.line for i in resolved.verdict.folded] == [FIRST + 1]


@pytest.mark.parametrize(
    "divisor",
    "00000001 00400000 00800000 7E800000 7E800001 7F7FFFFF 7F800000 3F800000 BF800000 80000000"
    " C2C00000 40400000".split(),
)
@pytest.mark.parametrize("name", ["div.full.f32", "div.full.ftz.f32", "div.approx.f32"])
def test_every_constant_divisor_is_resolved(name: str, divisor: str):
    text = text_of(f"{name} %d, %a, 0f{divisor};")
    assert "div" not in resolve(text, "k").text


def test_a_division_merges_with_a_sum():
    text = text_of("div.full.f32 %s1, %a, %b;", "add.f32 %d, %s1, %c;")
    resolved = resolve(text, "k")
    a, b, c = operands()
    inverse = rcp_approx(b, ftz=True)
    assert_same_bits(execute(resolved.text), fma(a, inverse, c, f32))
    assert (a * inverse + c != fma(a, inverse, c, f32)).any()


def test_a_function_of_a_constant_is_correctly_rounded():
    text = text_of("mov.f32 %s1, 0f42C00000;", "rsqrt.approx.ftz.f32 %d, %s1;")
    resolved = resolve(text, "k")
    expected = np.full(COUNT, 1 / np.sqrt(np.float64(96)), np.float32)
    assert_same_bits(execute(resolved.text), expected)
    assert resolved.verdict.proof is Proof.SAME_CODE


def test_a_contraction_with_an_unseen_product_is_refused():
    text = text_of("mul.f32 %s1, %a, %b;", "neg.f32 %s2, %s1;", "add.f32 %d, %s2, %c;")
    with pytest.raises(FusionError, match="with a product that was not found") as caught:
        resolve(text, "k")
    assert "add.f32 %d, %s2, %c;" in str(caught.value)


def test_a_divisor_that_is_constant_after_unrolling_is_refused():
    """The PTX divides by a loop counter; ptxas unrolls and folds every reciprocal."""
    text = text_of(
        ".reg .s32 %n;",
        "mov.f32 %d, %c;",
        "mov.s32 %n, 3;",
        "$loop:",
        "cvt.rn.f32.s32 %s1, %n;",
        "div.full.f32 %s2, %a, %s1;",
        "add.rn.f32 %d, %d, %s2;",
        "add.s32 %n, %n, 1;",
        "setp.lt.s32 %q, %n, 6;",
        "@%q bra $loop;",
    )
    with pytest.raises(FusionError, match="constant after unrolling"):
        resolve(text, "k")


PAIR = ("mul.f32 %s1, %a, %b;", "add.f32 %d, %s1, %c;")


def test_sums_contracted_in_some_copies_only_are_refused():
    freedoms = find(ptx.parse(text_of(*PAIR)).entries["k"])
    both = {Arithmetic(Operation.FUSED, "F"), Arithmetic(Operation.ADD, "F")}
    with pytest.raises(FusionError, match="in some copies and not in others") as caught:
        choices(freedoms, {FIRST + 1: frozenset(both)})
    assert "product: mul.f32 %s1, %a, %b;" in str(caught.value)


def test_an_uncertain_operand_is_refused():
    freedoms = find(ptx.parse(text_of(*PAIR)).entries["k"])
    lines = {
        FIRST: frozenset({Arithmetic(Operation.MULTIPLY, "F")}),
        FIRST + 1: frozenset({Arithmetic(Operation.FUSED, "F")}),
    }
    with pytest.raises(FusionError, match="which of its operands"):
        choices(freedoms, lines)


def test_unexplained_arithmetic_is_refused():
    freedoms = find(ptx.parse(text_of(*PAIR)).entries["k"])
    actual = {FIRST: frozenset({Arithmetic(Operation.MULTIPLY, "F", ("3",))})}
    resolved = {FIRST: frozenset({Arithmetic(Operation.MULTIPLY, "F")})}
    with pytest.raises(FusionError, match="has mul F 3 where mul F was expected"):
        compare(freedoms, actual, resolved)
    compare(freedoms, actual, actual)


def test_a_division_by_something_loaded_is_no_constant():
    freedoms = find(ptx.parse(text_of("div.full.f32 %d, %a, %b;")).entries["k"])
    assert freedoms.unproven == ()
    check_divisions(freedoms, {})


def test_wrong_decisions_do_not_assemble_to_the_same_code():
    """The proof has power: every other choice gives other machine code."""
    text = text_of("mul.f32 %s1, %a, %b;", "mul.f32 %s2, %c, %c;", "add.f32 %d, %s1, %s2;")
    freedoms = find(ptx.parse(text).entries["k"])
    (total,) = freedoms.sums
    actual = sass.code(sass.assemble(text))
    choice = {position: {total.instruction: position} for position in total.products}
    outcomes = {
        name: sass.code(sass.assemble(rewrite(text, freedoms, fused))) == actual
        for name, fused in {"none": {}, **choice}.items()
    }
    assert outcomes == {"none": False, 1: True, 2: False}


def test_an_unknown_kernel_lists_the_known_ones():
    with pytest.raises(LaunchError, match="kernel is 'other'; the PTX module has: k"):
        resolve(text_of("mov.f32 %d, %a;"), "other")


def test_fusion_free_kernels():
    free = check_fusion_free(text_of("mul.rn.f32 %s1, %a, %b;", "add.rn.f32 %d, %s1, %c;"), "k")
    assert free
    assert free.same_code


def test_kernels_that_are_not_fusion_free():
    finding = check_fusion_free(text_of(*PAIR), "k")
    assert not finding
    assert not finding.same_code
    assert [i.opcode for i in finding.unrounded] == ["mul", "add"]


@triton.jit
def _rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, eps, n_cols: tl.constexpr, BLOCK: tl.constexpr
):
    """The published formula as a first version would be written: order and fusion left open."""
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    offsets = tl.program_id(0) * n_cols + columns
    h = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if residual_ptr is not None:
        h += tl.load(residual_ptr + offsets, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    h = h.to(weight.dtype).to(tl.float32)
    inverse = tl.math.rsqrt(tl.sum(h * h, axis=0) / n_cols + eps)
    tl.store(out_ptr + offsets, h * inverse * weight.to(tl.float32), mask=mask)


def _recorded(prefix: str) -> list[str]:
    safetensors = pytest.importorskip("safetensors")
    with safetensors.safe_open(GOLDEN / "f32.safetensors", "numpy") as file:
        return sorted({key.rsplit("/", 1)[0] for key in file.keys() if key.startswith(prefix)})


def _hopper_order() -> bool:
    """Triton 3.6 and 3.7 add within a thread in register order; later ones pairwise."""
    return tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8)


@pytest.mark.skipif(not _hopper_order(), reason="tl.sum adds in another order than the recording")
@pytest.mark.parametrize("case", [*_recorded("rms_norm_f32copy"), *_recorded("rms_norm_f32rows")])
def test_recorded_f32_rms_norms_with_fusion_on(case: str):
    """f32(1/cols), the fma with eps, and the order of the sum all come out of the cubin."""
    import safetensors

    with safetensors.safe_open(GOLDEN / "f32.safetensors", "pt") as file:
        recorded = {
            name: file.get_tensor(f"{case}/{name}").clone()
            for name in ("x", "weight", "out_f32", "residual")
            if f"{case}/{name}" in file.keys()
        }
    rows, columns = recorded["x"].shape
    actual = torch.full((rows, columns), float("nan"))
    block = triton.next_power_of_2(columns)
    with hopper() as machine_:
        _rms_norm_kernel[(rows,)](
            recorded["x"],
            recorded.get("residual"),
            recorded["weight"],
            actual,
            1e-5,
            columns,
            BLOCK=block,
            num_warps=4,
        )
    assert torch.equal(actual.view(torch.int32), recorded["out_f32"].view(torch.int32))
    (launch,) = machine_.launches
    assert len(launch.verdict.contractions) == len(launch.verdict.folded) == 1


@triton.jit
def _ratio_kernel(x_ptr, y_ptr, z_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x, y, z = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes), tl.load(z_ptr + lanes)
    tl.store(out_ptr + lanes, x / y + z)


@pytest.mark.parametrize("fuse", [True, False])
def test_fusion_on_and_off_in_triton(fuse: bool):
    a, b, c = operands()
    out = torch.empty(COUNT)
    with hopper() as machine_:
        _ratio_kernel[(1,)](
            *map(torch.from_numpy, (a, b, c)), out, BLOCK=COUNT, num_warps=1, enable_fp_fusion=fuse
        )
    inverse = rcp_approx(b, ftz=True)
    assert_same_bits(out.numpy(), fma(a, inverse, c, f32) if fuse else a * inverse + c)
    record = machine_.launches[0]
    assert len(record.verdict.contractions) == int(fuse)
    assert bool(check_fusion_free(record.ptx, record.kernel, record.options)) is not fuse
