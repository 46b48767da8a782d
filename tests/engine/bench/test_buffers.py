"""Sets of arguments: of different values, restorable, with the reference's outputs."""

import pytest
import torch

from exactness.bench import buffers
from exactness.bench.buffers import draw_sets, set_bytes


@pytest.fixture
def sets(catalogue, case):
    program = catalogue.reference(case.entry.claim.reference)
    return draw_sets(case, program, 3, "cpu", 0)


def test_arguments_fit_the_case(sets):
    for each in sets:
        assert list(each.arguments) == ["x", "factor", "index", "times"]
        assert each.arguments["x"].shape == (8, 3)
        assert each.arguments["x"].dtype is torch.bfloat16
        assert each.arguments["times"] == 4
        index = each.arguments["index"]
        assert index.dtype is torch.int64
        assert ((index >= 0) & (index < 24)).all()


def test_a_tensor_that_is_never_normal_takes_its_first_family(sets):
    factors = [each.arguments["factor"] for each in sets]
    assert [len(factor.unique()) for factor in factors] == [1, 1, 1]
    assert len(torch.stack(factors).unique()) == 3


def test_sets_differ_and_repeat_by_seed(catalogue, case, sets):
    program = catalogue.reference(case.entry.claim.reference)
    for name in ("x", "factor", "index"):
        values = [each.arguments[name] for each in sets]
        assert not torch.equal(values[0], values[1])
    again = draw_sets(case, program, 1, "cpu", 0)
    other = draw_sets(case, program, 1, "cpu", 1)
    assert torch.equal(again[0].arguments["x"], sets[0].arguments["x"])
    assert not torch.equal(other[0].arguments["x"], sets[0].arguments["x"])


def test_expected_outputs_come_from_the_reference(sets):
    for each in sets:
        x, factor, index = (each.arguments[name] for name in ("x", "factor", "index"))
        product = (x.double() * factor.double()).to(torch.bfloat16)
        assert torch.equal(each.expected["x_out"], product)
        assert torch.equal(each.expected["chosen"], 4 * product.flatten()[index].float())
        assert torch.equal(each.expected["next"], index + 1)


def test_restore_undoes_what_was_mutated(sets):
    before = sets[0].arguments["x"].clone()
    sets[0].arguments["x"].zero_()
    sets[0].restore()
    assert torch.equal(sets[0].arguments["x"], before)
    assert list(sets[0].kept) == ["x"]


def test_large_tensors_are_shared(catalogue, case, monkeypatch):
    program = catalogue.reference(case.entry.claim.reference)
    own = set_bytes(case)
    monkeypatch.setattr(buffers, "SHARED_BYTES", 48)
    first, second = draw_sets(case, program, 2, "cpu", 0)
    assert first.arguments["factor"] is second.arguments["factor"]
    assert first.arguments["index"] is second.arguments["index"]
    assert set_bytes(case) <= own


def test_a_reference_with_other_outputs_is_an_error(case):
    with pytest.raises(TypeError, match="returned 1 results; the claim names chosen, next, x_out"):
        draw_sets(case, lambda x, factor, index, times: x, 1, "cpu", 0)
