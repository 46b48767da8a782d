"""A catalogue with one small Triton kernel, written anew for each test."""

import textwrap
import zlib
from pathlib import Path

import pytest

from exactness.project import Project
from exactness.session import Session

KERNEL = """
import torch
import triton
import triton.language as tl
from exactness.claim import Claim, Equivalent, Variant
from exactness.formats import f32
from exactness.inputs import rows

@triton.jit
def _small(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n
    x = tl.load(x_ptr + row * n + col, mask=mask, other=0.0)
    {body}
    tl.store(out_ptr + row * n + col, y, mask=mask)

def k(x):
    out = torch.empty_like(x)
    if out.numel():
        _small[(x.shape[0],)](x, out, x.shape[1], BLOCK=64, {options})
    return out

CLAIM = Claim(
    kernel=k,
    reference="k:k",
    inputs=rows(f32, n=(1, 64), rows=(0, 40)),
    cases=[{{"rows": 3, "n": 33}}, {{"rows": 5, "n": 64}}],
    {claim}
)
"""

REFERENCE = """
from exactness.arithmetic import cast, launch, maximum, minimum, sum_, where
from exactness.arithmetic.orders import triton_layout
from exactness.formats import bf16, f32

@launch
def k({takes}):
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
        takes: str = "x",
    ) -> "TritonProject":
        """The kernel computes `y` from `x` in `body`; the reference returns `result`.

        Edits are the kernel's; `takes` are the arguments of the reference. Every call makes a
        project of its own: modules are imported once.
        """
        self.root = self._folder / str(len(list(self._folder.iterdir())))
        self.root.mkdir()
        lines = textwrap.indent(textwrap.dedent(body).strip(), "    ").strip()
        kernel = KERNEL.format(body=lines, options=options, claim=claim)
        reference = REFERENCE.format(result=result, takes=takes)
        for old, new in (edits or {}).items():
            assert kernel.count(old) == 1
            kernel = kernel.replace(old, new)
        # Triton caches what it compiled, with the name of the file, by the text of the function.
        function = kernel[kernel.index("@triton.jit") : kernel.index("def k(")]
        name = f"k{zlib.crc32(function.encode())}"
        kernel = kernel.replace('"k:k"', f'"{name}:k"')
        for folder, text in (("kernels", kernel), ("references", reference)):
            (self.root / folder).mkdir(exist_ok=True)
            (self.root / folder / f"{name}.py").write_text(text, encoding="utf-8")
        (self.root / "pyproject.toml").write_text("[tool.exactness]\n", encoding="utf-8")
        return self

    @property
    def kernel_file(self) -> Path:
        """The kernel file of the latest project."""
        (file,) = (self.root / "kernels").glob("k*.py")
        return file

    def session(self, **options: object) -> Session:
        """A session on the virtual Hopper."""
        return Session.open(Project.find(self.root), device="cpu", **options)

    def run(self, kind: type, **options: object):
        """The outcome of a check of that class."""
        session = self.session(**options)
        (entry,) = session.context.catalogue.entries
        return kind(entry).run(session.context)


@pytest.fixture(scope="module")
def triton_project(tmp_path_factory):
    """Write a small Triton kernel and its reference, and run checks on them."""
    pytest.importorskip("triton")
    return TritonProject(tmp_path_factory.mktemp("triton"))
