"""`exactness mutants` on a claim of the catalogue."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from exactness.cli import main

pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[2]
CLAIM = "attention_gate_sigmoid_mul"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """What the command printed, and its report."""
    folder = tmp_path_factory.mktemp("report")
    options = ["--project", str(ROOT), "--mutants", "4", "--report", str(folder)]
    done = CliRunner().invoke(main, ["mutants", CLAIM, *options])
    assert done.exit_code == 0, done.output
    return done.output, json.loads((folder / "report.json").read_text())


def test_reference_and_kernel_have_a_matrix_each(result):
    output, _ = result
    reference = output.index(f"{CLAIM}: mutants")
    kernel = output.index(f"{CLAIM}: kernel mutants")
    assert reference < kernel < output.index("contraction switched on") < output.index("warps")


def test_report_has_the_fates_of_both(result):
    output, report = result
    assert [check["check"] for check in report["checks"]] == ["mutants", "kernel_mutants"]
    reference, kernel = (check["judgements"] for check in report["checks"])
    assert len(reference) == 4
    fates = {judgement["mutant"]: judgement["fate"] for judgement in kernel}
    assert fates["contraction switched on"] == "proved equal"
    assert "killed" in fates.values()
    assert "faults of the kernel and 2 compile options judged" in output
