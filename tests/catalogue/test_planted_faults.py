"""Each kind of fault, planted into the qnorm kernel, turns the checks red and is named.

Strides and sizes that a kernel ignores are planted into the kernels that have them.
"""

import shutil
from pathlib import Path

import pytest
import torch

from exactness.checks import Status
from exactness.project import Project
from exactness.report.schema import Report, outcome_record
from exactness.report.terminal import failures
from exactness.session import Session

ROOT = Path(__file__).parents[2]

RESULT = "    return _launch(x, eps, torch.bfloat16, f32_acc)\n"
LEVEL = "tl.reduce(tl.reshape(acc, [2, SLOTS >> (level + 1)]), 0, _add)"

ONE_ULP = (
    RESULT,
    RESULT.replace("return", "out =") + "    out.view(torch.int16)[-1, -1] ^= 1\n    return out\n",
)
SEQUENTIAL = ("slots = triton.next_power_of_2(min(1024, n_cols))", "slots = 1")
WIDE = ("F32_ACC=f32_acc,", "F32_ACC=True,")
WIDE_MEAN = ("        bf16_constant(1.0 / n_cols),", "        1.0 / n_cols,")
WIDE_EPS = ("        bf16_constant(eps),", "        eps,")
DROPPED_TAIL = (
    "_squares(head, F32_ACC)",
    "_squares(tl.where(slot < n_cols - 1, head, 0.0), F32_ACC)",
)
ZERO_SIGN = ("(head.to(tl.float32) * inv).to(out", "(head.to(tl.float32) * inv + 0.0).to(out")
UNROUNDED_SQUARE = (
    LEVEL,
    LEVEL.replace("acc", "_squares(head, True) if level == 0 else acc") + ".to(tl.bfloat16)",
)
UNWRITTEN = (
    "tl.store(out_row + slot, out, mask=slot < n_cols)",
    "tl.store(out_row + slot, out, mask=slot < n_cols - 1)",
)
CHANGED_INPUT = (RESULT, "    x[0, 0] = 1.0\n" + RESULT)


def planted(tmp_path, fault, file="qnorm"):
    """A copy of the catalogue with one text of a kernel file replaced."""
    for name in ("kernels", "references"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_text("[tool.exactness]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")
    kernel = tmp_path / "kernels" / f"{file}.py"
    text = kernel.read_text()
    assert text.count(fault[0]) == 1
    kernel.write_text(text.replace(*fault))
    return Session.open(Project.find(tmp_path), examples=40)


def failed(session, ids=("golden", "rows=", "property"), claim="qnorm"):
    """Reports of the failed checks of a claim."""
    (entry,) = session.context.catalogue.select((claim,))
    checks = [check for check in session.checks(entry) if check.id.startswith(ids)]
    records = [outcome_record(check.run(session.context)) for check in checks]
    report = Report({}, "", records)
    return "\n".join(failures(report)), [r for r in records if r["status"] != Status.PASSED.value]


@pytest.mark.parametrize(
    "fault",
    [SEQUENTIAL, WIDE, WIDE_MEAN, WIDE_EPS, DROPPED_TAIL, ZERO_SIGN, UNROUNDED_SQUARE, UNWRITTEN],
    ids=[
        "sequential",
        "f32_accumulator",
        "f32_mean_constant",
        "f32_eps_constant",
        "dropped_tail",
        "zero_sign",
        "unrounded_square",
        "unwritten_tail",
    ],
)
def test_semantic_fault_is_found(tmp_path, fault):
    text, records = failed(planted(tmp_path, fault))
    assert records
    edges = {mismatch["edge"] for record in records for mismatch in record["mismatches"]}
    assert edges & {"kernel = reference", "kernel = golden"}
    assert "kernel = " in text
    assert "first     [" in text
    assert "reproduce: exactness verify qnorm" in text


def test_one_ulp_in_one_element_is_found_at_its_place(tmp_path):
    text, records = failed(planted(tmp_path, ONE_ULP), ids=("golden-7x96_rn",))
    (mismatch,) = records[0]["mismatches"]
    assert mismatch["edge"] == "kernel = golden"
    assert mismatch["diff"]["mismatches"] == 1
    assert mismatch["diff"]["first"]["index"] == [6, 95]
    assert "1 of 672 elements differ, largest 1 ulp, first at [6, 95]" in text


def test_sign_of_zero_is_named(tmp_path):
    text, _ = failed(planted(tmp_path, ZERO_SIGN), ids=("golden-6x96_specials", "property"))
    assert "sign of zero" in text


def test_unwritten_element_shows_the_poison(tmp_path):
    text, records = failed(planted(tmp_path, UNWRITTEN), ids=("rows=7-n=96",))
    assert records[0]["max_ulps"] == "inf"
    assert "NaN against a number" in text


def test_modified_input_is_found(tmp_path):
    _, records = failed(planted(tmp_path, CHANGED_INPUT), ids=("rows=7-n=96",))
    edges = {(m["edge"], m["tensor"]) for m in records[0]["mismatches"]}
    assert ("input after = input before", "x") in edges


IGNORED = {
    "head": ("_norm", "row // heads, row % heads", "row // heads, row * 0"),
    "weight": ("_rms_norm", "        weight.stride(0),\n", "        1,\n"),
    "pair": ("_rope", "col1 * q_strides[2], k_row", "col1, k_row"),
    "table": ("_oe", ".to(tl.int64) * strides[branch][1]", ".to(tl.int64)"),
    "ids": ("oe_lookup_concat", "branch * stride_ib.to(tl.int64)", "branch"),
    "row": ("_rows", "row % middle * strides[1]", "row * 0 * strides[1]"),
}
"""A stride or a remainder that a kernel leaves out: by the file it stands in."""


@pytest.mark.parametrize(
    ("fault", "claim"),
    [
        ("head", "rms_norm"),
        ("head", "rms_norm_residual"),
        ("head", "k_rms_norm"),
        ("weight", "o_norm"),
        ("pair", "rope_yarn_partial"),
        ("table", "oe_lookup_concat"),
        ("ids", "oe_lookup_concat"),
        ("row", "attention_gate_sigmoid_mul"),
    ],
)
def test_an_ignored_stride_is_found(tmp_path, fault, claim):
    """By invariance, whatever Hypothesis draws: claims lay their tensors out in every way."""
    file, *texts = IGNORED[fault]
    _, records = failed(planted(tmp_path, texts, file), ("invariance",), claim)
    (record,) = records
    # In place, rows that fall together are a race, which the virtual Hopper refuses to run.
    raced = fault == "row" and not torch.cuda.is_available()
    expected = Status.ERROR if raced else Status.FAILED
    assert record["status"] == expected.value
    edges = {mismatch["edge"] for mismatch in record["mismatches"]}
    assert edges <= {"strided blocks = whole batch", "strided columns = whole batch"}


def test_a_fault_of_many_matrices_is_found(tmp_path):
    fault = ("        f32_constant(eps),", "        f32_constant(eps) if n <= _FEW else 0.5,")
    _, records = failed(planted(tmp_path, fault, "sinkhorn"), ("n=",), "sinkhorn")
    assert len(records) == 2


def test_unharmed_kernel_passes(tmp_path):
    _, records = failed(
        planted(tmp_path, ("LOG_SLOTS=slots", "LOG_SLOTS=slots")), ids=("golden-7x96_rn",)
    )
    assert not records
