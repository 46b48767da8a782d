"""Faults of compiled kernels: seen, shown to change nothing, or reported as survivors."""

import dataclasses
import re

import pytest

from exactness.checks import kernel_mutants, workbench
from exactness.checks.kernel_mutants import KernelMutantsCheck
from exactness.checks.outcome import Status
from exactness.checks.sensitivity import Fate

ROUNDED = """
t = (x * 1.7).to(tl.bfloat16).to(tl.float32)
y = t * t + 0.3
"""
ROUNDED_RESULT = "(lambda t: t * t + 0.3)(cast(cast(x * 1.7, bf16), f32))"

FIRST = "first = tl.load(x_ptr + row * n)"

SIGN = (
    f"{FIRST}\ny = tl.where(x + first > 0.0, 1.0, 2.0)",
    "where(x + x[..., :1] > 0.0, minimum(maximum(x, 1.0), 1.0), 2.0)",
)


def fates(outcome):
    return {judgement.mutant: judgement.fate for judgement in outcome.judgements}


def named(outcome, start):
    """The one judgement whose name begins so."""
    (found,) = [j for j in outcome.judgements if j.mutant.startswith(start)]
    return found


@pytest.fixture(scope="module")
def rounded(triton_project):
    """All faults of a kernel with a cast, two constants and a sum."""
    return triton_project.write(ROUNDED, ROUNDED_RESULT).run(KernelMutantsCheck, mutants=None)


def test_every_kind_of_fault_is_judged(rounded):
    assert rounded.status is Status.PASSED, rounded.message
    killed = [name for name, fate in fates(rounded).items() if fate is Fate.KILLED]
    kinds = ("truncating cast", "rounded toward zero", "constant off by one ulp", "comparison")
    for kind in kinds:
        assert any(name.startswith(kind) for name in killed), kind
    assert rounded.elements > 0
    faults = re.fullmatch(
        r"(\d+) of (\d+) faults of the kernel and 4 compile options judged", rounded.notes[0]
    )
    assert faults
    assert faults[1] == faults[2]
    assert Fate.SURVIVED not in fates(rounded).values()


def test_kill_names_case_and_place(rounded):
    cast = named(rounded, "truncating cast")
    assert re.search(r"at k\d+\.py:15:\d+$", cast.mutant)
    assert cast.by.startswith("rows=")
    assert cast.differing > 0
    assert cast.runs == 1


def test_constants_are_told_apart(rounded):
    constants = [name for name in fates(rounded) if name.startswith("constant")]
    assert any("0x3fd9999a" in name for name in constants)  # 1.7
    assert any("0x3e99999a" in name for name in constants)  # 0.3


def test_access_beyond_the_tensors_counts_as_noticed(rounded):
    bound = [j for j in rounded.judgements if j.mutant.startswith("comparison")]
    assert any("OutOfBoundsError" in judgement.by for judgement in bound)


def test_contraction_of_exact_products_is_proved_equal(rounded):
    """The square of a bf16 value is exact in f32: all 65,536 are tried."""
    assert named(rounded, "contraction").fate is Fate.PROVED_EQUAL


def test_other_warps_give_the_same_bits(rounded):
    warps = {name: fate for name, fate in fates(rounded).items() if name.endswith("warps")}
    assert warps == dict.fromkeys(("2 warps", "4 warps", "8 warps"), Fate.EQUIVALENT)


def test_contraction_that_drops_a_rounding_is_noticed(triton_project):
    outcome = triton_project.write("y = x * 1.7 + 0.3", "x * 1.7 + 0.3").run(KernelMutantsCheck)
    assert outcome.status is Status.PASSED, outcome.message
    assert named(outcome, "contraction").fate is Fate.KILLED


def test_contraction_that_is_on_anyway_is_no_mutant(triton_project):
    project = triton_project.write("y = x + 0.3", "x + 0.3", options="num_warps=1")
    outcome = project.run(KernelMutantsCheck)
    assert not [name for name in fates(outcome) if name.startswith("contraction")]


