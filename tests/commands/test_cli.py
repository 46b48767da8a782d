"""The command line: what it prints, and exit status 0 equal, 1 different, 2 usage."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from exactness.cli import main


@pytest.fixture
def run(small_project, monkeypatch):
    """Run a command in the small project."""
    monkeypatch.chdir(small_project.root)

    def invoke(*arguments):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return invoke


def one_line(result, *words):
    """The result is a usage error: one line on stderr that holds the words."""
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    for word in words:
        assert word in line


def test_verify_passes_and_writes_a_report(run, small_project):
    result = run("verify", "--examples", "10", "--report", "out")
    assert result.exit_code == 0, result.output
    assert "7 passed, 0 failed, 0 not run" in result.output
    report = json.loads((small_project.root / "out" / "report.json").read_text())
    assert report["totals"]["passed"] == 7
    assert list((small_project.root / "out").iterdir()) == [
        small_project.root / "out" / "report.json"
    ]


def test_verify_difference_exits_1(run, small_project):
    small_project.record(out=np.zeros((2, 3), np.float32))
    result = run("verify", "halve", "-k", "golden")
    assert result.exit_code == 1
    assert "FAILED halve[golden-2x3]" in result.output


def test_verify_replays_another_recording(run, small_project, tmp_path):
    path = small_project.record("other.safetensors")
    moved = path.rename(tmp_path / "elsewhere.safetensors")
    result = run("verify", "--golden", moved)
    assert result.exit_code == 0, result.output
    assert "1 passed" in result.output


def test_case_recorded_twice_is_refused(run, small_project):
    small_project.record("other.safetensors")
    one_line(run("verify"), "halve/2x3", "recorded in both")


def test_parameters_come_from_metadata_else_from_the_claim(run, small_project):
    small_project.edit("ours/halve.py", 'parameters={"scale": 0.5}', 'parameters={"scale": 0.75}')
    assert run("verify", "-k", "golden").exit_code == 0


def test_example_replays_a_failure(run, small_project):
    fault = "(x.float() + (x.shape[1] > 5)) * torch"
    small_project.edit("ours/halve.py", "x.float() * torch", fault)
    found = run("verify", "-k", "property", "--examples", "200")
    assert found.exit_code == 1, found.output
    (line,) = [line for line in found.output.splitlines() if "reproduce:" in line]
    example = line.split("--example ", 1)[1].strip().strip("'")
    again = run("verify", "halve", "--example", example)
    assert again.exit_code == 1
    assert "kernel = reference" in again.output


def test_usage_errors(run, tmp_path):
    one_line(run("verify", "nope"), "'nope'", "known are halve")
    one_line(run("verify", "--golden", "nope.safetensors"), "does not exist")
    one_line(run("verify", "-k", "nope"), "selects none of 7 checks")
    one_line(run("verify", "--examples", "0"), "examples: 0", "at least 1")
    one_line(run("verify", "halve", "--example", "{"), "--example: Expecting property name")
    one_line(run("verify", "halve", "--example", "[" * 100_000), "--example: ")
    for example in ("{}", "[]", '{"tensors": 3}'):
        one_line(run("verify", "halve", "--example", example), "an object with tensors")
    one_line(run("verify", "halve", "--variant", "wide"), "--variant needs --example")
    one_line(run("verify", "--project", "/"), "[tool.exactness]")


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("verify", "--report"), "report.json"),
        (("mutants", "--report"), "report.json"),
        (("record", "halve", "--device", "cpu", "--out"), ""),
        (("reveal", "numpy:sum", "--dot"), ""),
        (("reveal", "numpy:sum", "--svg"), ""),
        (("reveal", "numpy:sum", "--json"), ""),
        (("diff", "recorded/halve.safetensors", "recorded/halve.safetensors", "--report"), ""),
    ],
    ids=lambda value: value[0] + value[-1] if isinstance(value, tuple) else "",
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(run, command, file):
    """A file stands where a folder must be."""
    target = f"pyproject.toml/new/{file}".rstrip("/")
    result = run(*command, target.removesuffix("/report.json"))
    one_line(result, f"{target}: cannot be written: Not a directory")
    assert result.stdout == ""


def test_witnesses_that_cannot_be_kept_are_refused_before_the_work(run, small_project):
    small_project.write("recorded/witnesses", "a file")
    result = run("mutants", "--keep-witnesses")
    one_line(result, "witnesses/halve.json: cannot be written")
    assert result.stdout == ""


def test_options_that_cannot_be_parsed_are_one_line(run):
    one_line(run("bench", "--seed", "x"), "'--seed': 'x' is not a valid integer", "bench --help")
    one_line(run("bench", "extra"), "unexpected extra argument (extra)")
    one_line(run("verify", "halve", "--seed", "1.5"), "'--seed': '1.5'", "verify --help")
    one_line(run("verify", "--device", "tpu"), "'auto', 'cpu', 'cuda'")
    one_line(run("diff", "a.npy"), "EXPECTED")
    one_line(run("verfiy"), "'verfiy'")
    one_line(run("--verbose"), "--verbose")


@pytest.mark.parametrize("arguments", [("verify",), ("diff", "a.npy", "b.npy"), ("list",)])
def test_ctrl_c_has_an_exit_status_of_its_own(run, monkeypatch, arguments):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("exactness.project.Project.find", stop)
    monkeypatch.setattr("exactness.diff.diff_files", stop)
    result = run(*arguments)
    assert result.exit_code == 130
    assert result.stderr == "exactness: stopped\n"


def test_the_help_keeps_its_lines(run):
    assert "Commands:\n" in run("--help").stdout
    assert "Commands:\n" in run().output


def test_foreign_recording_is_a_usage_error(run, small_project):
    junk = small_project.write("junk.safetensors", "not tensors at all")
    one_line(run("verify", "--golden", junk), "junk.safetensors")


def test_recording_without_our_cases(run, small_project):
    from exactness import golden
    from exactness.bits import Bits

    path = small_project.root / "x.safetensors"
    golden.write(path, {"other/a/x": Bits.of(np.zeros(3, np.float32))}, {}, {})
    one_line(run("verify", "--golden", path), "no recorded case of halve", "holds other")


def test_recorded_cases_that_no_check_reads_are_refused(run, small_project):
    small_project.edit("ours/halve.py", '    golden="halve",\n', "")
    one_line(run("verify"), "1 recorded cases under 'halve' are read by no check")


def test_list(run):
    shown = run("list")
    assert shown.exit_code == 0
    assert "halve:halve" in shown.output
    (claim,) = json.loads(run("list", "--json").output)["claims"]
    assert claim["claim"] == "halve"
    assert claim["recorded_cases"] == ["halve/2x3"]
    assert claim["variants"] == ["wide"]


def test_list_shows_names_of_any_length(run, small_project):
    name = "halves_" * 33
    small_project.edit("ours/halve.py", "halve:halve_wide", f"{name}:halve_wide")
    small_project.edit("ours/halve.py", '"halve:halve"', f'"{name}:halve"')
    (small_project.root / "chains" / "halve.py").rename(small_project.root / f"chains/{name}.py")
    header, line = run("list").stdout.splitlines()
    assert f" {name}:halve " in line
    assert line.index(f"{name}:halve") == header.index("reference")


def test_env(run):
    assert "python" in run("env").output
    assert json.loads(run("env", "--json").output)["packages"]["numpy"] == np.__version__


def test_diff(run, tmp_path):
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(a, np.array([1.0, 0.0], np.float32))
    np.save(b, np.array([1.0, -0.0], np.float32))
    different = run("diff", a, b, "--report", tmp_path / "diff.json")
    assert different.exit_code == 1
    assert "sign of zero" in different.output
    assert json.loads((tmp_path / "diff.json").read_text())["verdict"] == "different"
    assert run("diff", a, b, "--ignore-zero-sign").exit_code == 0
    one_line(run("diff", a, tmp_path / "c.npy"), "c.npy", "does not exist")


BASELINE = """
import torch

