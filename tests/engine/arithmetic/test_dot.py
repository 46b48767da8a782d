import numpy as np
import pytest

from exactness.arithmetic import IEEE, Exact, Hopper, cast, dot
from exactness.arithmetic.mutants import Mutated, survey
from exactness.arithmetic.proofs import proved_equal
from exactness.bits import Bits, decode
from exactness.formats import bf16, e4m3fn, e5m2, f16, f32, f64, tf32
from exactness.hopper.tensor_core import KINDS, kind_of, matmul
from exactness.inputs.patterns import FAMILIES, generator


def drawn(fmt, shape, seed=0, family="log_spaced"):
    return Bits(FAMILIES[family](generator(seed), fmt, shape), fmt)


def values(bits):
    return decode(bits.patterns, bits.format)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_hopper_has_the_tensor_cores_bits(kind):
    a, b = drawn(kind.a, (5, 70), 1), drawn(kind.b, (70, 6), 2)
    c = drawn(kind.accumulator, (5, 6), 3)
    hopper = Hopper()
    # Formats without a dtype of their own travel as values.
    x, y, z = (hopper.value(values(m)) for m in (a, b, c))
    x, y, z = (cast(v, m.format) for v, m in zip((x, y, z), (a, b, c), strict=True))
    for acc in (z, None):
        out = dot(x, y, acc, accumulator=kind.accumulator)
        assert out.format is kind.accumulator
        expected = matmul(values(a), values(b), values(c) if acc else None, kind=kind)
        assert np.array_equal(out.payload.view(np.int32), expected.view(np.int32))


def test_exact_is_the_product_in_f64():
    a, b, c = drawn(bf16, (5, 70)), drawn(bf16, (70, 6), 1), drawn(f32, (5, 6), 2)
    out = Exact().run(dot, {"a": a, "b": b, "acc": c})
    assert out.payload.dtype == np.float64
    exact = values(a).astype(np.float64) @ values(b) + values(c)
    assert np.array_equal(out.payload, exact)
    assert np.array_equal(Exact().run(dot, {"a": a, "b": b}).payload, exact - values(c))


def test_ieee_has_no_tensor_core():
    with pytest.raises(NotImplementedError, match="'ieee' has no operation 'dot'"):
        IEEE().run(dot, {"a": drawn(bf16, (2, 16)), "b": drawn(bf16, (16, 2))})


@pytest.mark.parametrize(
    ("formats", "name"),
    [
        ((bf16, f16, f32), "f32.bf16.f16"),
        ((f32, f32, f32), "f32.f32.f32"),
        ((bf16, bf16, bf16), "bf16.bf16.bf16"),
        ((e4m3fn, e5m2, bf16), "bf16.e4m3fn.e5m2"),
    ],
)
def test_products_that_hopper_lacks(formats, name):
    a, b, acc = (drawn(fmt, (16, 16)) for fmt in formats)
    with pytest.raises(TypeError, match=f"no tensor-core product {name}; there are f32.bf16"):
        Hopper().run(dot, {"a": a, "b": b, "acc": acc})


def test_operands_left_wider_are_read_from_registers_of_their_format():
    a, b = drawn(f32, (4, 16), 1, "normal"), drawn(f32, (16, 4), 2, "normal")

    def narrow(a, b):
        return dot(cast(a, bf16), cast(b, bf16))

    def program(a, b):
        left, right = cast(a, bf16), cast(b, bf16)
        return dot(left, right)

    surveyed = survey(program, [{"a": a, "b": b}])
    unrounded = [m for m in surveyed.mutants() if m.name.endswith("no_rounding")]
    assert len(unrounded) == 2
    expected = Hopper().run(narrow, {"a": a, "b": b}).payload
    for mutant in unrounded:
        assert "tensor cores" in proved_equal(surveyed, mutant)
        wrong = Mutated(mutant)
        assert np.array_equal(wrong.run(program, {"a": a, "b": b}).payload, expected)
        assert wrong.hits == 1


def product(a, b, acc=None):
    return dot(a, b, acc)


def names_of(program, arguments):
    mutants = survey(program, [arguments]).mutants()
    return {m.mutation.name: m for m in mutants if m.site.operation == "dot"}


def test_mutants_of_a_long_product():
    arguments = {
        "a": drawn(bf16, (16, 64), 1),
        "b": drawn(bf16, (64, 16), 2),
        "acc": drawn(f32, (16, 16), 3),
    }
    found = names_of(product, arguments)
    assert set(found) == {
        "fraction_bits=24",
        "terms_rounded",
        "step_rounded_otherwise",
        "step=8",
        "step=32",
        "descending",
        "two_parts",
        "fma_chain",
        "drop_last",
        "accumulator_last",
    }
    right = Hopper().run(product, arguments).payload
    for name, mutant in found.items():
        wrong = Mutated(mutant)
        assert (wrong.run(product, arguments).payload != right).any(), name
        assert wrong.hits == 1


def test_mutants_fit_the_product():
    short = {"a": drawn(bf16, (4, 8)), "b": drawn(bf16, (8, 4))}
    assert set(names_of(product, short)) == {
        "fraction_bits=24",
        "terms_rounded",
        "step_rounded_otherwise",
        "fma_chain",
        "drop_last",
    }

    def in_tf32(a, b):
        return dot(cast(a, tf32), cast(b, tf32))

    given = {"a": drawn(f32, (4, 24), 1), "b": drawn(f32, (24, 4), 2)}
    assert {"bf16", "step=4", "step=16"} <= set(names_of(in_tf32, given))
    empty = {"a": drawn(bf16, (4, 0)), "b": drawn(bf16, (0, 4))}
    assert not {"drop_last", "fma_chain"} & set(names_of(product, empty))


def test_a_split_is_two_chains_and_a_sum():
    a, b, c = drawn(bf16, (16, 80), 1), drawn(bf16, (80, 16), 2), drawn(f32, (16, 16), 3)
    arguments = {"a": a, "b": b, "acc": c}
    wrong = Mutated(names_of(product, arguments)["two_parts"]).run(product, arguments).payload
    kind = kind_of(bf16, bf16)
    x, y = values(a), values(b)
    first = matmul(x[:, :48], y[:48], values(c), kind=kind)
    expected = first + matmul(x[:, 48:], y[48:], kind=kind)
    assert np.array_equal(wrong, expected)


def test_an_accumulator_wider_than_its_format_is_rounded():
    a, b = drawn(bf16, (4, 16), 1), drawn(bf16, (16, 4), 2)

    def program(a, b, c):
        return dot(a, b, cast(c, f32))

    c = generator(5).standard_normal((4, 4))
    arguments = {"a": a, "b": b, "c": Bits(c.view(np.uint64), f64)}
    surveyed = survey(program, [arguments])
    (mutant,) = [m for m in surveyed.mutants() if m.name.endswith("cast no_rounding")]
    assert proved_equal(surveyed, mutant)
    expected = Hopper().run(program, arguments).payload
    assert np.array_equal(Mutated(mutant).run(program, arguments).payload, expected)
