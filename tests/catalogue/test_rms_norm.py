"""rms_norm and rms_norm_residual: contracts, layouts, edges of the arithmetic, bad input."""

import pytest
import torch

from exactness.arithmetic.hopper import Hopper
from exactness.checks.base import bits_of

NAN, INF = float("nan"), float("inf")


def normal(*shape, dtype=torch.bfloat16, seed=0):
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(shape, generator=generator).to(dtype)


@pytest.fixture(scope="module")
def reference(catalogue):
    """A reference's outputs as tensors."""

    def run(address, **arguments):
        results = Hopper().run(catalogue.reference(address), arguments)
        return [bits_of(result).torch() for result in results]

    return run


def share_differing(actual, expected):
    return float((actual != expected).float().mean())


def test_where_the_weight_enters_shows_in_a_quarter_of_the_elements(equals_reference):
    """Product in f32 and one cast, against cast and then product."""
    x, weight = normal(16, 4, 1024), normal(1024)
    cast_once = equals_reference("rms_norm", x=x, weight=weight, eps=1e-5)
    cast_first = equals_reference("rms_norm_cast_first", x=x, weight=weight, eps=1e-5)
    assert 0.2 < share_differing(cast_first["out"], cast_once["out"]) < 0.33


def test_the_sum_is_rounded_before_the_norm_or_not(equals_reference):
    x = torch.tensor([[1.0, 2**-7]]).bfloat16()
    residual = torch.tensor([[2**-8, 3.0]]).bfloat16()
    rounded = torch.tensor([[1.0, 3.0]]).bfloat16()
    given = {"weight": torch.ones(2).bfloat16(), "eps": 1e-5, "residual_after": False}
    welm = equals_reference("rms_norm_residual", x=x, residual=residual, **given)
    kept = equals_reference("rms_norm_previous_precision", x=x, residual=residual, **given)
    assert welm["residual_out"].tolist() == kept["residual_out"].tolist() == [[1.0, 3.0]]
    plain = equals_reference("rms_norm", x=rounded, weight=given["weight"], eps=1e-5)
    assert welm["out_f32"].tolist() == plain["out_f32"].tolist()
    assert kept["out_f32"].tolist() != plain["out_f32"].tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_one_launch_equals_two(kernel, equals_reference, dtype):
    """The sum, stored as the new residual, then the norm of what was stored."""
    given = {"weight": normal(300, dtype=dtype), "eps": 1e-5}
    x, residual = normal(5, 3, 300, dtype=dtype), normal(5, 3, 300, dtype=dtype, seed=1)
    one = equals_reference("residual_add_rms_norm", x=x, residual=residual, **given)
    total = x + residual
    out, out_f32 = kernel("rms_norm")(x=total, **given)
    assert torch.equal(one["residual_out"], total)
    assert torch.equal(one["out"], out)
    assert torch.equal(one["out_f32"], out_f32)


def test_rounding_as_the_weight_and_as_the_residual_part_where_their_formats_do(equals_reference):
    x, residual = normal(9, 300), normal(9, 300, seed=1)
    given = {"x": x, "residual": residual, "eps": 1e-5, "residual_after": False}
    for weight, share in ((normal(300), 0.0), (normal(300, dtype=torch.float32), 0.1)):
        by_weight = equals_reference("rms_norm_residual", weight=weight, **given)
        by_residual = equals_reference("rms_norm_residual_rounded", weight=weight, **given)
        differing = share_differing(by_weight["out"], by_residual["out"])
        assert differing >= share
        assert share or not differing


def test_one_plus_weight_is_formed_in_f32(equals_reference, reference):
    given = {"x": torch.ones(1, 1, 1).bfloat16(), "weight": torch.tensor([0.0502]).bfloat16()}
    result = equals_reference("rms_norm_weight_offset", **given, eps=0.0)
    assert result["out_f32"].item() == 1.05029296875
    _, wrong = reference("rms_norm:rms_norm_weight_offset_rounded", **given, eps=0.0)
    assert wrong.item() == 1.046875


def test_the_new_residual_is_the_result_or_the_sum(equals_reference):
    x, residual, weight = normal(5, 96), normal(5, 96, dtype=torch.float32, seed=1), normal(96)
    given = {"x": x, "residual": residual, "weight": weight, "eps": 1e-5}
    before = equals_reference("rms_norm_residual", **given, residual_after=False)
    after = equals_reference("rms_norm_residual", **given, residual_after=True)
    assert before["residual_out"].dtype is torch.float32
    assert torch.equal(before["residual_out"], x.float() + residual)
    assert after["residual_out"].dtype is torch.bfloat16
    assert torch.equal(after["residual_out"], after["out"])
    assert after["residual_out"].data_ptr() != after["out"].data_ptr()


def test_eps_counts_and_is_f32(equals_reference):
    x, weight = torch.full((1, 512), 2e-2).bfloat16(), torch.ones(512)
    results = {
        eps: equals_reference("rms_norm", x=x, weight=weight, eps=eps)["out_f32"][0, 0].item()
        for eps in (0.0, 1e-6, 1e-5, 1e-4, 1, 1e300)
    }
    assert len(set(results.values())) == len(results)
    assert results[1e300] == 0.0