def test_order_left_to_the_compiler_is_found(triton_project):
    edits = {"n=(1, 64)": "n=(64, 64)", '{"rows": 3, "n": 33}, ': ""}
    body = "y = tl.sum(x, 0) + x * 0.0"
    result = "sum_(x, order=triton_layout(64, 2, 32, 1)) + x * 0.0"
    project = triton_project.write(body, result, edits=edits)
    outcome = project.run(KernelMutantsCheck, mutants=None)
    assert outcome.status is Status.FAILED
    assert "the order of summation is not explicit: with 2 warps" in outcome.message
    assert named(outcome, "2 warps").fate is Fate.KILLED


def test_order_that_is_not_claimed_may_depend_on_warps(triton_project):
    outcome = triton_project.write("y = x + 0.3", "x + 0.3", claim='order="compiler",')
    assert not [n for n in fates(outcome.run(KernelMutantsCheck)) if n.endswith("warps")]


def test_warps_that_do_not_compile_are_said(triton_project):
    body = "tl.static_assert(tl.extra.cuda.num_warps() == 1)\ny = x + 0.3"
    outcome = triton_project.write(body, "x + 0.3").run(KernelMutantsCheck, mutants=None)
    assert outcome.status is Status.PASSED, outcome.message
    assert [reason for reason in outcome.not_run if "other warps: 2 warps on" in reason]


@pytest.fixture
def short_search(monkeypatch):
    """Survivors cost a long search; a short one gives the same fate."""
    monkeypatch.setattr(workbench, "SEARCH_RUNS", 40)


def test_fault_that_nothing_shows_survives(triton_project, short_search):
    """The sum of two loads is only asked for its sign, which no rounding changes."""
    outcome = triton_project.write(*SIGN).run(KernelMutantsCheck)
    assert outcome.status is Status.FAILED
    assert "fault of the kernel survives: rounded toward zero at k" in outcome.message
    survivor = named(outcome, "rounded toward zero")
    assert survivor.fate is Fate.SURVIVED
    assert survivor.differing == 0
    assert survivor.examples > 40
    assert "gave another result" in survivor.reason


def test_survivor_may_be_listed_with_a_reason_that_is_checked(triton_project, short_search):
    outcome = triton_project.write(*SIGN).run(KernelMutantsCheck)
    survivor = named(outcome, "rounded toward zero").mutant

    def listed(check, *names):
        entries = "".join(f'"kernel: {name}": Equivalent("sign", {check}),' for name in names)
        claim = f"equivalent={{{entries}}},"
        return triton_project.write(*SIGN, claim=claim).run(KernelMutantsCheck)

    outcome = listed("lambda: True", survivor)
    assert outcome.status is Status.PASSED, outcome.message
    assert named(outcome, survivor).fate is Fate.EQUIVALENT
    assert named(outcome, survivor).reason == "sign"
    assert "survives" in listed("lambda: False", survivor).message
    message = listed("lambda: True", survivor, "other").message
    assert message == "equivalent: the kernel has no fault 'other'"


def test_listed_fault_that_is_noticed_is_named(triton_project):
    claim = 'equivalent={"kernel: contraction switched on": Equivalent("", lambda: True)},'
    project = triton_project.write("y = x * 1.7 + 0.3", "x * 1.7 + 0.3", claim=claim)
    outcome = project.run(KernelMutantsCheck)
    assert outcome.status is Status.FAILED
    assert "contraction switched on is listed but was killed" in outcome.message


def test_fault_without_effect_on_a_million_values_never_differed(triton_project):
    """The same with one load: a function of one value, tried on a sample."""
    body = "y = tl.where(x * 1.7 > 0.0, 1.0, 2.0)"
    result = "where(x * 1.7 > 0.0, minimum(maximum(x, 1.0), 1.0), 2.0)"
    outcome = triton_project.write(body, result).run(KernelMutantsCheck, mutants=None)
    found = named(outcome, "rounded toward zero")
    assert found.fate is Fate.NEVER_DIFFERED
    assert "1,179,648 values" in found.reason


def test_exact_instruction_never_differed_in_a_million_executions(triton_project):
    """Halves of two loads, added: exact unless subnormal, so few families tell."""
    body = f"{FIRST}\ny = tl.maximum(x, first) + 0.0"
    result = "maximum(x, x[..., :1]) + 0.0"
    outcome = triton_project.write(body, result).run(KernelMutantsCheck, mutants=None)
    assert outcome.status is Status.PASSED, outcome.message
    found = named(outcome, "rounded toward zero")
    assert found.fate is Fate.NEVER_DIFFERED


