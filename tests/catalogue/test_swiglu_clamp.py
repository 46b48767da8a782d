"""swiglu_clamp: bad input, layouts, and the semantics of its clamps."""

import pytest
import torch

NAN, INF = float("nan"), float("inf")


def pair(*shape, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(sum(shape))
    return [(20 * torch.randn(shape, generator=generator)).to(dtype) for _ in range(2)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_nan_becomes_a_bound_and_only_up_is_clamped_below(kernel, dtype):
    gate = torch.tensor([NAN, -INF, -100.0, 50.0, 0.0, -0.0, 10.0], dtype=dtype)
    up = torch.tensor([NAN, 1.0, 1.0, -50.0, 5.0, 5.0, INF], dtype=dtype)
    out = kernel("swiglu_clamp")(gate=gate, up=up, limit=10.0).float()
    silu_of_limit = torch.tensor(9.9995460510).to(dtype).float()
    assert out[0] == pytest.approx(-10 * float(silu_of_limit), rel=1e-2)
    # e^inf is inf, and −inf / inf is NaN; a finite gate of −100 gives −0.
    assert out[1].isnan()
    assert out[2] == 0
    assert out[2].signbit()
    assert out[3] == out[0]
    assert out[5].signbit()
    assert not out[4].signbit()
    assert out[6] == -out[0]


def test_limits_go_from_f64_to_f32_once(equals_reference):
    gate, up = pair(64, dtype=torch.float32)
    for limit in (1 + 2**-24 + 2**-50, 1e-60, 1e300, INF, 3):
        equals_reference("swiglu_clamp", gate=gate, up=up, limit=limit)


def test_layouts(equals_reference, view):
    gate, up = pair(7, 96)
    out = equals_reference("swiglu_clamp", gate=view(gate), up=view(up).clone(), limit=7.0)
    assert out.is_contiguous()
    assert out.shape == view(gate).shape


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"gate": [1.0]}, TypeError, "gate: got list; a torch.Tensor is accepted"),
        (
            {"gate": torch.ones(3).double()},
            TypeError,
            "gate: dtype torch.float64 is not accepted",
        ),
        ({"up": torch.ones(3)}, TypeError, "up: dtype torch.float32 .* gate has torch.bfloat16"),
        ({"up": torch.ones(4).bfloat16()}, ValueError, r"up: shape \(4,\) .* gate has \(3,\)"),
        ({"gate": torch.ones(3).bfloat16().to_sparse()}, ValueError, "gate: layout torch.sparse"),
        ({"up": torch.ones(3).bfloat16().to("meta")}, ValueError, "up: device meta .* gate is on"),
        ({"limit": 0.0}, ValueError, "limit: 0.0 is not accepted; a number above 0 is"),
        ({"limit": NAN}, ValueError, "limit: nan is not accepted"),
        ({"limit": "7"}, TypeError, "limit: got str; a float is accepted"),
        ({"limit": True}, TypeError, "limit: got bool"),
    ],
)
def test_bad_input_is_named(kernel, change, error, message):
    good = {"gate": torch.ones(3).bfloat16(), "up": torch.ones(3).bfloat16(), "limit": 7.0}
    with pytest.raises(error, match=message):
        kernel("swiglu_clamp")(**(good | change))


def test_offsets_beyond_32_bits(equals_reference, tmp_path):
    """Rows, then columns, 2^31 elements apart; the file is sparse."""
    far = torch.from_file(str(tmp_path / "far"), shared=True, size=2**31 + 64, dtype=torch.bfloat16)
    for view in (far.as_strided((2, 64), (2**31, 1)), far.as_strided((64, 2), (1, 2**31))):
        gate, up = pair(*view.shape)
        equals_reference("swiglu_clamp", gate=view.copy_(gate), up=up, limit=7.0)


def test_more_than_three_dimensions_that_do_not_merge_are_refused(kernel):
    x = torch.ones(2, 3, 4, 5, 6).bfloat16()[:, :2, :3, :4, ::2]
    with pytest.raises(ValueError, match=r"gate: shape .* with strides .* at most 3 dimensions"):
        kernel("swiglu_clamp")(gate=x, up=x, limit=7.0)
