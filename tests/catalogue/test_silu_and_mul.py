"""silu_and_mul: its two contracts told apart, bad input and layouts."""

import pytest
import torch

INF, NAN = float("inf"), float("nan")


def test_the_contracts_differ_in_one_rounding(kernel):
    x = torch.tensor([[0.8046875, -0.61328125]]).bfloat16()
    assert kernel("silu_and_mul")(x=x).tolist() == [[-0.33984375]]
    assert kernel("silu_and_mul_once")(x=x).tolist() == [[-0.341796875]]


@pytest.mark.parametrize("name", ["silu_and_mul", "silu_and_mul_once"])
def test_edges_of_the_activation(kernel, name):
    x = torch.tensor([[-INF, 1.0], [INF, 1.0], [NAN, 1.0], [-89.0, 1.0], [-88.0, 1.0], [0.0, -1.0]])
    out = kernel(name)(x=x)[:, 0]
    # e^89 overflows: the true −2e-37 becomes −0, while e^88 does not.
    assert out[[0, 2]].isnan().all()
    assert out[1] == INF
    assert out[3] == 0
    assert out[3].signbit()
    assert -1e-36 < out[4] < 0
    assert out[5].signbit()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_layouts(equals_reference, view, dtype):
    x = (4 * torch.randn(7, 96, generator=torch.Generator().manual_seed(0))).to(dtype)
    for name in ("silu_and_mul", "silu_and_mul_once"):
        if view(x).shape[-1] % 2 == 0:
            assert equals_reference(name, x=view(x)).is_contiguous()


def test_halves_of_any_rank(equals_reference):
    for shape in [(6,), (2, 3, 4, 10), (0, 8), (5, 0), (1, 2)]:
        equals_reference("silu_and_mul", x=torch.randn(shape).half())


@pytest.mark.parametrize("name", ["silu_and_mul", "silu_and_mul_once"])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (1.0, TypeError, "x: got float; a torch.Tensor is accepted"),
        (torch.ones(2, 4).long(), TypeError, "x: dtype torch.int64 is not accepted"),
        (torch.ones(2, 5), ValueError, r"x: shape \(2, 5\) .* even number of columns"),
        (torch.tensor(1.0), ValueError, r"x: shape \(\) is not accepted"),
        (torch.ones(2, 4).to_sparse(), ValueError, "x: layout torch.sparse_coo"),
    ],
    ids=["type", "dtype", "odd", "rank", "layout"],
)
def test_bad_input_is_named(kernel, name, x, error, message):
    with pytest.raises(error, match=message):
        kernel(name)(x=x)