@pytest.mark.parametrize("n", [1, 2, 31, 100, 129, 1025])
def test_rows_of_zeros_overflow_and_specials(equals_reference, n):
    x = torch.tensor([0.0, -0.0, 1e-23, 1e15, 1e18, 1e20, INF, NAN])[:, None].repeat(1, n)
    x[-2:, 1:] = 1.0
    for eps in (1e-5, 0.0):
        out = equals_reference("rms_norm", x=x, weight=torch.ones(n), eps=eps)["out"]
        assert out[0].isnan().all() if eps == 0 else (out[0] == 0).all()
        assert out[1].signbit().all() or eps == 0
        assert (out[5] == 0).all()
        assert out[7].isnan().all()


def test_all_layouts_of_x_residual_and_weight(equals_reference, view):
    x, residual = view(normal(7, 96)), view(normal(7, 96, dtype=torch.float32, seed=1))
    if x.ndim < 2 or not x.numel():
        return
    wide = normal(2 * x.shape[-1], dtype=torch.float32)
    n = x.shape[-1]
    for weight in (wide[:n], wide[::2], wide[:1].expand(n), wide[1 : n + 1]):
        given = {"x": x, "residual": residual, "weight": weight, "eps": 1e-5}
        out = equals_reference("rms_norm_residual", **given, residual_after=False)
        assert all(result.is_contiguous() for result in out.values())
        assert out["out"].shape == x.shape


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (0, 0), (0, 2, 8), (2, 0, 8)])
def test_empty_tensors_stay_empty(kernel, shape):
    x, weight = normal(*shape), normal(shape[-1])
    assert [out.shape for out in kernel("rms_norm")(x=x, weight=weight)] == [x.shape] * 2
    results = kernel("rms_norm_residual")(x=x, residual=x.float(), weight=weight)
    assert [r.shape for r in results] == [x.shape] * 3
    assert [r.dtype for r in results] == [torch.bfloat16, torch.float32, torch.float32]


def test_the_residual_may_be_x(equals_reference):
    x = normal(3, 200)
    equals_reference(
        "rms_norm_residual", x=x, residual=x, weight=normal(200), eps=1e-5, residual_after=False
    )


def test_offsets_beyond_32_bits(equals_reference, tmp_path):
    """Rows, then columns, 2^31 elements apart; the file is sparse."""
    far = torch.from_file(str(tmp_path / "far"), shared=True, size=2**31 + 64, dtype=torch.bfloat16)
    for view in (far.as_strided((2, 64), (2**31, 1)), far.as_strided((64, 2), (1, 2**31))):
        x = view.copy_(normal(*view.shape))
        equals_reference("rms_norm", x=x, weight=normal(x.shape[-1]), eps=1e-5)


def test_a_16_bit_sum_is_not_narrowed(equals_reference):
    """bf16 + f16 rounded to f16 once, where x is no f16."""
    x = torch.tensor([[2.0**-18 * 1.7109375, 3.0e5]]).bfloat16()
    residual = torch.tensor([[-(2.0**-14) * 1.958, -2.9e5]]).half()
    weight = torch.ones(2).half()
    given = {"x": x, "residual": residual, "weight": weight, "eps": 1e-5, "residual_after": False}
    equals_reference("rms_norm_residual_rounded", **given)
    equals_reference("rms_norm_residual", **given)


ONES = torch.ones(2, 8).bfloat16()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": [1.0]}, TypeError, "x: got list; a torch.Tensor is accepted"),
        ({"x": ONES.double()}, TypeError, "x: dtype torch.float64 is not accepted"),
        ({"x": ONES[0]}, ValueError, r"x: shape \(8,\) is not accepted; rank 2 or 3 is"),
        ({"x": ONES.to_sparse()}, ValueError, "x: layout torch.sparse"),
        ({"weight": ONES}, ValueError, r"weight: shape \(2, 8\) is not accepted; rank 1 is"),
        ({"weight": torch.ones(7)}, ValueError, r"weight: shape \(7,\) .* \(8,\) is"),
        ({"weight": torch.ones(8).int()}, TypeError, "weight: dtype torch.int32"),
        ({"weight": torch.ones(8).to("meta")}, ValueError, "weight: device meta .* x is on cpu"),
        ({"eps": "0"}, TypeError, "eps: got str; a float is accepted"),
        ({"eps": True}, TypeError, "eps: got bool"),
        ({"residual": None}, TypeError, "residual: got NoneType"),
        ({"residual": ONES[:1]}, ValueError, r"residual: shape \(1, 8\) .* \(2, 8\) is"),
        ({"residual": ONES.to("meta")}, ValueError, "residual: device meta .* x is on cpu"),
        ({"contract": "welm"}, TypeError, "contract: got str; a Contract is accepted"),
    ],
)
def test_bad_input_is_named(kernel, change, error, message):
    good = {"x": ONES, "residual": ONES, "weight": torch.ones(8).bfloat16(), "eps": 1e-5}
    with pytest.raises(error, match=message):
        kernel("rms_norm_residual")(**(good | change))
    if "residual" not in change:
        plain = {name: value for name, value in (good | change).items() if name != "residual"}
        with pytest.raises(error, match=message):
            kernel("rms_norm")(**plain)


def test_more_columns_than_supported_are_refused(kernel):
    with pytest.raises(ValueError, match="x: 8193 columns are not accepted; 1 to 8192 are"):
        kernel("rms_norm")(x=torch.ones(1, 8193), weight=torch.ones(8193))
