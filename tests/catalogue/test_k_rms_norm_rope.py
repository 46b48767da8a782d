"""k_rms_norm_rope: one launch equals two, every layout of a tile, strides, bad input."""

import pytest
import torch

NAME, NORM, ROPE = "k_rms_norm_rope", "k_rms_norm", "rope_yarn_partial"


def arguments(
    tokens=5, q_heads=6, k_heads=1, head_dim=256, rope_dim=64, dtype=torch.bfloat16, **given
):
    generator = torch.Generator().manual_seed(tokens)
    return {
        "q": torch.randn(tokens, q_heads, head_dim, generator=generator).to(dtype),
        "k": torch.randn(tokens, k_heads, head_dim, generator=generator).to(dtype),
        "weight": torch.randn(head_dim, generator=generator).bfloat16(),
        "positions": torch.randint(0, 50, (tokens,), generator=generator),
        "cos_sin": torch.randn(50, rope_dim, generator=generator),
        "eps": 1e-5,
        **given,
    }


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_one_launch_equals_two(kernel, dtype):
    one, two = arguments(dtype=dtype), arguments(dtype=dtype)
    rotated = kernel(NAME)(**one)
    normed = kernel(NORM)(x=two["k"], weight=two["weight"], eps=1e-5)
    kernel(ROPE)(q=two["q"], k=normed, positions=two["positions"], cos_sin=two["cos_sin"])
    wide = torch.int16 if dtype.itemsize == 2 else torch.int32
    assert torch.equal(rotated.view(wide), normed.view(wide))
    assert torch.equal(one["q"].view(wide), two["q"].view(wide))
    assert torch.equal(one["k"], arguments(dtype=dtype)["k"])


@pytest.mark.parametrize("k_heads", [1, 3, 8])
@pytest.mark.parametrize("dims", [(16, 2), (16, 16), (32, 32), (64, 26), (256, 64), (512, 510)])
def test_every_layout_of_a_tile(equals_reference, k_heads, dims):
    """f32 rows: the order shows. From 1 to 8 neighbours a thread, from 1 to 4 warps a row."""
    equals_reference(NAME, **arguments(3, 2, k_heads, *dims, torch.float32))


@pytest.mark.parametrize("q_heads", [0, 1, 40])
def test_any_number_of_queries(equals_reference, q_heads):
    given = arguments(4, q_heads)
    kept = given["q"][..., :192].clone()
    equals_reference(NAME, **given)
    assert torch.equal(given["q"][..., :192], kept)


def test_slices_of_one_projection(equals_reference):
    projected = torch.randn(4, 8 * 256).bfloat16()
    before = projected.clone()
    q, k = projected[:, :1536].view(4, 6, 256), projected[:, 1536:1792].view(4, 1, 256)
    out = equals_reference(NAME, **arguments(4) | {"q": q, "k": k})
    assert out["k_out"].is_contiguous()
    assert torch.equal(projected[:, 1536:], before[:, 1536:])
    assert not torch.equal(projected[:, :1536], before[:, :1536])


def test_strided_and_misaligned(equals_reference):
    wide = torch.randn(4, 300, 7).bfloat16()
    views = {
        "q": wide.transpose(1, 2)[..., 3:259],
        "k": torch.randn(4, 2, 515).bfloat16()[..., 1:513:2],
        "weight": torch.randn(513)[1::2],
        "cos_sin": torch.randn(50, 67)[:, 1:65],
    }
    for name, view in views.items():
        equals_reference(NAME, **arguments(4) | {name: view})
    one_head = torch.randn(1, 1, 256).bfloat16().expand(4, 3, 256)
    equals_reference(NAME, **arguments(4) | {"k": one_head})


@pytest.mark.parametrize("position", [-1, 50, 2**32 + 3, 2**40, -(2**63)])
def test_a_position_without_a_row_gives_nan(equals_reference, position):
    given = arguments(3)
    given["positions"][1] = position
    rotated = equals_reference(NAME, **given)["k_out"]
    for x in (rotated, given["q"]):
        assert x[1, :, 192:].isnan().all()
        assert x[1, :, :192].isfinite().all()
        assert x[[0, 2]].isfinite().all()


def test_no_tokens(kernel):
    assert kernel(NAME)(**arguments(0)).shape == (0, 1, 256)


K = torch.ones(5, 1, 256)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"k": K[0]}, ValueError, r"k: shape \(1, 256\) is not accepted; rank 3 is"),
        ({"k": K.long()}, TypeError, "k: dtype torch.int64 is not accepted"),
        ({"k": K}, TypeError, "q: dtype torch.bfloat16 is not accepted; torch.float32 is"),
        ({"k": K.bfloat16().repeat(1, 9, 1)}, ValueError, "k: 9 heads are not accepted; 1 to 8"),
        ({"k": K.bfloat16()[..., :96]}, ValueError, "k: head_dim 96 is not accepted; 16, 32"),
        ({"k": K.bfloat16()[..., :128]}, ValueError, "weight: shape"),
        ({"k": K.bfloat16()[:4]}, ValueError, "positions: shape .* token of k, 4"),
        ({"q": torch.ones(5, 6, 128).bfloat16()}, ValueError, "k: head_dim 256 .* q has 128"),
        ({"q": torch.ones(4, 6, 256).bfloat16()}, ValueError, "q: 4 tokens .* k has 5"),
        ({"q": torch.ones(5, 1536).bfloat16()}, ValueError, r"q: shape \(5, 1536\)"),
        ({"q": K.bfloat16().expand(5, 6, 256)}, ValueError, "q: strides .* not overlap"),
        ({"q": K.bfloat16().to("meta")}, ValueError, "q: device meta .* k is on cpu"),
        ({"weight": torch.ones(64)}, ValueError, r"weight: shape \(64,\) .* \(256,\) is"),
        ({"cos_sin": torch.ones(50, 64).bfloat16()}, TypeError, "cos_sin: dtype torch.bfloat16"),
        ({"cos_sin": torch.ones(50, 63)}, ValueError, r"cos_sin: shape \(50, 63\) .* even"),
        ({"cos_sin": torch.ones(50, 300)}, ValueError, "rope_dim from 2 to head_dim=256"),
        ({"positions": torch.ones(5).int()}, TypeError, "positions: dtype torch.int32"),
        ({"positions": torch.zeros(10).long()[::2]}, ValueError, "positions: .* with stride 2"),
        ({"positions": torch.ones(5).long().to("meta")}, ValueError, "positions: device meta"),
        ({"eps": None}, TypeError, "eps: got NoneType; a float is accepted"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_named(kernel, change, error, message):
    with pytest.raises(error, match=message):
        kernel(NAME)(**(arguments() | change))


def test_memory_that_q_and_k_share_is_refused(kernel):
    buffer = torch.ones(5 * 2 * 256).bfloat16()
    x = buffer[: 5 * 1 * 256].view(5, 1, 256)
    for start in (0, 256, 5 * 1 * 256 - 1):
        k = buffer[start:].as_strided((5, 1, 256), (256, 256, 1), start)
        with pytest.raises(ValueError, match="k: memory of q, which is written in place"):
            kernel(NAME)(**arguments() | {"q": x, "k": k})


def test_heads_of_one_tensor_share_no_memory(equals_reference):
    heads = torch.randn(5, 2, 256).bfloat16()
    equals_reference(NAME, **arguments() | {"q": heads[:, :1], "k": heads[:, 1:]})
