"""Models of transformers: their norms found, replaced for a call, and errors in one line."""

import json
import random
import runpy
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from exactness.errors import UsageError
from exactness.quality import hub
from exactness.quality.hub import HubModel
from exactness.quality.norms import Scale
from exactness.quality.patches import Patch, bound, chosen
from exactness.quality.run import Request, Run
from exactness.quality.store import Store
from exactness.quality.windows import Text

transformers = pytest.importorskip("transformers", reason="the extra `quality` brings it")

import huggingface_hub  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

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
    assert run.setting.model == family
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


def test_the_digest_sees_bytes_that_changed_places(folder, copy):
    """A sum of the bytes does not."""
    model, other = (HubModel.open(str(path), "cpu") for path in (folder / "qwen3", copy))
    weight = other.network.lm_head.weight.data
    weight[[0, 1]] = weight[[1, 0]]
    assert other.digest != model.digest


def test_the_digest_sees_the_configuration(folder, copy):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    rewrite(copy / "config.json", rms_norm_eps=1e-5)
    assert HubModel.open(str(copy), "cpu").digest != model.digest


def given(content):
    return Text(Path("the.txt"), content)


def test_text_goes_through_the_tokenizer(folder):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    found = model.tokens(given("añb".encode()), 100)
    assert found.ids.size == 4
    assert found.complete
    with pytest.raises(UsageError, match=r"--text the.txt: not UTF-8: .* at byte 1"):
        model.tokens(given(b"a\xff"), 100)


PIECES = ["word ", "in\n", "\n\n", "   ", " \n", "ende", "été ", "1234", "\t", ". "]


