"""k_rms_norm: every layout of a tile, strides, bad input."""

import pytest
import torch


def normal(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128, 256, 512])
def test_every_layout_of_a_tile(equals_reference, heads, head_dim):
    """f32 rows: the order shows. From 1 to 8 neighbours a thread, from 1 to 4 warps a row."""
    equals_reference("k_rms_norm", x=normal(3, heads, head_dim), weight=normal(head_dim), eps=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_strides(equals_reference, dtype):
    wide = normal(5, 9, 300, dtype=dtype)
    weight = normal(512, dtype=dtype)
    for x in (
        wide[:, :3, :256],
        wide[:, ::4, 1:257],
        wide[::2, 1:2, 7:263],
        wide[:3].transpose(0, 1)[:, :, :64],
        wide[:, :2, :256:2],
        wide[:1, :1, :32].expand(4, 6, 32),
    ):
        out = equals_reference("k_rms_norm", x=x, weight=weight[: 2 * x.shape[2] : 2], eps=1e-6)
        assert out.is_contiguous()
        assert out.dtype is dtype


def test_no_tokens(kernel):
    out = kernel("k_rms_norm")(x=normal(0, 2, 64), weight=normal(64))
    assert out.shape == (0, 2, 64)


X = torch.ones(2, 2, 64)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": X[0]}, ValueError, r"x: shape \(2, 64\) is not accepted; rank 3 is"),
        ({"x": X.long()}, TypeError, "x: dtype torch.int64 is not accepted"),
        ({"x": torch.ones(2, 9, 64)}, ValueError, "x: 9 heads are not accepted; 1 to 8 are"),
        ({"x": torch.ones(2, 0, 64)}, ValueError, "x: 0 heads are not accepted"),
        ({"x": torch.ones(2, 2, 96)}, ValueError, "x: head_dim 96 is not accepted; 16, 32"),
        ({"x": torch.ones(2, 2, 1024)}, ValueError, "x: head_dim 1024 is not accepted"),
        ({"weight": torch.ones(32)}, ValueError, r"weight: shape \(32,\) .* \(64,\) is"),
        ({"weight": torch.ones(64).to("meta")}, ValueError, "weight: device meta"),
        ({"eps": None}, TypeError, "eps: got NoneType; a float is accepted"),
    ],
)
def test_bad_input_is_named(kernel, change, error, message):
    with pytest.raises(error, match=message):
        kernel("k_rms_norm")(**({"x": X, "weight": torch.ones(64), "eps": 1e-5} | change))
