"""attention_gate_sigmoid_mul: in place, strided, its two contracts, bad input."""

import pytest
import torch

NAMES = ["attention_gate_sigmoid_mul", "attention_gate_sigmoid_mul_once"]


def gated(tokens, heads, dim, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(tokens)
    gate = (10 * torch.randn(tokens, heads, 1, generator=generator)).to(dtype)
    return gate, torch.randn(tokens, heads, dim, generator=generator).to(dtype)


def test_the_contracts_differ_in_one_rounding(equals_reference):
    results = []
    for name in NAMES:
        gate, value = gated(9, 6, 256)
        results.append(equals_reference(name, gate=gate, value=value))
        assert results[-1] is value
    differing = (results[0] != results[1]).sum()
    assert 0 < differing < results[0].numel() // 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_only_the_elements_of_a_slice_are_written(equals_reference, name, dtype):
    gate, _ = gated(5, 6, 1, dtype)
    wide = torch.randn(5, 8 * 64 + 3).to(dtype)
    before = wide.clone()
    value = wide[:, 64 : 7 * 64].unflatten(1, (6, 64))
    equals_reference(name, gate=gate, value=value)
    assert torch.equal(wide[:, :64], before[:, :64])
    assert torch.equal(wide[:, 7 * 64 :], before[:, 7 * 64 :])


@pytest.mark.parametrize("name", NAMES)
def test_layouts(equals_reference, name):
    gate, value = gated(5, 6, 40)
    equals_reference(name, gate=gate, value=value.clone())
    equals_reference(name, gate=gate[:1].expand(5, 6, 1), value=value.clone())
    equals_reference(name, gate=gate[:, ::2], value=value[:, 1::2, 1:38])
    equals_reference(name, gate=gate.transpose(0, 1), value=value.transpose(0, 1))
    equals_reference(name, gate=gate.transpose(0, 2)[0, 0, :4], value=value[0, 0, :4])
    equals_reference(name, gate=value[:, :, ::2].clone(), value=value[:, :, ::2])
    equals_reference(name, gate=gate[:0], value=value[:0])
    equals_reference(name, gate=torch.tensor(-1.5), value=torch.tensor(2.0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"value": None}, TypeError, "value: got NoneType"),
        ({"value": torch.ones(2, 3).double()}, TypeError, "value: dtype torch.float64"),
        (
            {"gate": torch.ones(2, 1).half()},
            TypeError,
            "gate: dtype torch.float16",
        ),
        ({"gate": torch.ones(3)}, ValueError, r"gate: shape \(3,\) .* same or \(2, 1\) is"),
        ({"gate": torch.ones(1, 3)}, ValueError, r"gate: shape \(1, 3\)"),
        ({"gate": torch.ones(2, 1).to("meta")}, ValueError, "gate: device meta"),
        ({"value": torch.ones(1, 3).expand(2, 3)}, ValueError, "elements must not overlap"),
        (
            {"value": torch.ones(9).as_strided((2, 3), (2, 1))},
            ValueError,
            r"value: strides \(2, 1\) of shape \(2, 3\)",
        ),
    ],
    ids=["type", "dtype", "gate_dtype", "rank", "shape", "device", "expanded", "overlapping"],
)
def test_bad_input_is_named(kernel, name, change, error, message):
    good = {"gate": torch.ones(2, 1), "value": torch.ones(2, 3)}
    with pytest.raises(error, match=message):
        kernel(name)(**(good | change))


@pytest.mark.parametrize("name", NAMES)
def test_gate_and_value_are_one_or_share_no_memory(equals_reference, kernel, name):
    x = torch.randn(2, 3, 40).bfloat16()
    shifted = x.flatten()[1:].as_strided((2, 3, 39), (120, 40, 1), 1)
    for gate in (x[..., :1], shifted):
        with pytest.raises(ValueError, match="gate: memory of value, which is written in place"):
            kernel(name)(gate=gate, value=x if gate.shape[2] == 1 else x[..., :39])
    equals_reference(name, gate=x[..., ::2], value=x[..., 1::2])
    expected = x.clone()
    kernel(name)(gate=x.clone(), value=expected)
    kernel(name)(gate=x, value=x)
    assert torch.equal(x.view(torch.int16), expected.view(torch.int16))
