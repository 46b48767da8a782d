"""A project whose claim is a norm on CPU tensors, and a language model small enough to draw."""

import textwrap

import pytest
import torch

from exactness import machines
from exactness.catalogue import Catalogue
from exactness.project import Project
from exactness.quality.byte_model import Shape, drawn
from exactness.quality.shipped import ByteModel

PYPROJECT = """
[tool.exactness]
kernels = "ours"
references = "chains"
"""

KERNEL = '''
import numpy as np
import torch
from exactness.claim import CPU, Claim, Variant
from exactness.formats import bf16
from exactness.inputs import Inputs, Tensor, rows


def _rounded(values):
    return torch.from_numpy(values.astype(np.float32)).to(torch.bfloat16).float().numpy()


def norm(x, eps=1e-6, *, wide=False):
    """x / sqrt(mean(x * x) + eps); every sum rounded to bf16, or none when wide."""
    keep = (lambda values: values) if wide else _rounded
    values = x.float().numpy()
    total = np.zeros(len(values), np.float32)
    for column in values.T:
        total = keep(total + keep(column * column))
    scale = np.sqrt(total / np.float32(values.shape[1]) + np.float32(eps))
    return torch.from_numpy(values / scale[:, None]).to(torch.bfloat16)


def plain(x):
    return x


def same(x, eps=1e-6, *, more=False):
    return x


def stepped(x, iterations=1, eps=1e-6):
    return x


def weighted(x, weight, eps=1e-6, *, v=False):
    return x


INPUTS = rows(bf16, n=(1, 64), eps=(1e-6,))
CLAIM = Claim(kernel=norm, reference="norm:norm", inputs=INPUTS, runs_on=CPU,
              cases=[{"rows": 3, "n": 8}],
              variants=[Variant(name="wide", reference="norm:norm_wide", env="NORM_WIDE")])
FIXED = Claim(kernel=norm, name="fixed", reference="norm:norm", inputs=INPUTS, runs_on=CPU)
PLAIN = Claim(kernel=plain, reference="norm:plain", inputs=rows(bf16, n=(1, 64)), runs_on=CPU)
SAME = Claim(kernel=same, reference="norm:same", inputs=INPUTS, runs_on=CPU,
             variants=[Variant(name="more", reference="norm:same", env="SAME_MORE")])
STEPS = Claim(kernel=stepped, name="steps", reference="norm:same", runs_on=CPU,
              inputs=Inputs({"rows": (0, 9), "n": (1, 64)}, {"x": Tensor(bf16, ("rows", "n"))},
                            {"iterations": (1, 2), "eps": (1e-6,)}))

WEIGHTED = Inputs({"rows": (0, 9), "n": (1, 64)},
                  {"x": Tensor(bf16, ("rows", "n")), "weight": Tensor(bf16, ("n",))},
                  {"eps": (1e-6,)})


def by(name):
    return Claim(kernel=weighted, name=name, reference=f"norm:{name}", inputs=WEIGHTED, runs_on=CPU,
                 variants=[Variant(name="v", reference=f"norm:{name}", env="V")])


BY_WEIGHT, BY_ONE_MORE = by("by_weight"), by("by_one_more")
'''

REFERENCE = """
from exactness.arithmetic import cast, launch, sqrt, sum_
from exactness.arithmetic.orders import sequential
from exactness.formats import bf16, f32

def _scaled(x, total, eps):
    wide = cast(x, f32)
    return cast(wide / sqrt(total / float(x.shape[-1]) + eps), bf16)

@launch
def norm(x, eps):
    total = sum_(x * x, order=sequential(x.shape[-1]))
    return _scaled(x, cast(total, f32), eps)

def _normal(x, eps):
    wide = cast(x, f32)
    return cast(_scaled(x, sum_(wide * wide, order=sequential(x.shape[-1])), eps), f32)

@launch
def norm_wide(x, eps):
    return cast(_normal(x, eps), bf16)

def plain(x):
    return x

def same(x, eps):
    return x

@launch
def by_weight(x, weight, eps):
    return cast(_normal(x, eps) * cast(weight, f32), bf16)

@launch
def by_one_more(x, weight, eps):
    return cast(_normal(x, eps) * (1.0 + cast(weight, f32)), bf16)
"""

SHAPE = Shape(layers=2, width=16, heads=2, head_dim=8, rope_dim=4, hidden=16, context=16)


@pytest.fixture
def catalogue(tmp_path):
    """The catalogue of the project."""
    files = {"pyproject.toml": PYPROJECT, "ours/norm.py": KERNEL, "chains/norm.py": REFERENCE}
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return Catalogue(Project.find(tmp_path / "project"))


@pytest.fixture
def machine():
    return machines.choose("cpu")


@pytest.fixture
def shape():
    return SHAPE


@pytest.fixture
def model():
    """Drawn weights, large enough that the last bit of a norm reaches the logits."""
    weights = {
        name: (20.0 * w if w.ndim == 2 else w).to(torch.bfloat16)
        for name, w in drawn(SHAPE, seed=1).items()
    }
    return ByteModel("a drawn model", "no digest", "cpu", SHAPE, weights)


@pytest.fixture
def text(tmp_path):
    """300 bytes."""
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(range(32, 107)) * 4)
    return path