@pytest.mark.parametrize("most", [1, 7, 300])
def test_tokens_of_a_part_are_those_of_the_whole(folder, monkeypatch, most):
    """Runs of spaces and line ends are one token or several, as what follows decides."""
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    made = Tokenizer(models.BPE(unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    text = "".join(random.Random(most).choices(PIECES, k=3000))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=256 + 90, initial_alphabet=alphabet)
    made.train_from_iterator([text], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    model = replace(model, tokenizer=tokenizer)
    monkeypatch.setattr(HubModel, "vocabulary", 1 << 20)
    monkeypatch.setattr(hub, "AHEAD", 16)
    seen = []
    monkeypatch.setattr(HubModel, "_encoded", seeing(HubModel._encoded, seen))
    whole = model.tokens(given(text.encode()), 10**6)
    assert whole.complete
    seen.clear()
    found = model.tokens(given(text.encode()), most)
    assert not found.complete
    assert most <= found.ids.size < whole.ids.size
    assert np.array_equal(found.ids, whole.ids[: found.ids.size])
    assert sum(map(len, seen)) <= 2 * 8 * (most + 16)


def test_a_text_of_long_tokens_is_read_as_far_as_needed(folder, monkeypatch):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    monkeypatch.setattr(hub, "AHEAD", 4)
    lines = seeing(lambda self, text: np.arange(text.count("\n")) % 256, seen := [])
    monkeypatch.setattr(HubModel, "_encoded", lines)
    content = given(b"a line of twenty by.\n" * 1000)
    found = model.tokens(content, 20)
    assert found.ids.size >= 20
    assert not found.complete
    assert sum(map(len, seen)) < 4 * 24 * 21
    assert model.tokens(content, 997).complete


def seeing(function, seen):
    """The method, the text that it is given kept."""

    def method(self, text):
        seen.append(text)
        return function(self, text)

    return method


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


@pytest.mark.parametrize("decoder", [False, True])
def test_an_encoder_is_not_causal(tmp_path, folder, decoder):
    """With its head it lacks nothing; it sees the tokens that it is to predict."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=256, intermediate_size=32, **sizes)
    config.is_decoder = decoder
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    for file in (folder / "qwen3").glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    if decoder:
        assert HubModel.open(str(tmp_path), "cpu").network.config.is_decoder
        return
    with pytest.raises(UsageError, match=r"bert \(BertConfig\) is not a causal language model"):
        HubModel.open(str(tmp_path), "cpu")


def test_an_encoder_without_a_head_is_not_causal(tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=256, intermediate_size=32, **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"bert \(BertConfig\) is not a causal language model"):
        HubModel.open(str(tmp_path), "cpu")


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("q_norm", r"lack model.layers.0.self_attn.q_norm.weight and 1 more, which Qwen3ForCausal"),
        ("lm_head", r"its files lack lm_head.weight, which Qwen3ForCausalLM needs"),
    ],
)
def test_weights_that_are_missing_are_not_drawn(copy, lost, message, capfd):
    drop(copy / "model.safetensors", lost)
    with pytest.raises(UsageError, match=message):
        HubModel.open(str(copy), "cpu")
    assert capfd.readouterr().err == ""


def test_a_head_that_is_tied_is_not_missing(copy):
    drop(copy / "model.safetensors", "lm_head")
    rewrite(copy / "config.json", tie_word_embeddings=True)
    network = HubModel.open(str(copy), "cpu").network
    assert network.lm_head.weight is network.model.embed_tokens.weight


def drop(file, part):
    """Leave tensors out of a file."""
    kept = {name: each for name, each in load_file(file).items() if part not in name}
    save_file(kept, file, {"format": "pt"})


def rewrite(file, **changed):
    """Change a configuration."""
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(content | changed), encoding="utf-8")


class Gated(torch.nn.Module):
    """An RMS norm of rows, if it is given no more."""

    def __init__(self, kind):
        super().__init__()
        self.eps, self.kind = 1e-6, kind
        shape = (1, 32) if kind == "heads" else (32,)
        self.weight = torch.nn.Parameter(torch.ones(shape, dtype=torch.bfloat16))

    def forward(self, x, gate=None):
        normal = torch.nn.functional.rms_norm(x, (32,), eps=self.eps) * self.weight
        return normal * torch.nn.functional.silu(gate) if self.kind == "must" else normal


class RefusingNorm(Gated):
    """Takes rows, in another rank than they have."""

    def forward(self, x):
        rows, n = x.shape
        return x.reshape(rows, n)


class HeadsNorm(Gated):
    """A weight for each head."""

    def forward(self, x):
        return super().forward(x)


class GatedNorm(Gated):
    """Named as what it is."""


@pytest.mark.parametrize(
    "module",
    [GatedNorm("may"), GatedNorm("must"), RefusingNorm(""), HeadsNorm("heads")],
    ids=["may be gated", "gated", "other rank", "weight of heads"],
)
def test_a_norm_that_takes_more_than_rows_is_not_offered(folder, module):
    model = HubModel.open(str(folder / "qwen3"), "cpu")
    model.network.model.norm = module
    model.__dict__.pop("norms", None)
    assert "model.norm" not in model.norms
    assert "model.layers.0.input_layernorm" in model.norms


@pytest.mark.parametrize("name", ["nonesuch", "someone/nonesuch"])
def test_a_name_without_a_network_is_one_line(name, monkeypatch, capfd):
    """The loaders would ask again for half a minute, and say so on each time."""
    asked = []

    def unreachable(self, name, **options):
        asked.append(options["timeout"])
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(UsageError) as caught:
        HubModel.open(name, "cpu")
    assert str(caught.value).startswith(
        f"--model {name}: no such directory, and the hub cannot be reached: "
    )
    assert "\n" not in str(caught.value)
    assert asked == [10]
    assert capfd.readouterr().err == ""


def test_what_the_hub_answers_is_left_to_the_loader(monkeypatch):
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, name, **options: None)
    local = []

    def loader(name, *, local_files_only):
        local.append(local_files_only)
        raise OSError("not a valid model identifier")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", loader)
    with pytest.raises(UsageError, match="the hub does not give it: not a valid model identifier"):
        HubModel.open("nonesuch", "cpu")
    assert local == [False]


@pytest.mark.parametrize("name", ["", " ", "config.json"])
def test_what_is_neither_a_folder_nor_a_name(copy, monkeypatch, name):
    monkeypatch.chdir(copy)
    with pytest.raises(UsageError, match=f"'{name}': a folder or a name on the hub is accepted"):
        HubModel.open(name, "cpu")


def test_without_a_tokenizer(copy):
    for file in copy.glob("tokenizer*"):
        file.unlink()
    # Some versions of transformers refuse the folder, others make up an empty tokenizer.
    with pytest.raises(UsageError, match="its tokenizer"):
        HubModel.open(str(copy), "cpu").tokens(given(b"in the beginning"), 100)


def test_a_tokenizer_of_another_model(copy):
    file = copy / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["model"]["vocab"]["a"] = 300
    file.write_text(json.dumps(content), encoding="utf-8")
    model = HubModel.open(str(copy), "cpu")
    with pytest.raises(UsageError, match="gives token 300, the model has 256: they do not belong"):
        model.tokens(given(b"a banana"), 100)


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