def published(x, scale):
    return (x * torch.tensor(scale).bfloat16()) + 1.0
"""


def test_record_runs_the_baseline(run, small_project, monkeypatch):
    small_project.write("engine_of_a_user.py", BASELINE)
    monkeypatch.syspath_prepend(small_project.root)
    small_project.edit("ours/halve.py", "BASELINE", "engine_of_a_user:published")
    path = small_project.root / "recorded" / "halve.safetensors"
    before = path.read_bytes()
    one_line(run("record", "halve", "--device", "cpu"), "exists", "--force")
    assert path.read_bytes() == before
    recorded = run("record", "halve", "--device", "cpu", "--force")
    assert recorded.exit_code == 0, recorded.output
    assert path.read_bytes() != before
    replayed = run("verify", "--golden", path)
    assert replayed.exit_code == 0, replayed.output
    again = path.read_bytes()
    run("record", "halve", "--device", "cpu", "--force")
    assert path.read_bytes() == again


def test_record_takes_a_baseline_beside_the_references_and_families(run, small_project):
    small_project.write("chains/_torch.py", BASELINE)
    small_project.edit("ours/halve.py", "BASELINE", "_torch:published")
    path = small_project.root / "recorded" / "halve.safetensors"
    families = ("--family", "normal", "--family", "specials")
    recorded = run("record", "halve", "--device", "cpu", "--force", *families)
    assert recorded.exit_code == 0, recorded.output
    assert "recorded 2 cases of _torch:published" in recorded.output
    replayed = run("verify", "-k", "golden-rows30_n33_specials")
    assert replayed.exit_code == 0, replayed.output
    assert "1 passed" in replayed.output
    before = path.read_bytes()
    one_line(
        run("record", "halve", "--device", "cpu", "--force", "--family", "special"),
        "--family 'special' is unknown",
        "specials",
    )
    assert path.read_bytes() == before


def test_record_refuses_a_baseline_that_is_not_there(run):
    one_line(run("record", "halve", "--device", "cpu", "--force"), "BASELINE")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu(run, small_project):
    small_project.edit("ours/halve.py", "BASELINE", "torch:neg")
    one_line(run("verify", "--device", "cuda"), "no CUDA GPU", "--device cpu")
    one_line(run("record", "halve", "--force"), "no CUDA GPU", "--device cpu")
    one_line(run("record", "halve", "--force", "--device", "cuda"), "no CUDA GPU", "--device cpu")


def test_record_refuses_our_own_kernel(run, small_project):
    small_project.edit("ours/halve.py", "BASELINE", "OURS")
    text = (small_project.root / "ours" / "halve.py").read_text()
    module = "sys.modules[__name__].__name__ + ':halve'"
    small_project.write("ours/halve.py", "import sys\n" + text.replace('"OURS"', module))
    one_line(run("record", "halve", "--device", "cpu", "--force"), "would prove nothing")


def test_flushed_subnormals_are_noticed(run):
    assert torch.set_flush_denormal(True)
    try:
        one_line(run("verify"), "flushes subnormals")
    finally:
        torch.set_flush_denormal(False)


def test_record_refuses_without_a_baseline(run, small_project):
    small_project.edit("ours/halve.py", '    baseline="BASELINE",\n', "")
    one_line(run("record", "halve", "--device", "cpu", "--force"), "names no baseline")
