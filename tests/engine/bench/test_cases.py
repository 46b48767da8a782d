"""Cases follow from claims; names without a claim say why."""

import pytest

from exactness.bench.cases import Case, Cases, Selection, Unsupported, names, numbers
from exactness.catalogue import Catalogue
from exactness.errors import UsageError
from exactness.project import Project

PLANNED = """
def planned():
    return {"attention": "no claim yet", "scale_rows": "covered", "router": "no claim either"}
"""


@pytest.fixture
def cases(scale_project):
    scale_project.write("chains/_benchmark.py", PLANNED)
    return Cases.of(Catalogue(Project.find(scale_project.root)))


def test_a_case_knows_its_sizes_and_its_work(case):
    assert case.shape == "tokens=4"
    assert case.sizes == {"rows": 8, "n": 3}
    assert case.parameters == {"times": 4}
    assert case.formats == {"format": "bf16"}
    assert case.amount.bytes == 3 * 2 * 8 * 3 + 8 * 8 + 4 * 8 * 4
    assert case.amount.flops == 24


def test_names_keep_the_planned_order(cases):
    assert cases.names == ("attention", "scale_rows", "router")
    found = cases.select(Selection())
    assert [getattr(each, "shape", each.name) for each in found] == [
        "attention",
        "tokens=4",
        "tokens=5",
        "router",
    ]
    assert found[0] == Unsupported("attention", "no claim yet")


def test_tokens_scale_every_case(cases):
    found = cases.select(Selection(names=("scale_rows",), tokens=(1, 7)))
    assert [case.sizes["rows"] for case in found if isinstance(case, Case)] == [2, 14]


def test_an_unknown_name_lists_the_known(cases):
    with pytest.raises(UsageError, match=r"--cases: 'nope' is unknown; known are attention"):
        cases.select(Selection(names=("nope",)))


def test_without_planned_names(catalogue):
    assert Cases.of(catalogue).names == ("scale_rows",)


def test_one_name_twice_is_refused(scale_project):
    text = (scale_project.root / "ours" / "scale.py").read_text()
    again = text.replace("kernel=scale,", 'kernel=scale, name="again",')
    scale_project.write("ours/again.py", again)
    with pytest.raises(UsageError, match="'scale_rows' stands in both again and scale"):
        Cases.of(Catalogue(Project.find(scale_project.root)))


def test_large_cases_run_on_request(scale_project):
    scale_project.edit("ours/scale.py", "tokens=(4, 5),", 'tokens=(4,), large="a lot of memory",')
    found = Cases.of(Catalogue(Project.find(scale_project.root)))
    (left_out,) = found.select(Selection())
    assert left_out == Unsupported("scale_rows", "a lot of memory; --include-oe runs it", True)
    (asked,) = found.select(Selection(names=("scale_rows",)))
    assert not asked.on_request
    assert isinstance(found.select(Selection(large=True))[0], Case)


def test_sequences_have_lengths_of_their_own(scale_project):
    scale_project.edit("ours/scale.py", "tokens=(4, 5),", 'tokens=(4,), axis="sequence",')
    found = Cases.of(Catalogue(Project.find(scale_project.root)))
    given = Selection(tokens=(1,), sequences=(6, 7))
    assert [case.shape for case in found.select(given)] == ["sequence=6", "sequence=7"]
    assert [case.shape for case in found.select(Selection(tokens=(1,)))] == ["sequence=4"]
    (other,) = found.select(Selection(attention="fa4"))
    assert "no fa4 kernel" in other.reason
    assert not other.on_request


@pytest.mark.parametrize("text", ["", "1,", "0", "-3", "x", "1.5"])
def test_numbers_are_checked(text):
    with pytest.raises(UsageError, match="--tokens"):
        numbers(text, "--tokens")


def test_lists_of_the_command_line():
    assert numbers("1, 32,128", "--tokens") == (1, 32, 128)
    assert numbers(None, "--tokens") == ()
    assert names("a, b", "--cases") == ("a", "b")
    assert names(None, "--cases") == ()


@pytest.mark.parametrize("text", ["", ",", "a,", "a,,b", " "])
def test_empty_names_are_refused(text):
    with pytest.raises(UsageError, match=f"--cases: '{text}' is not accepted"):
        names(text, "--cases")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"rows": "2*tokens", ', "", "gives no rows"),
        ('"rows": "2*tokens"', '"rows": "2*n"', "rows depends on 'n'; known are tokens"),
        ('"times": 4}', '"rimes": 4}', "gives unknown 'rimes'"),
        ('"3*2*rows*n', '"3*2*row*n', "bytes depends on 'row'"),
        ("tokens=(4, 5),", "tokens=(4, 0),", "from 1 up"),
        ("tokens=(4, 5),", 'axis="heads",', "axis 'heads'"),
    ],
)
def test_cases_that_cannot_be_are_refused(scale_project, old, new, message):
    scale_project.edit("ours/scale.py", old, new)
    found = Cases.of(Catalogue(Project.find(scale_project.root)))
    with pytest.raises(UsageError, match=message):
        found.select(Selection())


def test_a_broken_file_spares_the_cases_of_others(scale_project):
    scale_project.write("ours/broken.py", "import nothing_of_this_name")
    found = Cases.of(Catalogue(Project.find(scale_project.root)))
    assert len(found.select(Selection(names=("scale_rows",)))) == 2
    for wanted in (Selection(), Selection(names=("nope",))):
        with pytest.raises(UsageError, match="nothing_of_this_name"):
            found.select(wanted)
