"""The shipped model: causal, normalised where it says, read back as it was written."""

import hashlib
import json

import pytest
import torch

from exactness.errors import UsageError
from exactness.quality import byte_model, shipped
from exactness.quality.shipped import ByteModel
from exactness.quality.windows import Text


def test_later_tokens_do_not_change_earlier_logits(model):
    tokens = torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[:, 10] += 1
    before, after = model.logits(tokens, {}), model.logits(changed % 256, {})
    assert torch.equal(before[:, :10], after[:, :10])
    assert not torch.equal(before[:, 10:], after[:, 10:])


def test_rotation_makes_the_order_of_tokens_matter(model):
    tokens = torch.tensor([[5, 9, 7], [9, 5, 7]])
    first, second = model.logits(tokens, {})[:, -1]
    assert not torch.equal(first, second)


def test_every_norm_is_asked_for_by_name_with_heads_last(model, shape):
    seen = {}

    def norm(name, x):
        seen[name] = (tuple(x.shape), x.dtype)
        return x

    tokens = torch.zeros(3, 7, dtype=torch.int64)
    byte_model.logits(shape, model.weights, tokens, norm)
    expected = ((3, 7, shape.heads, shape.head_dim), torch.bfloat16)
    assert seen == dict.fromkeys(shape.query_norms, expected)


def test_a_replaced_norm_changes_the_logits_and_is_forgotten(model):
    tokens = torch.arange(8)[None]
    plain = model.logits(tokens, {})
    doubled = model.logits(tokens, {"layers.1.q_norm": lambda x: 2 * x})
    assert not torch.equal(plain, doubled)
    assert torch.equal(plain, model.logits(tokens, {}))


def test_threads_are_as_before(model):
    before = torch.get_num_threads()
    model.logits(torch.arange(8)[None], {})
    assert torch.get_num_threads() == before


def test_weights_come_back(tmp_path, shape, model):
    path = tmp_path / "model.safetensors"
    byte_model.save(path, shape, model.weights)
    read_shape, read = byte_model.load(path)
    assert read_shape == shape
    assert read.keys() == model.weights.keys()
    assert all(torch.equal(read[name], weight) for name, weight in model.weights.items())


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"not a model")
    with pytest.raises(UsageError, match="not a model of this package"):
        byte_model.load(path)


def test_a_weight_of_the_wrong_shape_is_named(tmp_path, shape, model):
    path = tmp_path / "model.safetensors"
    wrong = {**model.weights, "layers.0.query": torch.zeros(3, 3)}
    byte_model.save(path, shape, wrong)
    with pytest.raises(UsageError, match=r"'layers.0.query' is \(3, 3\), expected \(16, 16\)"):
        byte_model.load(path)


def test_what_ships_is_small_and_as_its_card_says():
    data = shipped.WEIGHTS.parent
    assert shipped.WEIGHTS.stat().st_size <= 8 << 20
    model = ByteModel.open(shipped.WEIGHTS)
    assert model.shape.head_dim == 512
    assert {w.dtype for w in model.weights.values()} == {torch.bfloat16}
    card = (data / "README.md").read_text(encoding="utf-8")
    parameters = sum(w.numel() for w in model.weights.values())
    assert f"{parameters:,}, bf16" in card
    assert hashlib.sha256(shipped.TEXT.read_bytes()).hexdigest() in card
    record = json.loads((data / "training.json").read_text(encoding="utf-8"))
    assert str(record["final_nats_per_byte"]["held_out"]) in card


def test_the_shipped_model_has_learned_its_language():
    model = ByteModel.open(shipped.WEIGHTS)
    tokens = torch.from_numpy(model.tokens(Text.read(shipped.TEXT), 1025).ids[:1025])
    windows = tokens[:1024].reshape(4, 256)
    logits = model.logits(windows[:, :-1], {})
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    assert float(loss) < 1.3  # 5.5 for a guess, 3 for letters by their frequency
