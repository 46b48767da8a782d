"""Models of transformers: their norms found, replaced for a call, and errors in one line."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import torch

from exactness.errors import UsageError
from exactness.quality.hub import HubModel
from exactness.quality.norms import Scale
from exactness.quality.patches import Patch, bound, chosen
from exactness.quality.run import Request, Run
from exactness.quality.store import Store

transformers = pytest.importorskip("transformers", reason="the extra `quality` brings it")

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "random_quality_model.py"


@pytest.fixture(scope="session")
def write():
    """Writes a model of a family, with drawn weights and a tokenizer of bytes."""
    made = runpy.run_path(str(SCRIPT))
    made["SIZES"].update(head_dim=32, hidden_size=32, intermediate_size=48)
    return made["write"]


@pytest.fixture(scope="session")
def folder(write, tmp_path_factory):
    """Folders of models by family; they are only read."""
    root = tmp_path_factory.mktemp("models")
    for family in ("qwen3", "gemma3", "deepseek_v3"):
        write(family, root / family)
    return root


@pytest.fixture
def copy(folder, tmp_path):
    """A model to spoil."""
    return Path(shutil.copytree(folder / "qwen3", tmp_path / "copy"))


@pytest.mark.parametrize(("family", "scale"), [("qwen3", Scale.WEIGHT), ("gemma3", Scale.ONE_MORE)])
def test_norms_of_queries_and_keys_are_found(folder, family, scale):
    model = HubModel.open(str(folder / family), "cpu")
    names = [f"model.layers.{i}.self_attn.{n}_norm" for i in (0, 1) for n in ("q", "k")]
    assert list(chosen(model.norms, ())) == names
    assert {model.norms[name].scale for name in names} == {scale}
    assert {model.norms[name].eps for name in names} == {1e-6}
    assert "model.norm" in model.norms


def test_latent_norms_of_deepseek_are_found(folder):
    model = HubModel.open(str(folder / "deepseek_v3"), "cpu")
    expected = [f"model.layers.{i}.self_attn.{n}_a_layernorm" for i in (0, 1) for n in ("q", "kv")]
    assert list(chosen(model.norms, ())) == expected


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_exact_norms_stay_near_the_models_own(folder, family, catalogue, machine, text, tmp_path):
    """A wrong factor, eps or axis would move the logits far more than roundings do."""
    model = HubModel.open(str(folder / family), "cpu")
    rules = (Patch("*.q_norm", "norm"), Patch("*.k_norm", "norm", "wide"))
    run = Run(Request(text, 32, patches=rules), model, catalogue, machine)
    store = Store.begin(tmp_path / "run", run.identity)
    run.chunks(store, lambda leg: None)
    result = run.result(store, 0.0)
    assert result.exit_status == 0
    assert len(result.replaced) == 4
    assert {each.calls for each in result.replaced} == {6 * run.windows.chunks}
    own, exact = result.comparisons["own"], result.comparisons["exact"]
    assert 0.0 < own.divergence.max < 1e-3
    assert 0.0 < exact.divergence.max < 1e-3


def test_replaced_norms_are_put_back(folder, catalogue, machine):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    tokens = torch.arange(40)[None]
    before = model.logits(tokens, {})
    (first, *_) = bound(model, [Patch("*.1.*.q_norm", "norm")], catalogue, machine)
    changed = model.logits(tokens, {first.norm.name: lambda x: torch.zeros_like(x)})
    assert not torch.equal(before, changed)
    assert torch.equal(before, model.logits(tokens, {}))
    assert before.dtype == torch.float32


def test_norms_are_put_back_after_an_error(folder):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    name = next(iter(model.norms))

    def stopped(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.logits(torch.arange(4)[None], {name: stopped})
    assert "forward" not in vars(model.network.get_submodule(name))


def test_what_is_no_rms_norm_is_not_offered(folder):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    model.network.model.norm = torch.nn.LayerNorm(32, dtype=torch.bfloat16)
    model.__dict__.pop("norms", None)
    assert "model.norm" not in model.norms


def test_the_digest_is_of_the_weights(folder, copy):
    model, other = (HubModel.open(str(path), "cpu") for path in (folder / "qwen3", copy))
    assert model.digest == other.digest
    changed = HubModel.open(str(copy), "cpu")
    changed.network.lm_head.weight.data[3, 3] += 1.0
    assert changed.digest != model.digest


def test_text_goes_through_the_tokenizer(folder):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    assert model.tokens("añb".encode()).size == 4
    with pytest.raises(UsageError, match=r"not UTF-8: .* at byte 1"):
        model.tokens(b"a\xff")


def test_no_such_directory(tmp_path):
    with pytest.raises(UsageError, match="no such directory"):
        HubModel.open(str(tmp_path / "none"), "cpu")


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(UsageError) as caught:
        HubModel.open(str(tmp_path), "cpu")
    assert str(caught.value).startswith(f"--model {tmp_path}: ")
    assert "\n" not in str(caught.value)


def test_not_a_causal_model(tmp_path):
    transformers.ViTConfig().save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"vit \(ViTConfig\) is not a causal language model"):
        HubModel.open(str(tmp_path), "cpu")


def test_without_a_tokenizer(copy):
    for file in copy.glob("tokenizer*"):
        file.unlink()
    # Some versions of transformers refuse the folder, others make up an empty tokenizer.
    with pytest.raises(UsageError, match="its tokenizer"):
        HubModel.open(str(copy), "cpu").tokens(b"in the beginning")


def test_a_tokenizer_of_another_model(copy):
    file = copy / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["model"]["vocab"]["a"] = 300
    file.write_text(json.dumps(content), encoding="utf-8")
    model = HubModel.open(str(copy), "cpu")
    with pytest.raises(UsageError, match="gives token 300, the model has 256: they do not belong"):
        model.tokens(b"a banana")


def test_damaged_weights(copy):
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UsageError) as caught:
        HubModel.open(str(copy), "cpu")
    assert "\n" not in str(caught.value)


def test_transformers_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match=r"pip install 'exactness\[quality\]'"):
        HubModel.open("anything", "cpu")
