"""Kernels run with an edited PTX or other options, and what the edit changed is counted."""

import pytest

from exactness.inputs.patterns import generator
from exactness.virtual import Editing, hopper, ptx
from exactness.virtual.edited import replaced, uncontracted
from exactness.virtual.errors import LaunchError
from exactness.virtual.exhaustion import Sampler, f32_sample, proved_without_effect
from exactness.virtual.watching import Observation, watching

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def _scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = x.to(tl.float32) * 1.5 + 0.25
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=at < n)


def scaled(x, dtype=torch.float32, **options):
    out = torch.empty_like(x, dtype=dtype)
    options = {"num_warps": 1, "enable_fp_fusion": False} | options
    _scale[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64, **options)
    return out


def spoil(old, new):
    """An edit that replaces an instruction's name, which must be there."""

    def edit(text, kernel):
        assert kernel == "_scale"
        assert old in text
        return text.replace(old, new)

    return edit


def test_edited_text_is_what_runs():
    x = torch.randn(100)
    with hopper(edit=spoil("add.rn.f32", "sub.rn.f32")) as machine:
        assert torch.equal(scaled(x), x * 1.5 - 0.25)
    assert machine.counts["sub.rn.f32"] == 128
    assert "add.rn.f32" in machine.launches[0].ptx
    with hopper():
        assert torch.equal(scaled(x), x * 1.5 + 0.25)


def test_edit_is_asked_once_for_each_program():
    asked = []

    def edit(text, kernel):
        asked.append(kernel)
        return text

    with hopper(edit=edit):
        for _ in range(3):
            scaled(torch.randn(100))
    assert asked == ["_scale"]


def test_edit_that_loses_the_kernel_is_refused():
    with hopper(edit=lambda text, kernel: text.replace(kernel, "other")):
        with pytest.raises(LaunchError, match="the edited PTX lacks the kernel"):
            scaled(torch.randn(4))


def test_options_override_those_of_the_launch():
    x = torch.randn(100)
    with hopper(options={"num_warps": 2}) as machine:
        scaled(x)
    assert machine.launches[0].num_warps == 2
    with hopper() as machine:
        scaled(x)
    assert machine.launches[0].num_warps == 1


def test_options_override_those_of_a_configuration():
    tuned = triton.autotune([triton.Config({"BLOCK": 64}, num_warps=1)], key=["n"])(_scale)
    x, out = torch.randn(100), torch.empty(100)
    with hopper(options={"num_warps": 4}) as machine:
        tuned[(2,)](x, out, 100, enable_fp_fusion=False)
    assert {launch.num_warps for launch in machine.launches} == {4}


def watched(edit, x, dtype=torch.float32):
    observed = Observation()
    with hopper(edit=Editing(edit, watching(observed))):
        scaled(x, dtype)
    return observed


def test_executions_and_differences_are_counted():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    observed = watched(spoil("mul.rn.f32", "mul.rz.f32"), x)
    assert (observed.executed, observed.differing) == (64, 0)
    x[0] = 1 + 2**-23  # its product by 1.5 lies in the middle of two numbers, the even one above
    assert watched(spoil("mul.rn.f32", "mul.rz.f32"), x).differing == 1
    assert watched(lambda text, kernel: text, x).executed == 0


def test_differences_behind_a_cast_are_those_of_the_cast():
    x = torch.randn(64).to(torch.bfloat16)
    assert watched(spoil("add.rn.f32", "add.rz.f32"), x, torch.bfloat16).differing == 0
    assert watched(spoil("add.rn.f32", "sub.rn.f32"), x, torch.bfloat16).differing > 0


def test_subnormal_differences_are_counted_apart():
    x = torch.full((64,), 2.0**-149 * 5)
    observed = watched(spoil("mul.rn.f32", "mul.rz.f32"), x)
    assert observed.differing == observed.subnormal == 64
    x[0] = 1 + 2**-23
    observed = watched(spoil("mul.rn.f32", "mul.rz.f32"), x)
    assert (observed.differing, observed.subnormal) == (64, 63)


def test_places_tell_where_in_the_grid_a_result_changed():
    x = torch.zeros(64)
    x[[48, 49]] = 1 + 2**-23
    observed = watched(spoil("mul.rn.f32", "mul.rz.f32"), x)
    # Thread 24 of 32 holds both elements.
    assert [places.tolist() for places in observed.places] == [[0.75], [0.75]]
    assert observed.telling == 2


def test_places_of_subnormal_differences_are_not_kept():
    observed = watched(spoil("mul.rn.f32", "mul.rz.f32"), torch.full((64,), 2.0**-149 * 5))
    assert observed.places == []
    assert observed.telling == 0


def entries(dtype, edit):
    """The kernel on `dtype` as compiled, and edited."""
    texts = []

    def keep(text, kernel):
        texts.append(text)
        return text

    with hopper(edit=keep):
        scaled(torch.zeros(64, dtype=dtype), dtype)
    return [ptx.parse(text).entries["_scale"] for text in (texts[0], edit(texts[0], "_scale"))]


def test_bf16_kernel_is_proved_to_ignore_an_ulp():
    """1.5·x + 0.25 is exact in f32 unless tiny: toward zero and nearest agree after the cast."""
    original, edited = entries(torch.bfloat16, spoil("mul.rn.f32", "mul.rz.f32"))
    assert proved_without_effect(edited, replaced(original, edited))
    original, edited = entries(torch.bfloat16, spoil("0f3FC00000", "0f3FC00001"))
    assert not proved_without_effect(edited, replaced(original, edited))


def test_f32_kernel_cannot_be_proved_and_is_sampled():
    sampler = Sampler(f32_sample(generator(0)))
    original, edited = entries(torch.float32, spoil("mul.rn.f32", "mul.rz.f32"))
    assert not proved_without_effect(edited, replaced(original, edited))
    effect = sampler.effect(edited, replaced(original, edited))
    assert effect.complete
    assert effect.patterns[32].size > 10_000
    original, edited = entries(torch.float32, spoil("0f3E800000", "0f3E800000"))
    assert sampler.effect(edited, replaced(original, edited)).is_nothing


def test_escaping_patterns_are_those_that_count():
    sampler = Sampler(f32_sample(generator(0)))
    original, edited = entries(torch.float32, spoil("0f3FC00000", "0f3FC00001"))
    found = sampler.effect(edited, replaced(original, edited)).patterns[32]
    x = torch.from_numpy(found.astype("int32")).view(torch.float32)
    with hopper():
        right = scaled(x)
    with hopper(edit=spoil("0f3FC00000", "0f3FC00001")):
        wrong = scaled(x)
    assert bool((right.view(torch.int32) != wrong.view(torch.int32)).all())


def test_contractions_are_compared_with_two_roundings():
    _, fused = entries(
        torch.float32,
        lambda text, kernel: text.replace("mul.rn.f32", "fma.rn.f32").replace(
            ", 0f3FC00000;", ", 0f3FC00000, 0f3E800000;"
        ),
    )
    merged = [each for each in fused.body if each.opcode == "fma"]
    effect = Sampler(f32_sample(generator(0))).effect(fused, uncontracted(merged))
    assert effect.complete
    assert effect.patterns
