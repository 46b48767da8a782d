"""Each kind of check sees the fault that it is there for."""

import pytest

from exactness.checks import Status, controls
from exactness.checks.sensitivity import Fate
from exactness.compare import compare
from exactness.project import Project
from exactness.session import Session

FACTOR = "torch.tensor(scale).bfloat16().float())"
RETURN = f"    return (x.float() * {FACTOR}.to(torch.bfloat16) + 1.0"


@pytest.fixture
def outcome(small_project):
    """Run one check of the small project's claim."""

    def run(check_id, **options):
        session = Session.open(Project.find(small_project.root), device="cpu", **options)
        (entry,) = session.context.catalogue.entries
        (check,) = [check for check in session.checks(entry) if check.id == check_id]
        return check.run(session.context)

    return run


def exhaustive(project):
    project.edit(
        "ours/halve.py",
        "    variants=",
        '    exhaustive=[Exhaustive(argument="x", sizes={"rows": 1024, "n": 64})],\n    variants=',
    )
    project.edit("ours/halve.py", "import Claim,", "import Claim, Exhaustive,")


def test_invariance_passes(outcome):
    found = outcome("invariance")
    assert found.status is Status.PASSED
    assert "batch of 255 = whole batch" in found.edges
    assert "permuted = whole batch" in found.edges
    assert "row 256 alone = whole batch" in found.edges


@pytest.mark.parametrize(
    ("fault", "edge"),
    [
        ("* (1 + 2**-8 * (x.shape[0] > 256))", "batch of 256 = whole batch"),
        ("* (1 + 2**-8 * (x.shape[0] == 1))", "row 0 alone = whole batch"),
        ("* (1 + 2**-8 * (not x.is_contiguous()))", "strided rows = whole batch"),
        ("* (1 + 2**-8 * (x.storage_offset() > 0))", "offset = whole batch"),
        ("* (1 + 2**-7 * (torch.arange(len(x)) == 5)[:, None])", "permuted = whole batch"),
        ("* (1 + 2**-7 * (CALLS.append(1) or len(CALLS) == 2))", "run again = whole batch"),
    ],
)
def test_invariance_sees_what_rows_depend_on(small_project, outcome, fault, edge):
    small_project.edit("ours/halve.py", RETURN, RETURN.replace(FACTOR, f"{FACTOR[:-1]} {fault})"))
    small_project.edit("ours/halve.py", "def halve", "CALLS = []\n\ndef halve")
    found = outcome("invariance")
    assert found.status is Status.FAILED
    assert edge in {mismatch.edge for mismatch in found.mismatches}


def test_exhaustive_proof(small_project, outcome):
    exhaustive(small_project)
    found = outcome("every-x-rows=1024-n=64")
    assert found.status is Status.PROVED
    assert found.proof == "all 65,536 values of x"


def test_exhaustive_sees_a_single_wrong_input(small_project, outcome):
    exhaustive(small_project)
    single = "x.float().where(x.view(torch.int16) != 0x3F81, x.float() * 1.25)"
    small_project.edit("ours/halve.py", RETURN, RETURN.replace("x.float()", single))
    found = outcome("every-x-rows=1024-n=64")
    assert found.status is Status.FAILED
    (mismatch,) = found.mismatches
    assert mismatch.diff.mismatches == 1
    assert mismatch.diff.first.index == divmod(0x3F81, 64)
    assert found.reproduction.startswith("exactness verify halve --example")


def test_exhaustive_needs_the_whole_domain(small_project, outcome):
    exhaustive(small_project)
    small_project.edit("ours/halve.py", '"rows": 1024', '"rows": 1000')
    found = outcome("every-x-rows=1000-n=64")
    assert found.status is Status.FAILED
    assert "a multiple of its 65,536 patterns" in found.message


def test_controls_pass(outcome):
    found = outcome("controls")
    assert found.status is Status.PASSED
    assert found.cases >= 11


@pytest.mark.parametrize(
    ("blind", "missed"),
    [
        ({"zero_signs": False}, "−0 for +0"),
        ({"nan": True}, "NaN for a number"),
        ({"places": True}, "one ulp in the last element"),
    ],
)
def test_controls_see_a_blind_comparison(monkeypatch, outcome, blind, missed):
    def careless(actual, expected):
        if "nan" in blind:
            import numpy as np

            kept = np.where(actual.patterns & 0x7FFF > 0x7F80, expected.patterns, actual.patterns)
            return compare(type(actual)(kept, actual.format), expected)
        if "places" in blind and actual.format == expected.format:
            flat = actual.patterns.copy()
            flat.flat[-1] = expected.patterns.flat[-1]
            return compare(type(actual)(flat, actual.format), expected)
        return compare(actual, expected, zero_signs=False)

    monkeypatch.setattr(controls, "compare", careless)
    found = outcome("controls")
    assert found.status is Status.FAILED
    assert f"control not noticed: out, {missed}" in found.message


def test_mutants_of_the_small_claim(outcome):
    found = outcome("mutants", mutants=None)
    fates = {judgement.mutant: judgement for judgement in found.judgements}
    assert fates["shifted:add(return) no_rounding"].fate is Fate.KILLED
    assert fates["shifted:add(return) toward_zero"].by
    assert all(judgement.fate is not Fate.SURVIVED for judgement in found.judgements), fates
    assert found.status is Status.PASSED


def test_a_mutant_that_no_input_shows_survives_and_fails(small_project, outcome):
    small_project.edit(
        "ours/halve.py",
        "inputs=rows(bf16, n=(1, 64), rows=(0, 300), scale=(0.3, 0.5))",
        'inputs=Inputs({"rows": (0, 300), "n": (1, 64)}, '
        '{"x": Tensor(bf16, ("rows", "n"), families=("constant",))}, {"scale": (3.0,)})',
    )
    small_project.edit("ours/halve.py", "import rows", "import Inputs, Tensor, rows")
    found = outcome("mutants", mutants=None, examples=5)
    assert found.status is Status.FAILED
    assert "mutant survives: scaled:mul(product) flush_subnormals" in found.message
    assert found.message.count("survives") >= 1
    survivors = [j for j in found.judgements if j.fate is Fate.SURVIVED]
    assert all(judgement.compared >= 1_000_000 for judgement in survivors)


def test_equivalents_need_a_mutant_a_true_reason_and_no_killer(small_project, outcome):
    small_project.edit(
        "ours/halve.py",
        "    variants=",
        '    equivalent={"nope": Equivalent("no", lambda: True), '
        '"shifted:add(return) no_rounding": Equivalent("no", lambda: True)},\n    variants=',
    )
    found = outcome("mutants", mutants=None)
    assert found.status is Status.FAILED
    assert "the reference has no mutant 'nope'" in found.message
    assert "shifted:add(return) no_rounding is listed but was killed" in found.message
