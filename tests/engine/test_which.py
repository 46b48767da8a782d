"""Which contract explains given outputs: fit, match, single changes, inputs that tell apart."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from exactness.bits import Bits
from exactness.catalogue import Catalogue
from exactness.errors import UsageError
from exactness.formats import INTEGERS, bf16, f16, f32
from exactness.inputs import Inputs, Tensor
from exactness.inputs.spec import IntegerTensor
from exactness.project import Project
from exactness.which import Given, apart, match, single_changes
from exactness.which.fit import Misfit, check_fit, check_parameter

ROWS = Inputs(
    {"rows": (0, 9), "n": (1, 9)},
    {"x": Tensor("format", ("rows", "n")), "weight": Tensor("format", ("n",))},
    formats={"format": (bf16, f32)},
)
HALVES = Inputs({"rows": (0, 9), "n": (1, 9)}, {"x": Tensor(f32, ("rows", "2*n"))})
CACHE = Inputs(
    {"tokens": (0, 9), "plain": (0, 9), "half": (1, 9), "more": (0, 9)},
    {
        "q": Tensor(f32, ("tokens", "plain+2*half")),
        "positions": IntegerTensor(INTEGERS["i64"], ("tokens",), 0, "tokens"),
        "cache": Tensor(f32, ("tokens+more", "2*half")),
    },
)


def zeros(shape, fmt=f32):
    width = fmt.bits
    return Bits(np.zeros(shape, f"u{width // 8}"), fmt)


@pytest.mark.parametrize(
    ("inputs", "tensors"),
    [
        (ROWS, {"x": zeros((4, 8)), "weight": zeros((8,))}),
        (ROWS, {"x": zeros((0, 8)), "weight": zeros((8,))}),
        (ROWS, {"x": zeros((2, 3, 8)), "weight": zeros((8,))}),
        (ROWS, {"x": zeros((8,)), "weight": zeros((8,))}),
        (HALVES, {"x": zeros((3, 10))}),
        (
            CACHE,
            {
                "q": zeros((4, 10)),
                "positions": zeros((4,), INTEGERS["i32"]),
                "cache": zeros((6, 8)),
            },
        ),
    ],
    ids=["rows", "no_rows", "more_leading", "fewer_leading", "product", "two_unknown"],
)
def test_tensors_that_fit(inputs, tensors):
    check_fit(inputs, tensors)


@pytest.mark.parametrize(
    ("inputs", "tensors", "message"),
    [
        (ROWS, {"x": zeros((4, 8)), "weight": zeros((4,))}, r"weight: shape \[4\].*n = 8"),
        (ROWS, {"x": zeros((4, 8)), "weight": zeros((1, 8))}, r"weight: shape \[1, 8\] .*\[n\]"),
        (ROWS, {"x": zeros((4, 8)), "weight": zeros((8,), bf16)}, "weight: bf16 beside f32"),
        (ROWS, {"x": zeros((4, 8), f16), "weight": zeros((8,))}, "x: f16 .*; bf16, f32"),
        (HALVES, {"x": zeros((3, 9))}, r"x: shape \[3, 9\] does not fit; \[rows, 2\*n\]"),
        (
            CACHE,
            {"q": zeros((4, 7)), "positions": zeros((4,), INTEGERS["i64"]), "cache": zeros((6, 8))},
            r"q: shape \[4, 7\]",
        ),
        (
            CACHE,
            {"q": zeros((4, 10)), "positions": zeros((4,)), "cache": zeros((6, 8))},
            "positions: f32",
        ),
    ],
)
def test_tensors_that_do_not_fit(inputs, tensors, message):
    with pytest.raises(Misfit, match=message):
        check_fit(inputs, tensors)


def test_parameters_are_of_the_kind_that_the_claim_draws():
    assert check_parameter("eps", 1, (1e-5, 0.0)) == 1.0
    assert check_parameter("starts", [1, 2], ((0, 0),)) == (1, 2)
    for value, values in [("x", (1e-5,)), (True, (1.0,)), (1, (False,)), ("no", ("a", "b"))]:
        with pytest.raises(Misfit, match=r"p: .* is not accepted"):
            check_parameter("p", value, values)


def halve(x, scale=0.5):
    """What the small project's reference gives, with torch."""
    return (x.float() * torch.tensor(scale).bfloat16().float()).bfloat16() + 1.0


