"""expert_bias_topk: the rank rule by hand, ties and NaN, layouts, bad input."""

import math

import pytest
import torch

NAME = "expert_bias_topk"
INF, NAN = float("inf"), float("nan")


def tie_rank(expert, experts):
    lane, local = expert % 128 // 4, expert // 128 * 4 + expert % 4
    return lane * (experts // 32) + local


def by_hand(scores, bias, topk):
    """Weights and ids of one row, by sorting."""
    numbers = [-INF if math.isnan(score) else score for score in scores.tolist()]
    sums = (torch.tensor(numbers) + bias).tolist()
    experts = len(numbers)
    candidates = [e for e in range(experts) if not math.isnan(sums[e])]
    candidates.sort(key=lambda e: (-sums[e], tie_rank(e, experts)))
    missing = max(topk - len(candidates), 0)
    chosen = candidates[:topk]
    return [numbers[e] for e in chosen] + [-INF] * missing, chosen + [experts + 1] * missing


def rows(*chosen, experts=128):
    """Rows of −1 with the given elements replaced."""
    scores = torch.full((len(chosen), experts), -1.0)
    for row, elements in zip(scores, chosen, strict=True):
        for expert, score in elements.items():
            row[expert] = score
    return scores


@pytest.mark.parametrize("groups", range(1, 9))
def test_equal_scores_come_in_order_of_tie_rank(equals_reference, groups):
    experts = 128 * groups
    out = equals_reference(
        NAME, scores=torch.ones(2, experts), bias=torch.zeros(experts), topk=groups + 3
    )
    assert out["ids"].tolist() == [by_hand(torch.ones(experts), torch.zeros(1), groups + 3)[1]] * 2
    assert (out["weights"] == 1).all()


@pytest.mark.parametrize("topk", [1, 2, 10, 31, 32])
def test_ties_at_the_last_place(equals_reference, topk):
    generator = torch.Generator().manual_seed(topk)
    scores = torch.randint(0, 4, (20, 384), generator=generator).float()
    bias = torch.randint(0, 2, (384,), generator=generator).float()
    out = equals_reference(NAME, scores=scores, bias=bias, topk=topk)
    for row, weights, ids in zip(scores, out["weights"], out["ids"], strict=True):
        assert (weights.tolist(), ids.tolist()) == by_hand(row, bias, topk)
        assert ids.unique().numel() == topk


SPECIAL = {
    "one_nan": rows({7: NAN, 3: 2.0}),
    "all_nan": torch.full((1, 128), NAN),
    "all_minus_infinity": torch.full((1, 128), -INF),
    "infinities": rows({100: INF, 4: INF, 9: -INF}),
    "both_zeros_tie": rows({5: 0.0, 1: -0.0, 2: 0.0, 126: -0.0}),
    "subnormals": rows({5: 1e-45, 1: -1e-45, 2: 2e-45, 7: 0.0}),
    "nan_and_minus_infinity": torch.tensor([[NAN, -INF] * 64]),
}


@pytest.mark.parametrize("scores", SPECIAL.values(), ids=SPECIAL)
def test_special_scores(equals_reference, scores):
    for bias in (torch.zeros(128), torch.full((128,), -0.0), torch.full((128,), -3.0)):
        out = equals_reference(NAME, scores=scores, bias=bias, topk=32)
        assert (out["weights"][0].tolist(), out["ids"][0].tolist()) == by_hand(scores[0], bias, 32)
        assert 0 <= out["ids"].min() <= out["ids"].max() < 128


def test_the_weight_is_the_score_with_its_sign_of_zero(kernel):
    weights, ids = kernel(NAME)(scores=rows({6: -0.0}), bias=torch.zeros(128), topk=1)
    assert ids.tolist() == [[6]]
    assert weights.signbit().all()


@pytest.mark.parametrize("numbers", [0, 1, 9, 10, 11])
def test_fewer_candidates_than_asked_for(equals_reference, numbers):
    bias = torch.full((256,), NAN)
    bias[torch.randperm(256, generator=torch.Generator().manual_seed(0))[:numbers]] = 0.5
    scores = torch.randn(3, 256, generator=torch.Generator().manual_seed(1))
    out = equals_reference(NAME, scores=scores, bias=bias, topk=10)
    assert (out["ids"] == 257).sum(dim=1).tolist() == [10 - min(numbers, 10)] * 3
    assert out["weights"][out["ids"] == 257].eq(-INF).all()
    out = equals_reference(NAME, scores=scores.fill_(INF), bias=bias.fill_(-INF), topk=2)
    assert out["ids"].tolist() == [[257, 257]] * 3


def test_sums_that_are_equal_only_after_rounding_tie(equals_reference):
    scores = torch.zeros(1, 128)
    scores[0, 4], scores[0, 3] = 2.0**-26, 2.0**-25
    out = equals_reference(NAME, scores=scores, bias=torch.ones(128), topk=4)
    assert out["ids"].tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::2],
        lambda x: x[1:, 3:131],
        lambda x: x[:, 128:],
        lambda x: x[:1, :128].expand(4, 128),
        lambda x: x[:, :1].expand(9, 256),
        lambda x: x.reshape(256, 9)[:128].transpose(0, 1),
        lambda x: x.reshape(-1)[1:257].reshape(2, 128),
        lambda x: x[:1, :128].as_strided((1, 128), (2**31, 1)),
        lambda x: x[:0],
    ],
    ids=[
        "every_second_column", "slice", "half", "one_row_for_all", "one_column_for_all",
        "transposed", "misaligned", "huge_stride_of_size_1", "no_rows",
    ],
)  # fmt: skip
def test_layouts(equals_reference, view):
    generator = torch.Generator().manual_seed(2)
    scores = view(torch.randn(9, 256, generator=generator))
    biases = torch.randn(3, scores.shape[1], generator=generator)
    columns = biases.transpose(0, 1).contiguous()
    for bias in (biases[0], columns[:, 1], biases[0, :1].expand(scores.shape[1])):
        out = equals_reference(NAME, scores=scores, bias=bias, topk=10)
        assert out["weights"].is_contiguous()
        assert out["ids"].is_contiguous()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": [1.0]}, TypeError, "scores: got list; a torch.Tensor is accepted"),
        ({"scores": torch.ones(2, 128).bfloat16()}, TypeError, "scores: dtype torch.bfloat16"),
        ({"scores": torch.ones(128)}, ValueError, r"scores: shape \(128,\) .* rank 2 is"),
        ({"scores": torch.ones(2, 127)}, ValueError, r"\(2, 127\) .* a multiple of 128 up to 1024"),
        ({"scores": torch.ones(2, 0)}, ValueError, r"scores: shape \(2, 0\)"),
        ({"scores": torch.ones(2, 1152)}, ValueError, r"scores: shape \(2, 1152\)"),
        ({"scores": torch.ones(2, 128).to_sparse()}, ValueError, "scores: layout torch.sparse"),
        ({"bias": torch.ones(128).double()}, TypeError, "bias: dtype torch.float64"),
        ({"bias": torch.ones(256)}, ValueError, r"bias: shape \(256,\) .* \(128,\) is"),
        ({"bias": torch.ones(128).to("meta")}, ValueError, "bias: device meta .* scores is on cpu"),
        ({"topk": 0}, ValueError, "topk: 0 is not accepted; 1 to 32 is"),
        ({"topk": 33}, ValueError, "topk: 33"),
        ({"topk": 2.0}, TypeError, "topk: got float; an int is accepted"),
        ({"topk": True}, TypeError, "topk: got bool"),
    ],
)
def test_bad_input_is_named(kernel, change, error, message):
    good = {"scores": torch.ones(2, 128), "bias": torch.ones(128), "topk": 3}
    with pytest.raises(error, match=message):
        kernel(NAME)(**(good | change))
