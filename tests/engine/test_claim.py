"""Claims: what they fill in, what they refuse, how they call a kernel."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from exactness.claim import CPU, GPU, Bench, Claim, Variant
from exactness.formats import bf16, f32
from exactness.inputs import Inputs, Tensor, rows

INPUTS = rows(bf16, n=(1, 64), eps=(1e-6, 1e-5))


def norm(x: Any, eps: float = 1e-6, *, f32_acc: bool | None = None) -> Any:
    return x + (2.0 if f32_acc else 1.0)


def claim(**given: Any) -> Claim:
    return Claim(**{"kernel": norm, "reference": "norm:chain", "inputs": INPUTS} | given)


F32_ACC = Variant(name="f32_acc", reference="norm:wide", env="TEST_NORM_F32_ACC")


def test_the_name_is_the_kernels_unless_given() -> None:
    assert claim().name == "norm"
    assert claim(name="rms_norm").name == "rms_norm"
    assert claim().runs_on == GPU
    assert claim(golden="norm").golden == ("norm",)
    assert claim(golden=("norm", "o_norm")).golden == ("norm", "o_norm")
    assert claim().golden == ()


@pytest.mark.parametrize("name", ["rms norm", "1st", "a-b", "norm\n"])
def test_a_name_is_an_identifier(name: str) -> None:
    with pytest.raises(ValueError, match="an identifier is accepted"):
        claim(name=name)
    with pytest.raises(ValueError, match="claim name '': an identifier"):
        claim(kernel=functools.partial(norm))


@pytest.mark.parametrize("reference", ["norm", "a:b:c", ":chain", "norm:", ""])
def test_a_reference_is_file_and_function(reference: str) -> None:
    with pytest.raises(ValueError, match=r"claim norm: reference .* is not file:function"):
        claim(reference=reference)


def test_where_it_runs_is_one_of_three() -> None:
    with pytest.raises(ValueError, match="runs_on 'cuda' is none of gpu, gpu-only, cpu"):
        claim(runs_on="cuda")
    assert claim(runs_on=CPU).runs_on == "cpu"


@pytest.mark.parametrize(
    "given",
    [
        {"inputs": rows(bf16, n=(1, 4), name="weight")},
        {"inputs": rows(bf16, n=(1, 4), weight=(1.0,))},
        {"parameters": {"weight": 1}},
        {"mutates": {"weight": "new_weight"}},
        {"variants": [Variant(name="weight", reference="a:b", env="E")]},
        {"case_pattern": r"_w(?P<weight>\d+)"},
    ],
    ids=["tensor", "parameter", "fixed parameter", "mutated", "variant", "case"],
)
def test_every_argument_must_exist(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no argument 'weight'; it has x, eps, f32_acc"):
        claim(**given)
    # The same check on a kernel that has no name of its own.
    with pytest.raises(ValueError, match="no argument 'weight'"):
        claim(kernel=functools.partial(norm), name="norm", **given)


def test_a_kernel_with_any_keyword_takes_all() -> None:
    assert claim(kernel=lambda **given: given, name="any", parameters={"weight": 1}).name == "any"


def test_outputs_and_mutated_arguments_are_named() -> None:
    assert claim().output_names == ("out",)
    made = claim(outputs=("out", "scale"), mutates={"x": "residual"})
    assert made.output_names == ("out", "scale", "residual")


def test_parameters_of_a_recorded_case() -> None:
    def kernel(x: Any, eps: float, iterations: int, limit: float = 0.0) -> Any:
        return x

    pattern = r"_it(?P<iterations>\d+)(_L(?P<limit>[-+.\de]+))?"
    fixed = {"eps": 1e-6, "iterations": 3}
    made = claim(kernel=kernel, case_pattern=pattern, parameters=fixed)
    made_of = made.case_parameters
    assert made_of("4x4_it20") == {"eps": 1e-6, "iterations": 20}
    assert made_of("4x4_it20_L-2.5e1") == {"eps": 1e-6, "iterations": 20, "limit": -25.0}
    assert type(made_of("4x4_it20")["iterations"]) is int
    assert made_of("4x4") == {"eps": 1e-6, "iterations": 3}
    assert claim().case_parameters("4x4_it20") == {}


def test_variants_are_found_by_name() -> None:
    made = claim(variants=[F32_ACC])
    assert made.variant("f32_acc") is F32_ACC
    with pytest.raises(KeyError, match="claim norm has no variant 'fast'; known are f32_acc"):
        made.variant("fast")
    with pytest.raises(KeyError, match="known are none"):
        claim().variant("fast")


@pytest.mark.parametrize(("value", "enabled"), [("1", True), ("0", False), ("", False)])
def test_the_environment_enables_a_variant(
    monkeypatch: pytest.MonkeyPatch, value: str, enabled: bool
) -> None:
    monkeypatch.delenv("TEST_NORM_F32_ACC", raising=False)
    assert not F32_ACC.enabled
    monkeypatch.setenv("TEST_NORM_F32_ACC", value)
    assert F32_ACC.enabled is enabled


def test_a_call_says_every_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """None would ask the environment, which must not decide a check."""
    monkeypatch.setenv("TEST_NORM_F32_ACC", "1")
    seen = []

    def kernel(x: Any, *, f32_acc: bool | None = None, fast: bool | None = None) -> Any:
        seen.append((f32_acc, fast))
        return x

    fast = Variant(name="fast", reference="norm:fast", env="TEST_NORM_FAST")
    made = claim(kernel=kernel, inputs=rows(bf16, n=(1, 4)), variants=[F32_ACC, fast])
    made.call({"x": torch.zeros(1)})
    made.call({"x": torch.zeros(1)}, F32_ACC)
    made.call({"x": torch.zeros(1)}, fast)
    assert seen == [(False, False), (True, False), (False, True)]


def test_results_go_by_name_and_mutated_arguments_join() -> None:
    def kernel(x: Any, y: Any) -> Any:
        y += x
        return x * 2, x * 3

    inputs = Inputs({"n": (1, 4)}, {name: Tensor(f32, ("n",)) for name in "xy"})
    made = claim(kernel=kernel, inputs=inputs, outputs=("double", "triple"), mutates={"y": "sum"})
    x, y = torch.ones(2), torch.ones(2)
    results = made.call({"x": x, "y": y})
    assert {name: value.tolist() for name, value in results.items()} == {
        "double": [2, 2],
        "triple": [3, 3],
        "sum": [2, 2],
    }
    assert results["sum"] is y


def test_a_kernel_may_return_nothing_but_what_it_mutates() -> None:
    made = claim(outputs=(), mutates={"x": "new_x"})
    x = torch.ones(1)
    assert made.call({"x": x}) == {"new_x": x}


@pytest.mark.parametrize(
    ("result", "words"),
    [(None, "1 results"), ((1, 2), "2 results"), ((1, 2, 3), "3 results")],
)
def test_other_results_are_an_error(result: Any, words: str) -> None:
    def kernel(x: Any) -> Any:
        return result

    outputs = ("out",) if result != (1, 2, 3) else ("a", "b")
    made = claim(kernel=kernel, inputs=rows(bf16, n=(1, 4)), outputs=outputs)
    with pytest.raises(TypeError, match=f"claim kernel: returned {words}.*expected"):
        made.call({"x": torch.zeros(1)})


def test_claims_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        claim().reference = "other:chain"  # type: ignore[misc]
    assert Bench(name="b", sizes={"n": 4}, bytes=8).flops == 0