def wide(x, scale=0.5):
    """What its variant gives."""
    return (x.double() * scale + 1.0).float().bfloat16()


@pytest.fixture
def ask(small_project, tmp_path):
    """Match tensors against the small project's claim."""

    def asked(settings=(), metadata=None, **tensors):
        path = tmp_path / "given.safetensors"
        save_file(tensors, path, metadata)
        catalogue = Catalogue(Project.find(small_project.root))
        return match(catalogue, "halve", Given.read(path, settings))

    return asked


@pytest.fixture
def x():
    """Sums with 1 fall on ties, where one rounding and two part."""
    fractions = torch.arange(1, 257).reshape(16, 16).double() / 256
    return fractions.bfloat16()


def names(findings):
    return [finding.contract.name for finding in findings]


def test_the_claim_explains(ask, x):
    found = ask(x=x, out=halve(x, 0.3), metadata={"scale": "0.3"})
    assert names(found.findings) == ["halve", "halve wide"]
    assert names(found.explaining) == ["halve"]
    right, wrong = found.findings
    assert (right.mismatches, right.elements, right.first) == (0, 256, None)
    assert right.parameters == {"scale": 0.3}
    assert wrong.mismatches > 0
    assert wrong.first[0] == "out"
    assert names(found.by_distance) == ["halve", "halve wide"]


def test_the_variant_explains(ask, x):
    assert names(ask(["scale=0.3"], x=x, out=wide(x, 0.3)).explaining) == ["halve wide"]


def test_the_command_line_outranks_the_file(ask, x):
    found = ask(["scale=0.5"], {"scale": "0.3"}, x=x, out=halve(x, 0.5))
    assert "halve" in names(found.explaining)


def test_a_change_explains_what_no_contract_does(ask, x):
    """Product and sum in one rounding, of the constant as bf16 has it: the contracted form."""
    scale = torch.tensor(0.3).bfloat16().double()
    fused = (x.double() * scale + 1.0).bfloat16()
    found = ask(["scale=0.3"], x=x, out=fused)
    assert found.explaining == ()
    changes = single_changes(found)
    found_names = [each.mutant.name for each in changes.found if each.mutant]
    assert "shifted:add(return) contract_left" in found_names
    assert changes.tried > len(changes.found)


def test_another_parameter_explains(ask, x):
    found = ask(x=x, out=halve(x, 0.5))
    assert found.explaining == ()
    (change,) = [each for each in single_changes(found).found if each.contract == "halve"]
    assert change.parameters == {"scale": 0.5}


def test_no_change_explains_noise(ask, x):
    noise = halve(x, 0.3).flip(0)
    changes = single_changes(ask(["scale=0.3"], x=x, out=noise))
    assert changes.found == ()
    assert changes.tried > 5


def test_outputs_that_do_not_exclude_a_change_say_so(ask):
    x = torch.ones(4, 4, dtype=torch.bfloat16)
    found = ask(["scale=0.5"], x=x, out=halve(x))
    assert names(found.explaining) == ["halve", "halve wide"]
    assert {each.contract for each in single_changes(found).found} == {"halve"}


def test_drawn_inputs_tell_contracts_apart(ask, tmp_path):
    x = torch.zeros(40, 16, dtype=torch.bfloat16)
    between = apart(ask(["scale=0.3"], x=x, out=halve(x, 0.3)).explaining)
    assert between.groups.names == (("halve",), ("halve wide",))
    assert between.groups.differing[1] > 0
    assert between.drawn.arguments["x"].shape == (16, 16)
    path = tmp_path / "drawn.safetensors"
    between.drawn.write(path)
    again = Given.read(path)
    assert again.parameter("scale") == 0.3
    with pytest.raises(UsageError, match="exists"):
        between.drawn.write(path)
    drawn = again.file["x"].torch()
    assert names(ask(["scale=0.3"], x=drawn, out=wide(drawn, 0.3)).explaining) == ["halve wide"]


