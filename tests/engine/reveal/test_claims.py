"""Kernels of a project as summations: opened on the virtual Hopper, or as they are."""

from __future__ import annotations

import pytest

from exactness.catalogue import Catalogue
from exactness.machines import VirtualHopper
from exactness.project import Project
from exactness.reveal import RevealError, known, reveal
from exactness.reveal.claims import Kernel
from exactness.reveal.opened import opened

KERNELS = """
import torch
import triton
import triton.language as tl
from exactness.claim import CPU, Claim
from exactness.formats import bf16, f32
from exactness.inputs import Inputs, Tensor, rows


@triton.jit
def _norm(x_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n
    x = tl.load(x_ptr + row * n + col, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x * x, axis=0) / n
    tl.store(out_ptr + row * n + col, x * (1.0 / tl.sqrt_rn(mean + eps)), mask=mask)


def norm(x, eps=1e-6):
    out = torch.empty_like(x)
    if out.numel():
        _norm[(x.shape[0],)](x, out, x.shape[1], eps, BLOCK=256, enable_fp_fusion=False)
    return out


def linear_on_cpu(x, weight):
    return torch.from_numpy((x.numpy()[:, None] * weight.numpy()).sum(axis=2))


def norm_on_cpu(x):
    squares = (x * x).numpy().sum(axis=1, keepdims=True)
    return x / torch.from_numpy(squares).sqrt()


def scale(x):
    return x * 2


_ROWS = {"rows": (0, 64), "n": (1, 256)}
NORM = Claim(
    kernel=norm, reference="r:r",
    inputs=Inputs(_ROWS, {"x": Tensor("format", ("rows", "n"))}, {"eps": (1e-6,)},
                  {"format": (f32, bf16)}),
)
LINEAR = Claim(
    kernel=linear_on_cpu, reference="r:r", runs_on=CPU,
    inputs=Inputs({**_ROWS, "columns": (1, 8)},
                  {"x": Tensor(f32, ("rows", "n")), "weight": Tensor(f32, ("columns", "n"))}),
)
NORM_ON_CPU = Claim(kernel=norm_on_cpu, reference="r:r", runs_on=CPU, inputs=rows(f32, n=(1, 256)))
SCALE = Claim(kernel=scale, reference="r:r", runs_on=CPU, inputs=rows(f32, n=(1, 256)))
"""


@pytest.fixture(scope="module")
def claims(tmp_path_factory):
    """A project with a norm in Triton, and a product, a norm and no sum on the CPU."""
    root = tmp_path_factory.mktemp("project")
    (root / "kernels").mkdir()
    (root / "references").mkdir()
    (root / "pyproject.toml").write_text("[tool.exactness]\n")
    (root / "kernels" / "k.py").write_text(KERNELS)
    entries = Catalogue(Project.find(root)).entries
    return {entry.claim.name: entry.claim for entry in entries}


@pytest.mark.parametrize(("n", "fmt", "size"), [(256, "f32", 2), (256, "bf16", 2), (100, "f32", 1)])
def test_norm_is_opened_on_the_virtual_hopper(claims, fprev_calls, n, fmt, size) -> None:
    kernel = Kernel(claims["norm"], VirtualHopper(), n, fmt)
    tree = reveal(kernel)
    assert f"triton:{size},32,4" in known.recognized(tree)
    assert kernel.rows == 63
    assert kernel.probes >= fprev_calls(tree)
    assert kernel.calls < 60


def test_product_with_a_matrix(claims, fprev_calls) -> None:
    kernel = Kernel(claims["linear_on_cpu"], VirtualHopper(), 100, sizes={"rows": 10, "columns": 3})
    assert reveal(kernel) == known.named("numpy", 100)
    assert kernel.probes == fprev_calls(known.named("numpy", 100))


def test_norm_on_the_cpu_overflows(claims) -> None:
    kernel = Kernel(claims["norm_on_cpu"], VirtualHopper(), 100)
    assert not kernel.signed
    assert reveal(kernel) == known.named("numpy", 100)


@pytest.mark.parametrize(
    ("name", "n", "fmt", "sizes", "message"),
    [
        ("scale", 8, None, {}, "claim scale has no sum that can be probed"),
        ("norm", 300, None, {}, "rows of 300 are not accepted; n are, n from 1 to 256"),
        ("norm", 8, "f64", {}, "terms of f64 are not accepted; f32, bf16 are"),
        ("norm", 8, None, {"rows": 65}, "size rows: rows 0 to 64, n 1 to 256 are accepted"),
        ("norm", 8, None, {"heads": 1}, "size heads: rows 0 to 64"),
        ("norm", 8, None, {"n": 9}, "rows of 8 are not accepted"),
    ],
)
def test_what_does_not_fit_is_refused(claims, name, n, fmt, sizes, message) -> None:
    with pytest.raises(RevealError, match=message):
        Kernel(claims[name], VirtualHopper(), n, fmt, sizes)


def test_opening_a_norm() -> None:
    ptx = """
    mul.rn.f32 	%r1, %r2, %r2;
    mul.rn.bf16x2 %r3, %r4, %r4;
    mul.rn.bf16 %rs3, %rs4, %rs4;
    fma.rn.ftz.f32 %f1, %f2, %f2, %f3;
    mul.rn.f32 %r1, %r2, %r5;
    fma.rn.f32 %f1, %f2, %f3, %f2;
    mov.b32 %r9, 0f3F800000;
    div.rn.f32 %r1, %r9, %r2;
    div.full.f32 %r1, 0f3F800000, %r2;
    div.rn.f32 %r1, %r8, %r2;
    rsqrt.approx.ftz.f32 %r1, %r2;
    sqrt.rn.f32 %r1, %r2;
    rcp.approx.ftz.f32 %r1, %r2;
    """
    assert [" ".join(line.split()) for line in opened(ptx, "k").strip().splitlines()] == [
        "mov.b32 %r1, %r2;",
        "mov.b32 %r3, %r4;",
        "mov.b16 %rs3, %rs4;",
        "add.rn.ftz.f32 %f1, %f2, %f3;",
        "mul.rn.f32 %r1, %r2, %r5;",
        "fma.rn.f32 %f1, %f2, %f3, %f2;",
        "mov.b32 %r9, 0f3F800000;",
        "mov.b32 %r1, %r2;",
        "mov.b32 %r1, %r2;",
        "div.rn.f32 %r1, %r8, %r2;",
        "mov.b32 %r1, %r2;",
        "mov.b32 %r1, %r2;",
        "mov.b32 %r1, %r2;",
    ]
    with pytest.raises(RevealError, match="kernel k squares nothing"):
        opened("mul.rn.f32 %r1, %r2, %r3;", "k")
