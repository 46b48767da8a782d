"""The plugin collects kernel files and runs their checks as pytest items."""

import json
import sys

import numpy as np
import pytest


@pytest.fixture
def project(pytester, small_project, monkeypatch):
    """The small project, as pytester's current folder."""
    monkeypatch.chdir(small_project.root)
    pytester._path = small_project.root
    return small_project


def run(pytester, *arguments):
    """In this process, with few examples: importing torch takes longer than the checks."""
    return pytester.runpytest_inprocess("--exactness-examples", "10", *arguments)


def test_kernel_file_is_collected_with_readable_ids(pytester, project):
    result = run(pytester, "ours", "--collect-only", "-q")
    result.stdout.fnmatch_lines(
        [
            "ours/halve.py::halve[[]golden-2x3]",
            "ours/halve.py::halve[[]rows=30-n=33]",
            "ours/halve.py::halve[[]property]",
            "ours/halve.py::halve[[]wide]",
            "ours/halve.py::halve[[]invariance]",
            "ours/halve.py::halve[[]controls]",
            "ours/halve.py::halve[[]mutants]",
        ]
    )


def test_all_checks_pass_and_are_summarized(pytester, project):
    result = run(pytester, "ours", "-m", "bitexact")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(
        [
            "exactness: kernels run on *",
            "claim *checks *cases *elements *max ulp *result*",
            "halve * 7 * 0 *7 passed*",
            "bitexact: 7 passed, 0 failed, 0 not run*",
        ]
    )


def test_node_id_keyword_and_last_failed(pytester, project):
    one = run(pytester, "ours/halve.py::halve[golden-2x3]")
    one.assert_outcomes(passed=1)
    chosen = run(pytester, "ours", "-k", "golden")
    chosen.assert_outcomes(passed=1, deselected=6)
    chosen.stdout.fnmatch_lines(["bitexact: 1 passed,*6 deselected"])


def test_last_failed(pytester, project):
    project.record(out=_off_by_one())
    run(pytester, "ours").assert_outcomes(passed=6, failed=1)
    run(pytester, "ours", "--lf").assert_outcomes(failed=1)


def _off_by_one():
    return np.array([[1.5, 0.0, 2.5], [1.0, 3.5, -2.015625]], np.float32)


def test_workers_send_and_the_controller_merges(pytester, project):
    arguments = ("ours", "-n", "2", "--exactness-report", "out")
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["bitexact: 7 passed, 0 failed, 0 not run*"])
    report = json.loads((project.root / "out" / "report.json").read_text())
    assert report["schema_version"] == 1
    assert {check["check"] for check in report["checks"]} == {
        "golden-2x3",
        "rows=30-n=33",
        "property",
        "wide",
        "invariance",
        "controls",
        "mutants",
    }
    assert report["environment"]["cpu"]


def test_failure_names_tensor_index_and_both_patterns(pytester, project):
    project.record(out=_off_by_one())
    result = run(pytester, "ours", "-k", "golden")
    result.assert_outcomes(failed=1, deselected=6)
    result.stdout.fnmatch_lines(
        [
            "*FAILED halve[[]golden-2x3]*",
            "*reference = golden, out, halve/2x3*",
            "*first at [[]1, 2]*",
            "*0xc000*0xc001*",
        ]
    )


def test_first_diverging_launch_is_named_first(pytester, project):
    project.record(product=np.array([[0.5, -1.0, 1.5078125], [0.0, 2.5, -3.0]], np.float32))
    result = run(pytester, "ours", "-k", "golden")
    result.stdout.fnmatch_lines(["*reference = golden, product, halve/2x3*", "*first at [[]0, 2]*"])


def test_unread_recorded_tensor_fails(pytester, project):
    project.record(mystery=np.ones((1, 1), np.float32))
    result = run(pytester, "ours", "-k", "golden")
    result.assert_outcomes(failed=1, deselected=6)
    result.stdout.fnmatch_lines(["*halve/2x3/mystery is read by no check*"])


def test_missing_recording_fails(pytester, project):
    (project.root / "recorded" / "halve.safetensors").unlink()
    result = run(pytester, "ours", "-k", "golden")
    result.assert_outcomes(failed=1, deselected=6)
    result.stdout.fnmatch_lines(["*no recorded case under 'halve'*exactness record halve*"])


def test_corrupt_recording_is_a_clear_error(pytester, project):
    path = project.root / "recorded" / "halve.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    result = run(pytester, "ours")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*halve.safetensors*"])


def test_a_report_that_cannot_be_written_is_refused_before_the_checks(pytester, project):
    result = run(pytester, "ours", "--exactness-report", "pyproject.toml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*pyproject.toml/report.json: cannot be written: Not a directory"])


def test_exception_is_an_error_with_its_reproduction(pytester, project):
    project.edit(
        "ours/halve.py",
        "    if wide:",
        "    if x.shape[1] > 2: raise OSError('disk')\n    if wide:",
    )
    result = run(pytester, "ours", "-k", "golden or property")
    result.stdout.fnmatch_lines(["*ERROR halve[[]golden-2x3]*", "*OSError: disk*"])
    result.stdout.fnmatch_lines(
        ["*ERROR halve[[]property]*", "*reproduce: exactness verify halve*"]
    )


def test_only_skipped_is_not_a_pass(pytester, project):
    project.edit("ours/halve.py", 'runs_on="cpu"', 'runs_on="gpu-only"')
    result = run(pytester, "ours", "-m", "bitexact", "-k", "property", "--exactness-device", "cpu")
    result.assert_outcomes(skipped=1, deselected=6)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*not run: halve*kernel = reference: the kernel runs on a GPU only*",
            "bitexact: 0 passed*",
        ]
    )


def test_kernel_edge_of_a_recording_not_run_is_counted(pytester, project):
    project.edit("ours/halve.py", 'runs_on="cpu"', 'runs_on="gpu-only"')
    result = run(pytester, "ours", "-k", "golden", "--exactness-device", "cpu")
    result.assert_outcomes(passed=1, deselected=6)
    result.stdout.fnmatch_lines(["*not run: halve, 1 × kernel = golden*", "*1 edges not run*"])


def test_nothing_selected_fails(pytester, project):
    assert run(pytester, "ours", "-m", "bitexact", "-k", "nonesuch").ret == 5


def test_variant_in_the_header_when_switched_on(pytester, project, monkeypatch):
    monkeypatch.setenv("HALVE_WIDE", "1")
    result = run(pytester, "ours", "-k", "golden")
    result.assert_outcomes(passed=1, deselected=6)
    result.stdout.fnmatch_lines(["*variant halve wide (HALVE_WIDE=1) is switched on*"])


def test_variant_that_gives_the_default_bits_fails(pytester, project):
    project.edit("ours/halve.py", "    if wide:", "    if False:")
    project.edit("ours/halve.py", "halve:halve_wide", "halve:halve")
    result = run(pytester, "ours", "-k", "wide")
    result.assert_outcomes(failed=1, deselected=6)
    result.stdout.fnmatch_lines(["*variant wide gave the default's bits*"])


def test_projects_without_a_table_are_left_alone(pytester):
    pytester.makepyprojecttoml("[tool.other]\n")
    pytester.makepyfile(test_one="def test_one(): pass")
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*exactness: kernels*")


def test_the_plugin_module_imports_nothing_heavy(pytester):
    script = (
        "import sys, exactness.pytest_plugin; "
        "print([m for m in ('torch', 'numpy', 'hypothesis') if m in sys.modules])"
    )
    result = pytester.run(sys.executable, "-c", script)
    result.stdout.fnmatch_lines(["[[][]]"])
