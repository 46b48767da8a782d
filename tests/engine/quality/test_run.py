"""Whole runs on a drawn model: controls, planted faults, chunks that are kept."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from exactness.errors import UsageError
from exactness.quality import run as running
from exactness.quality import scoring, windows, words
from exactness.quality.legs import AGAIN, CHAIN, LEGS
from exactness.quality.norms import Scale
from exactness.quality.patches import Patch
from exactness.quality.run import Request, Run
from exactness.quality.store import Store
from exactness.quality.verdict import Finding
from exactness.quality.windows import Text, Tokens

PATCHES = (Patch("*.q_norm", "norm"),)


@pytest.fixture
def prepared(text, model, catalogue, machine, monkeypatch):
    """18 windows of 16 tokens, 4 in a chunk."""
    monkeypatch.setattr(windows, "TOKENS", 64)
    return Run(Request(text, patches=PATCHES), model, catalogue, machine)


@pytest.fixture
def store(prepared, tmp_path):
    return Store.begin(tmp_path / "run", prepared.identity)


def result(prepared, store):
    prepared.chunks(store, lambda leg: None)
    return prepared.result(store, 1.0)


def test_controls_hold_and_the_variant_moves_the_logits(prepared, store):
    found = result(prepared, store)
    assert found.exit_status == 0
    assert found.comparisons["again"].is_zero
    assert found.comparisons["chain"].is_zero
    for key in ("variant", "exact", "reordered", "own"):
        assert found.comparisons[key].largest_logit_difference > 0.0
        assert found.comparisons[key].divergence.mean > 0.0
    assert found.comparisons["variant"].ratio.tokens == 18 * 16
    assert found.verdict.finding is not Finding.NONE


def test_perplexity_is_that_of_the_logits(prepared, store, model, text):
    found = result(prepared, store)
    tokens = torch.from_numpy(model.tokens(Text.read(text), 289).ids)
    rows = torch.stack([tokens[i * 16 : i * 16 + 17] for i in range(18)])
    own = model.logits(rows[:, :-1], {}).double()
    loss = torch.nn.functional.cross_entropy(own.flatten(0, 1), rows[:, 1:].flatten())
    assert found.comparisons["own"].perplexity == pytest.approx(float(loss.exp()), rel=1e-12)


def test_every_call_of_a_replaced_norm_is_counted(prepared, store):
    found = result(prepared, store)
    replaced_legs = len(LEGS) - 1
    assert [each.calls for each in found.replaced] == [5 * replaced_legs] * 2
    assert [each.rows for each in found.replaced] == [18 * 16 * 2 * replaced_legs] * 2
    assert {each.width for each in found.replaced} == {8}


def test_norms_that_are_never_called_make_no_comparison(prepared, store, model, monkeypatch):
    logits = type(model).logits
    monkeypatch.setattr(type(model), "logits", lambda self, tokens, _: logits(self, tokens, {}))
    with pytest.raises(UsageError, match=r"never calls layers.0.q_norm, layers.1.q_norm"):
        prepared.chunks(store, lambda leg: None)


def test_a_norm_that_is_not_called_is_named(prepared, store, model, monkeypatch):
    logits = type(model).logits

    def partly(self, tokens, replaced):
        return logits(self, tokens, {name: f for name, f in replaced.items() if "0" in name})

    monkeypatch.setattr(type(model), "logits", partly)
    text = words.text(result(prepared, store))
    assert "never called: layers.1.q_norm" in text


def test_windows_alone_and_in_a_chunk_have_the_same_logits(model):
    windows = torch.randint(256, (4, 16), generator=torch.Generator().manual_seed(2))
    together = model.logits(windows, {})
    alone = torch.cat([model.logits(window[None], {}) for window in windows])
    assert torch.equal(alone, together)


@pytest.mark.parametrize("leg", [AGAIN, CHAIN], ids=["again", "chain"])
def test_a_leg_that_should_be_equal_and_is_not_fails_the_run(prepared, store, leg):
    """One element of one query, the last of a chunk that others follow."""
    first = prepared.patched[0]
    honest, calls = first.function, []

    def function(asked):
        computed = honest(asked)

        def faulty(x):
            out = computed(x).clone()
            calls.append(asked)
            if asked is leg and calls.count(leg) == 2:
                # A last bit may drown in later roundings; the sign does not.
                out.view(-1)[-1] *= -1
            return out

        return faulty

    first.function = function
    found = result(prepared, store)
    assert found.exit_status == 1
    assert not found.comparisons[leg.key].is_zero
    assert found.verdict.finding is Finding.NONE
    assert "No verdict" in found.verdict.text


def test_a_run_that_was_stopped_goes_on_to_the_same_figures(prepared, store, tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    for number in (0, 3):
        figures = scoring.score(prepared._model, prepared.patched, prepared.windows[number])
        store.write(number, figures)
    monkeypatch.setattr(running, "score", stop)
    with pytest.raises(KeyboardInterrupt):
        prepared.chunks(store, lambda leg: None)
    assert prepared.missing(store) == [1, 2, 4]
    monkeypatch.undo()
    monkeypatch.setattr(windows, "TOKENS", 64)
    again = Store.resume(tmp_path / "run", prepared.identity)
    assert prepared.chunks(again, lambda leg: None) == [1, 2, 4]
    whole = Store.begin(tmp_path / "whole", prepared.identity)
    resumed, uninterrupted = prepared.result(again, 1.0), result(prepared, whole)
    assert resumed.to_dict() == uninterrupted.to_dict()


def test_steps_are_reported(prepared, store):
    legs = []
    prepared.chunks(store, legs.append)
    assert legs == list(LEGS) * 5


def test_another_text_cannot_go_on(prepared, store, text, model, catalogue, machine):
    text.write_bytes(text.read_bytes().replace(b"A", b"B"))
    other = Run(Request(text, patches=PATCHES), model, catalogue, machine)
    with pytest.raises(UsageError, match="--resume: text_sha256 was"):
        Store.resume(store.folder, other.identity)


def test_another_size_cannot_go_on(prepared, store, text, model, catalogue, machine):
    other = Run(Request(text, 16, 8, patches=PATCHES), model, catalogue, machine)
    with pytest.raises(UsageError, match="--resume: stride was 16, now it is 8"):
        Store.resume(store.folder, other.identity)


def test_what_was_asked_for_is_named_before_what_follows_from_it(
    prepared, store, text, model, catalogue, machine
):
    """Another context is also another number of windows in a chunk, and of tokens."""
    other = Run(Request(text, 8, patches=PATCHES), model, catalogue, machine)
    with pytest.raises(UsageError, match="--resume: context was 16, now it is 8"):
        Store.resume(store.folder, other.identity)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": 1e-5}, "--resume: norms.layers.0.q_norm.eps was 1e-06, now it is 1e-05"),
        (
            {"scale": Scale.ONE_MORE},
            r"norms.layers.0.q_norm.scale was '1', now it is '1 \+ weight'",
        ),
    ],
)
def test_another_norm_cannot_go_on(prepared, store, change, message):
    first = prepared.patched[0]
    first.norm = replace(first.norm, **change)
    with pytest.raises(UsageError, match=message):
        Store.resume(store.folder, prepared.identity)


def test_other_tokens_of_the_same_text_cannot_go_on(
    prepared, store, text, model, catalogue, machine, monkeypatch
):
    def shifted(self, given, most):
        return Tokens(given, np.roll(tokens(self, given, most).ids, 1), True)

    tokens = type(model).tokens
    monkeypatch.setattr(type(model), "tokens", shifted)
    other = Run(Request(text, patches=PATCHES), model, catalogue, machine)
    with pytest.raises(UsageError, match="--resume: tokens_sha256 was"):
        Store.resume(store.folder, other.identity)


def test_what_was_kept_is_enough_for_the_report(prepared, store, text, model, catalogue, machine):
    """A run that was stopped after its last chunk has called no norm when it goes on."""
    whole = result(prepared, store)
    other = Run(Request(text, patches=PATCHES), model, catalogue, machine)
    again = Store.resume(store.folder, other.identity)
    assert other.missing(again) == []
    assert other.result(again, 1.0).to_dict() == whole.to_dict()


def test_a_model_that_gives_nan_is_refused(prepared, store, model):
    model.weights["embedding"][0, 0] = float("nan")
    with pytest.raises(UsageError, match="leg default of chunk 0 has logits that are NaN"):
        prepared.chunks(store, lambda leg: None)


def test_the_stored_result_has_every_figure(prepared, store):
    found = result(prepared, store)
    kept = json.loads(found.to_json())
    assert kept["schema_version"] == 1
    assert [leg["key"] for leg in kept["legs"]] == [leg.key for leg in LEGS]
    assert kept["legs"][0]["perplexity"] == found.perplexity
    variant = kept["legs"][2]
    assert variant["ratio"]["mean"] == found.comparisons["variant"].ratio.mean
    assert set(variant["divergence"]) == {"mean", "median", "p99", "p999", "max"}
    assert {"context", "stride", "dtype", "tokens", "device"} <= kept["setting"].keys()
    assert [norm["name"] for norm in kept["norms"]] == ["layers.0.q_norm", "layers.1.q_norm"]


def test_rows_of_logits_do_not_decide_the_figures(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    first, logits = (torch.randn(50, 9, generator=generator) for _ in range(2))
    successors = torch.arange(50) % 9
    whole = scoring.compared(logits, first, successors, is_first=False)
    monkeypatch.setattr(scoring, "_LOGITS", 9 * 7)
    parts = scoring.compared(logits, first, successors, is_first=False)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_figures_of_a_token_in_closed_form():
    first, logits = torch.tensor([[0.0, 0.0]]), torch.tensor([[np.float32(np.log(3.0)), 0.0]])
    found = scoring.compared(logits, first, torch.tensor([1]), is_first=False)
    assert found["loss"][0] == pytest.approx(np.log(4.0), rel=1e-7)
    expected = 0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25)
    assert found["divergence"][0] == pytest.approx(expected, rel=1e-6)
    assert not found["changed"][0]
    assert found["largest"][0] == np.float32(np.log(3.0))
    assert found["differing"][0] == 1


def test_zeros_of_two_signs_are_not_the_same_bits():
    first, logits = torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[-0.0, 1.0, 0.0]])
    found = scoring.compared(logits, first, torch.tensor([1]), is_first=False)
    assert found["largest"][0] == 0.0
    assert found["differing"].tolist() == [1]


def test_a_zero_of_the_other_sign_fails_the_run(prepared, store, model, monkeypatch):
    """Nothing but the bits of a logit tells it."""
    honest, calls = type(model).logits, []

    def logits(self, tokens, replaced):
        out = honest(self, tokens, replaced)
        out[..., 0] = 0.0
        calls.append(replaced)
        if len(calls) == 2:
            out[0, 0, 0] = -0.0
        return out

    monkeypatch.setattr(type(model), "logits", logits)
    found = result(prepared, store)
    assert found.exit_status == 1
    assert found.comparisons["again"].logits_differing == 1
    assert found.comparisons["again"].first_touched == 0
    assert found.comparisons["chain"].is_zero
    assert "A/A: DIFFERS in 1 logits" in words.text(found)