def test_rare_difference_is_planted(triton_project):
    """One ulp of the threshold decides for the bf16 value above it alone."""
    body = "y = tl.where(x * 0.5 > 1.00781238079071, x, 2.0)"
    result = "where(x * 0.5 > 1.00781238079071, x, 2.0)"
    outcome = triton_project.write(body, result).run(KernelMutantsCheck, mutants=None)
    assert outcome.status is Status.PASSED, outcome.message
    found = named(outcome, "constant off by one ulp 0x3f80ffff")
    assert found.fate is Fate.KILLED
    assert found.by == "values planted in x"


def test_kernel_that_is_wrong_itself_is_not_judged(triton_project):
    outcome = triton_project.write("y = x + 0.3", "x + 0.4").run(KernelMutantsCheck)
    assert outcome.status is Status.FAILED
    assert "the kernel itself is not the reference on rows=" in outcome.message
    assert outcome.judgements == ()


def test_unrounded_form_shows_what_the_output_hides(triton_project):
    edits = {
        "out = torch.empty_like(x)": "out = torch.empty_like(x, dtype=dtype)",
        "def k(x):": "def k(x, dtype=torch.bfloat16):",
        "tl.store(out_ptr + row * n + col, y, mask=mask)": (
            "tl.store(out_ptr + row * n + col, y.to(out_ptr.dtype.element_ty), mask=mask)"
        ),
    }
    claim = "unrounded=lambda x: k(x, torch.float32),"
    project = triton_project.write("y = x * 1.7", "cast(x * 1.7, bf16)", claim=claim, edits=edits)
    outcome = project.run(KernelMutantsCheck, mutants=None)
    assert outcome.status is Status.PASSED, outcome.message
    assert named(outcome, "constant").before_last_rounding
    assert named(outcome, "rounded toward zero").before_last_rounding


@pytest.fixture
def many_faults(triton_project):
    """A kernel with five products, five sums and ten constants."""
    body = "\n".join(["y = x", *(f"y = y * 1.{step} + 0.{step}" for step in range(1, 6))])
    result = "x"
    for step in range(1, 6):
        result = f"({result}) * 1.{step} + 0.{step}"
    return triton_project.write(body, result)


def test_sample_is_a_function_of_the_seed(many_faults):
    first, again, other = (
        many_faults.run(KernelMutantsCheck, seed=seed).judgements for seed in (0, 0, 1)
    )
    assert [j.mutant for j in first] == [j.mutant for j in again]
    assert [j.mutant for j in first] != [j.mutant for j in other]


def test_sample_is_shared_out_among_the_kinds(many_faults):
    names = list(fates(many_faults.run(KernelMutantsCheck, mutants=8)))
    assert sum(name.startswith("rounded toward zero") for name in names) == 2
    assert sum(name.startswith("constant") for name in names) == 2
    assert sum(name.startswith("contraction") for name in names) == 1
    assert sum(name.endswith("warps") for name in names) == 1


def test_sample_ends_with_its_budget(many_faults, monkeypatch):
    monkeypatch.setattr(kernel_mutants, "BUDGET", 1)
    outcome = many_faults.run(KernelMutantsCheck)
    assert outcome.status is Status.PASSED, outcome.message
    assert outcome.notes[0].startswith("1 of ")
    everything = many_faults.run(KernelMutantsCheck, mutants=None)
    judged, known = re.match(r"(\d+) of (\d+) faults", everything.notes[0]).groups()
    assert judged == known


def test_machine_with_a_gpu_runs_faults_on_the_virtual_hopper(triton_project):
    session = triton_project.write("y = x + 0.3", "x + 0.3").session()
    (entry,) = session.context.catalogue.entries

    class Gpu:
        name = "some GPU"

    outcome = KernelMutantsCheck(entry).run(dataclasses.replace(session.context, machine=Gpu()))
    assert outcome.status is Status.PASSED, outcome.message
    assert Fate.KILLED in fates(outcome).values()


def test_callable_on_the_cpu_is_not_judged(triton_project):
    outcome = triton_project.write("y = x", claim='runs_on="cpu",').run(KernelMutantsCheck)
    assert outcome.status is Status.NOT_RUN
