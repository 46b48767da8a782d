"""Numbers that are no f64 are refused by name, in every launcher."""

from pathlib import Path

import pytest

from exactness.catalogue import Catalogue
from exactness.project import Project

ROOT = Path(__file__).parents[2]

HUGE = 10**400


def floats():
    """Every claim, and each of its parameters that is a float."""
    for entry in Catalogue(Project.find(ROOT)).entries:
        for name, values in entry.claim.inputs.parameters.items():
            if isinstance(values[0], float):
                yield pytest.param(entry.claim, name, id=f"{entry.claim.name}-{name}")


@pytest.mark.parametrize(("claim", "name"), list(floats()))
def test_an_int_beyond_f64_is_refused_by_name(claim, name):
    sizes = {size: low for size, (low, _) in claim.inputs.sizes.items()}
    arguments = claim.inputs.example("numbers", **sizes).arguments("cpu")
    for value in (HUGE, -HUGE):
        with pytest.raises(ValueError, match=f"^{name}: .* is not accepted; ") as refused:
            claim.kernel(**{**arguments, name: value})
        assert len(str(refused.value)) < 100
    for wrong in ("1e-6", None, True):
        with pytest.raises(TypeError, match=f"^{name}: got {type(wrong).__name__}; "):
            claim.kernel(**{**arguments, name: wrong})
