"""Mutants come from the sites of a program; what no input can show is proved, not believed."""

import numpy as np
import pytest

from exactness.arithmetic import (
    Hopper,
    cast,
    expf,
    fma,
    launch,
    max_,
    maximum,
    minimum,
    sqrt,
    sum_,
    where,
)
from exactness.arithmetic.mutants import Mutated, survey
from exactness.arithmetic.orders import halving, sequential
from exactness.arithmetic.proofs import proved_equal
from exactness.bits import Bits
from exactness.formats import bf16, f32
from exactness.inputs.patterns import encode_rounded, generator, normal

X = Bits(normal(generator(1), bf16, (40, 24)), bf16)
WIDE = Bits(normal(generator(2), f32, (40, 24)), f32)


def judged(program, *runs):
    """Name of each mutant to (elements that differ over the runs, proof)."""
    runs = [{"x": x} for x in runs]
    surveyed = survey(program, runs)
    found = {}
    for mutant in surveyed.mutants():
        differing = 0
        for arguments in runs:
            right = Hopper().run(program, arguments).payload
            mutated = Mutated(mutant)
            wrong = mutated.run(program, arguments).payload
            assert mutated.hits > 0
            same = (wrong == right) | (np.isnan(wrong) & np.isnan(right))
            differing += int((~same | (np.signbit(wrong) != np.signbit(right))).sum())
        found[mutant.name] = (differing, proved_equal(surveyed, mutant))
    return found


def short(found):
    return {name.split(" ", 1)[1] for name in found}


@launch
def scaled(x):
    return x * 0.3 + 1.0


def twice(x):
    first = scaled(x)
    second = scaled(first)
    return second


def test_the_same_line_called_twice_is_two_sites():
    names = judged(twice, X)
    assert "scaled:add(first) no_rounding" in names
    assert "scaled:add(second) no_rounding" in names
    assert "scaled:mul(first) toward_zero" in names


def test_loops_do_not_move_a_site():
    def looped(x):
        for _ in range(5):
            x = x * 0.9
        return x

    names = judged(looped, X)
    assert sum(name.endswith("toward_zero") for name in names) == 1
    (mutant, *_) = survey(looped, [{"x": X}]).mutants()
    mutated = Mutated(mutant)
    mutated.run(looped, {"x": X})
    assert mutated.hits == 5


def test_roundings_constants_and_contractions_show():
    found = judged(twice, X)
    for mutation in ("no_rounding", "toward_zero", "constant_in_f32", "contract_left"):
        assert any(
            name.endswith(mutation) and differing for name, (differing, _) in found.items()
        ), mutation


def test_sums_get_orders_accumulators_and_tails():
    def total(x):
        return sum_(x * x, order=sequential(24))

    found = judged(total, X)
    assert {"order=reverse", "order=pairwise", "drop_last", "double_last"} <= short(found)
    assert "order=sequential" not in short(found)
    for mutation in ("order=reverse", "wider_accumulator", "drop_last", "double_last"):
        (differing,) = [d for name, (d, _) in found.items() if name.endswith(f" {mutation}")]
        assert differing, mutation


def test_an_order_that_differs_by_additions_of_nothing_is_not_emitted():
    def total(x):
        return sum_(x, order=halving(24))

    assert "order=halving" not in short(judged(total, X))


def test_adding_zero_and_multiplying_by_one_are_proved():
    def idle(x):
        return (x + 0.0) * 1.0

    found = judged(idle, X)
    assert all(differing == 0 for differing, _ in found.values())
    for name, (_, proof) in found.items():
        if name.endswith(("no_rounding", "toward_zero")):
            assert proof, name


def test_a_product_that_is_also_an_output_is_not_rounded_again():
    def shared(x):
        product = x * 0.3
        moved = product + 0.0
        return where(x > 0.0, moved, product.reshape(40, 24))

    found = judged(shared, X)
    differing, proof = found["shared:product=mul no_rounding"]
    assert differing
    assert not proof


def test_small_domains_are_gone_through():
    def root(x):
        return sqrt(x)

    found = judged(root, X)
    (proof,) = [p for name, (_, p) in found.items() if name.endswith("toward_zero")]
    assert proof is None
    (approximate,) = [p for name, (_, p) in found.items() if name.endswith("approximate")]
    assert approximate is None or "65,282 inputs" in approximate


def test_division_and_functions_have_their_careless_versions():
    def quotient(x):
        return expf(x) / (x * x + 1.5)

    found = judged(quotient, WIDE)
    names = short(found)
    assert {"reciprocal", "approximate"} <= names
    for mutation in ("reciprocal", "approximate"):
        assert any(d for name, (d, _) in found.items() if name.endswith(f" {mutation}"))


def test_fma_can_be_uncontracted():
    def fused(x):
        return fma(x, x, x)

    (differing, proof) = judged(fused, WIDE)["fused:fma uncontracted"]
    assert differing
    assert not proof


def test_clamps_keep_nan_and_zero_signs():
    special = np.array([[np.nan, -0.0, 0.0, 2.0, -2.0, np.inf]], np.float32)

    def clamped(x):
        low = maximum(x, 0.0)
        return minimum(low, 1.0)

    found = judged(clamped, Bits(encode_rounded(special, f32), f32))
    assert found["clamped:low=maximum nan_kept"][0] == 1
    assert found["clamped:low=maximum zero_sign_of_first"][0] == 1
    assert "no operand can be NaN" in found["clamped:minimum nan_kept"][1]
    assert "constant other than 0" in found["clamped:minimum zero_sign_of_first"][1]


def test_the_sign_of_a_zero_output_can_be_lost():
    def signed(x):
        return x * 2.0

    values = Bits(encode_rounded(np.array([[-0.0, 1.0]], np.float32), bf16), bf16)
    assert judged(signed, values)["signed:mul zero_sign_lost"][0] == 1
    ones = Bits(encode_rounded(np.array([[0.0, 1.0]], np.float32), bf16), bf16)
    assert "signed:mul zero_sign_lost" not in judged(signed, ones)


def test_max_reductions_have_no_doubled_tail():
    def largest(x):
        return max_(x, order=halving(24))

    assert short(judged(largest, WIDE)) == {"nan_kept", "drop_last"}


def test_a_comparison_off_by_equality():
    def positive(x):
        return where(x > 0.5, x, 0.0)

    values = np.array([[0.5, 1.0, -1.0]], np.float32)
    found = judged(positive, Bits(encode_rounded(values, bf16), bf16))
    assert found["positive:gt boundary"][0] == 1


def test_widening_casts_have_no_mutants():
    def widened(x):
        return cast(cast(x, f32), bf16)

    found = judged(widened, X)
    assert all("inner" not in name for name in found)
    assert {name.split()[-1] for name in found} == {
        "no_rounding",
        "toward_zero",
        "flush_subnormals",
    }


@pytest.mark.parametrize("mutation", ["flush_subnormals"])
def test_absorbed_subnormals_are_proved_and_others_are_not(mutation):
    def absorbed(x):
        return x + 1.0

    def exposed(x):
        return x + x

    assert judged(absorbed, X)[f"absorbed:add {mutation}"][1]
    assert not judged(exposed, X)[f"exposed:add {mutation}"][1]