def test_contracts_that_nothing_tells_apart(ask, small_project):
    small_project.edit("chains/halve.py", "exact = cast(x, f64) * scale + 1.0", "exact = x + 1.0")
    small_project.edit("chains/halve.py", "return cast(cast(exact, f32), bf16)", "return exact")
    small_project.edit("chains/halve.py", "product = scaled(x, scale)", "product = x")
    x = torch.ones(4, 4, dtype=torch.bfloat16)
    between = apart(ask(x=x, out=x + 1.0).explaining)
    assert between.drawn is None
    assert between.groups.names == (("halve", "halve wide"),)
    assert between.elements == between.examples * 16 > 0


def test_an_output_that_the_file_lacks_may_tell(ask, small_project):
    """A second output differs between claim and variant; the file holds the first alone."""
    small_project.edit("ours/halve.py", '    golden="halve",', '    outputs=("out", "wide_out"),')
    same = "return shifted(product), {}"
    small_project.edit("chains/halve.py", "return shifted(product)", same.format("product"))
    small_project.edit(
        "chains/halve.py", "exact = cast(x, f64) * scale + 1.0", "product = x * scale"
    )
    small_project.edit(
        "chains/halve.py", "return cast(cast(exact, f32), bf16)", "return product + 1.0, x"
    )
    x = torch.ones(4, 4, dtype=torch.bfloat16)
    between = apart(ask(["scale=0.5"], x=x, out=halve(x)).explaining)
    assert between.drawn is None
    assert between.other_outputs == ("wide_out",)


@pytest.mark.parametrize(
    ("settings", "tensors", "message"),
    [
        ((), {"out": (4, 4)}, "claim halve: needs 'x'; the file has out"),
        ((), {"x": (4, 4), "y": (4, 4)}, r"holds none of the outputs \(out\); it has x, y"),
        ((), {"x": (4, 4), "out": (4, 5)}, r"out: shape \[4, 5\] in the file; .* \[4, 4\]"),
        ((), {"x": (0, 4), "out": (0, 4)}, "out: no elements"),
        (("scale=a",), {"x": (4, 4), "out": (4, 4)}, "scale: 'a' is not accepted"),
        (("scal=1",), {"x": (4, 4), "out": (4, 4)}, "--set scal: no such .* halve has scale"),
        (("scale",), {"x": (4, 4), "out": (4, 4)}, "--set 'scale' is not accepted; NAME=VALUE"),
    ],
)
def test_what_cannot_be_asked(ask, settings, tensors, message):
    held = {name: torch.ones(shape, dtype=torch.bfloat16) for name, shape in tensors.items()}
    with pytest.raises(UsageError, match=message):
        ask(settings, **held)


def test_an_output_in_another_format_is_a_difference(ask, x):
    found = ask(["scale=0.3"], x=x, out=halve(x, 0.3).float())
    assert [(each.explains, each.mismatches) for each in found.findings] == [(False, 256)] * 2
    assert single_changes(found).found == ()


def test_parameters_may_be_arrays_without_dimensions(small_project, tmp_path):
    small_project.edit("ours/halve.py", "inputs=rows(bf16,", "inputs=rows((bf16, f32),")
    small_project.edit("ours/halve.py", "import bf16", "import bf16, f32")
    x = np.array([[1.0, 2.0, 3.0]], np.float32)
    scale = np.float32(0.3)
    path = tmp_path / "given.npz"
    np.savez(path, x=x, out=x * scale + np.float32(1.0), scale=np.float64(scale))
    found = match(Catalogue(Project.find(small_project.root)), "halve", Given.read(path))
    assert names(found.explaining) == ["halve"]
    assert found.findings[0].parameters == {"scale": float(scale)}


def test_a_wrong_nan_or_zero_sign_is_a_difference(ask):
    x = torch.tensor([[-2.0, float("nan")]], dtype=torch.bfloat16)
    assert names(ask(["scale=0.5"], x=x, out=halve(x)).explaining) == ["halve", "halve wide"]
    flipped = halve(x)
    assert flipped[0, 0] == 0.0
    flipped[0, 0] = -0.0
    assert ask(["scale=0.5"], x=x, out=flipped).explaining == ()
