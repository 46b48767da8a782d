"""A catalogue with one small Triton kernel, written anew for each test."""

import textwrap
from pathlib import Path

import pytest

from exactness.project import Project
from exactness.session import Session

KERNEL = '''
import torch
import triton
import triton.language as tl
from exactness.claim import Claim, Variant
from exactness.formats import f32
from exactness.inputs import rows

@triton.jit
def _k(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n
    x = tl.load(x_ptr + row * n + col, mask=mask, other=0.0)
    {body}
    tl.store(out_ptr + row * n + col, y, mask=mask)

def k(x):
    out = torch.empty_like(x)
    if out.numel():
        _k[(x.shape[0],)](x, out, x.shape[1], BLOCK=64, {options})
    return out

CLAIM = Claim(
    kernel=k,
    reference="k:k",
    inputs=rows(f32, n=(1, 64), rows=(0, 40)),
    cases=[{{"rows": 3, "n": 33}}, {{"rows": 5, "n": 64}}],
    {claim}
)
'''

REFERENCE = """
from exactness.arithmetic import cast, div_full, fma, launch, maximum, sum_
from exactness.arithmetic.orders import triton_layout
from exactness.formats import bf16, f32

@launch
def k(x):
    return {result}
"""


class TritonProject:
    """A project in a temporary folder whose claim is the kernel `k` on f32 [rows, n ≤ 64]."""

    def __init__(self, root: Path) -> None:
        self._folder = root
        self.root = root

    def write(
        self,
        body: str,
        result: str = "x",
        *,
        options: str = "num_warps=1, enable_fp_fusion=False",
        claim: str = "",
        edits: dict[str, str] | None = None,
    ) -> "TritonProject":
        """The kernel computes `y` from `x` in `body`; the reference returns `result`.

        Every call makes a project of its own: modules are imported once.
        """
        self.root = self._folder / str(len(list(self._folder.iterdir())))
        self.root.mkdir()
        lines = textwrap.indent(textwrap.dedent(body).strip(), "    ").strip()
        kernel = KERNEL.format(body=lines, options=options, claim=claim)
        for old, new in (edits or {}).items():
            assert kernel.count(old) == 1
            kernel = kernel.replace(old, new)
        for folder, text in (("kernels", kernel), ("references", REFERENCE.format(result=result))):
            (self.root / folder).mkdir(exist_ok=True)
            (self.root / folder / "k.py").write_text(text, encoding="utf-8")
        (self.root / "pyproject.toml").write_text("[tool.exactness]\n", encoding="utf-8")
        return self

    def session(self, **options: object) -> Session:
        """A session on the virtual Hopper."""
        return Session.open(Project.find(self.root), device="cpu", **options)

    def run(self, kind: type, **options: object):
        """The outcome of a check of that class."""
        session = self.session(**options)
        (entry,) = session.context.catalogue.entries
        return kind(entry).run(session.context)


@pytest.fixture
def triton_project(tmp_path):
    """Write a small Triton kernel and its reference, and run checks on them."""
    pytest.importorskip("triton")
    return TritonProject(tmp_path)
