"""Rules for the norms of a model, and what they bind."""

import pytest
import torch

from exactness.errors import UsageError
from exactness.quality.norms import Norm, Scale
from exactness.quality.patched import Patched
from exactness.quality.patches import USUAL, Patch, bound, chosen

QWEN = {
    name: Norm(name, 1e-6)
    for name in (
        "model.layers.0.input_layernorm",
        "model.layers.0.self_attn.q_norm",
        "model.layers.0.self_attn.k_norm",
        "model.layers.10.self_attn.q_norm",
        "model.norm",
    )
}


@pytest.mark.parametrize(
    ("text", "patch"),
    [
        ("*.q_norm=qnorm", Patch("*.q_norm", "qnorm")),
        ("model.norm=rms_norm:f32_acc", Patch("model.norm", "rms_norm", "f32_acc")),
    ],
)
def test_parse(text, patch):
    assert Patch.parse(text) == patch
    assert str(patch) == text


@pytest.mark.parametrize("text", ["qnorm", "=qnorm", "*.q_norm=", "a=b:c:d", "a=b c"])
def test_parse_refuses(text):
    with pytest.raises(UsageError, match="pattern=claim or pattern=claim:variant is accepted"):
        Patch.parse(text)


def test_usual_rules_find_norms_of_queries_and_keys_in_order():
    assert list(chosen(QWEN, ())) == [name for name in QWEN if name[-6:] in ("q_norm", "k_norm")]


@pytest.mark.parametrize(
    "name",
    ["q_a_norm", "q_b_norm", "kv_norm", "q_a_layernorm", "query_layernorm", "key_layernorm"],
)
def test_usual_rules_find_those_of_deepseek_and_hunyuan(name):
    norms = {f"model.layers.0.self_attn.{name}": Norm("", 1e-6)}
    assert set(chosen(norms, ()).values()) <= set(USUAL)


def test_the_first_rule_wins():
    rules = [Patch("*.0.*q_norm", "a"), Patch("*q_norm", "b")]
    assert [rule.claim for rule in chosen(QWEN, rules).values()] == ["a", "b"]


def test_a_rule_without_a_match_is_refused_with_the_names_there_are():
    rules = [Patch("*.q_norm", "a"), Patch("*.nothing", "a")]
    with pytest.raises(UsageError) as caught:
        chosen(QWEN, rules)
    assert "--patch *.nothing=a: no norm matches" in str(caught.value)
    assert str(caught.value).count("model.layers.*.self_attn.q_norm") == 1


def test_no_usual_norm_is_refused():
    with pytest.raises(UsageError, match=r"no norm matches .*q_norm.*norms are model.norm; give"):
        chosen({"model.norm": QWEN["model.norm"]}, ())
    with pytest.raises(UsageError, match="has no RMS norm"):
        chosen({}, ())


def test_bound_norms_carry_claim_and_variant(model, catalogue, machine):
    made = bound(model, [Patch("*.q_norm", "norm")], catalogue, machine)
    assert [each.norm.name for each in made] == ["layers.0.q_norm", "layers.1.q_norm"]
    assert all(each.variant.name == "wide" and each.machine is machine for each in made)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*=none", "claim 'none' is unknown"),
        ("*=norm:f32_acc", "has no variant 'f32_acc'; known are wide"),
        ("*=plain", "claim plain takes x; a norm takes x, eps, perhaps weight"),
        ("*=steps", "claim steps takes x, iterations, eps; a norm takes x, eps, perhaps weight"),
        ("*=same", "claim same computes no RMS norm of rows; layers.0.q_norm is an RMS norm"),
        ("*=fixed", "nothing to compare: no opt-in variant in claim fixed"),
    ],
)
def test_claims_that_cannot_be_used(model, catalogue, machine, text, message):
    with pytest.raises(UsageError, match=message):
        bound(model, [Patch.parse(text)], catalogue, machine)


def test_without_rules_a_catalogue_without_qnorm_says_where_one_is(model, catalogue, machine):
    with pytest.raises(UsageError) as caught:
        bound(model, (), catalogue, machine)
    text = str(caught.value)
    assert text.startswith("without --patch, claim qnorm replaces the norms, and there is none in")
    assert "run in a checkout of exactness, name one by --project, or give --patch" in text


def test_kernel_files_that_cannot_be_imported_are_named_once(model, catalogue, machine):
    for name in ("a", "b", "c"):
        (catalogue.project.kernels / f"{name}.py").write_text("import no_such_compiler\n")
    with pytest.raises(UsageError) as caught:
        bound(model, [Patch("*", "other")], catalogue, machine)
    assert str(caught.value).count("no_such_compiler") == 1
    assert "a.py cannot be imported" in str(caught.value)
    assert "(one of 3)" in str(caught.value)


WEIGHTS = {
    Scale.WEIGHT: torch.linspace(0.5, 1.5, 64).bfloat16(),
    Scale.ONE_MORE: torch.linspace(-0.5, 0.5, 64).bfloat16(),
}


class Weighted:
    """A model of a single norm that multiplies by its weight."""

    dtype, device = "bfloat16", "cpu"

    def __init__(self, scale):
        weight = WEIGHTS.get(scale, WEIGHTS[Scale.WEIGHT])
        self.norms = {"a.norm": Norm("a.norm", 1e-6, weight, scale)}


@pytest.mark.parametrize("scale", Scale, ids=lambda scale: scale.name)
@pytest.mark.parametrize(
    ("claim", "does"), [("by_weight", Scale.WEIGHT), ("by_one_more", Scale.ONE_MORE)]
)
def test_a_claim_that_multiplies_by_something_else_is_refused(
    catalogue, machine, scale, claim, does
):
    model, rules = Weighted(scale), [Patch("a.norm", claim)]
    if scale is does:
        (made,) = bound(model, rules, catalogue, machine)
        assert made.work == (0, 0, 0), "what is tried is not counted"
        return
    with pytest.raises(UsageError) as caught:
        bound(model, rules, catalogue, machine)
    assert f"claim {claim} multiplies by {does.value}; a.norm" in str(caught.value)
    assert str(caught.value).endswith(f"multiplies by {scale.value}")


@pytest.mark.parametrize("scale", Scale, ids=lambda scale: scale.name)
def test_a_claim_without_a_weight_fits_every_norm(catalogue, machine, scale):
    (made,) = bound(Weighted(scale), [Patch("*", "norm")], catalogue, machine)
    assert made.norm.scale is scale


def test_a_norm_without_variant_stays_at_the_default(model, catalogue, machine):
    rules = [Patch("layers.0.*", "fixed"), Patch("*", "norm")]
    assert [each.variant is None for each in bound(model, rules, catalogue, machine)] == [
        True,
        False,
    ]


def test_a_refused_kernel_leaves_the_reference(model, catalogue, machine, monkeypatch):
    monkeypatch.setattr(type(machine), "refuses", lambda self, claim: "no Triton")
    made = bound(model, [Patch("*", "norm")], catalogue, machine)
    assert all(each.machine is None for each in made)


def test_other_dtypes_are_refused(catalogue):
    claim = catalogue.select(("norm",))[0].claim
    reference = catalogue.reference(claim.reference)
    norm = Norm("layers.3.q_norm", 1e-6, None, Scale.NONE)
    patched = Patched(norm, claim, None, reference, None, reference)
    with pytest.raises(
        UsageError, match=r"layers.3.q_norm is given torch.float32; claim norm take"
    ):
        patched.rows(torch.zeros(2, 8))
