"""`exactness bench`, on a device that only pretends to be a GPU."""

import json

import pytest
import torch
from click.testing import CliRunner

from exactness.bench import runner
from exactness.bench.launches import CALLS
from exactness.bench.measure import Effort
from exactness.bench.runner import Request
from exactness.cli import main
from exactness.commands import bench

BENCH = """    baseline="BASELINE",
    bench=[
        Bench(
            name="halve",
            sizes={"rows": "tokens", "n": 8},
            bytes="4*rows*n",
            tokens=(3,),
            against={
                "chain": "_torch:exact",
                "library": "_torch:inexact",
                "absent": "_torch:absent",
            },
        )
    ],
"""

TORCH = """
import torch

def exact(x, scale):
    scaled = x.float() * torch.tensor(scale).bfloat16().float()
    return scaled.to(torch.bfloat16) + 1.0

def inexact(x, scale):
    return x * scale + 2.0

def absent(x, scale):
    raise ModuleNotFoundError("No module named 'liger_kernel'")
"""

EFFORT = Effort(warmup=1, repeat=2, issued=2, issues=2)


@pytest.fixture
def project(small_project, monkeypatch):
    """The small project, with a benchmark case."""
    small_project.edit("ours/halve.py", "import Claim", "import Bench, Claim")
    small_project.edit("ours/halve.py", '    baseline="BASELINE",\n', BENCH)
    small_project.write("chains/_torch.py", TORCH)
    small_project.write(
        "chains/_benchmark.py", 'def planned():\n    return {"attention": "there is no claim yet"}'
    )
    monkeypatch.chdir(small_project.root)
    monkeypatch.setattr(runner, "GRAPH_CALLS", 3)
    return small_project


@pytest.fixture
def run(project, gpu, capsys):
    """Run the command on the device; its status and what it printed."""

    def invoke(request=None, **options):
        request = request or Request(EFFORT)
        status = bench.run(bench.Options(request=request, **options), project.root, gpu)
        return status, capsys.readouterr()

    return invoke


def invoke(*arguments):
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


def one_line(result, *words):
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    for word in words:
        assert word in line


def test_a_row_of_the_table_and_of_the_report(run, project, tmp_path):
    file = tmp_path / "out" / "bench.json"
    status, printed = run(report=file, peak_bandwidth_gbs=1.0)
    assert status == 0, printed.out
    (line,) = [line for line in printed.out.splitlines() if line.startswith("halve")]
    assert line.split()[:5] == ["halve", "tokens=3", "10.00", "2.00", "0%"]
    assert line.split()[-1] == "right"
    assert "unsupported: attention: there is no claim yet" in printed.out
    assert "1 measured, 0 WRONG BITS, 1 unsupported" in printed.out
    report = json.loads(file.read_text())
    assert (report["schema_version"], report["kind"]) == (1, "bench")
    assert report["peaks"]["bandwidth_source"] == "given"
    assert report["peaks"]["tflops_source"] == "measured"
    rows = {row["case"]: row for row in report["cases"]}
    assert rows["attention"]["state"] == "unsupported"
    row = rows["halve"]
    assert row["given"] == {"rows": 3, "n": 8, "scale": 0.3}
    assert row["source"] == "ours/halve.py"
    assert (row["kernel"], row["shape"], row["unit"]) == ("halve", "tokens=3", "GB/s")
    assert row["bytes"] == 96
    assert row["latency_ms"] == pytest.approx(0.01)
    assert row["performance"] == pytest.approx(96 / 10e3)
    assert row["peak_share"] == pytest.approx(96 / 10e3)
    assert row["graph_peak_share"] == pytest.approx(96 / 2e3)
    assert row["graph"]["median_us"] == 2.0
    assert row["host"]["median_us"] == pytest.approx(50.0)
    assert row["floors"]["times_copy"] == 1.0
    assert row["bits"]["right"]
    assert list(file.parent.iterdir()) == [file]


def test_wrong_bits_say_so_and_exit_with_1(run, project):
    project.edit("ours/halve.py", "return (x.float() *", "return (0 * x.float() *")
    status, printed = run()
    assert status == 1
    assert "WRONG BITS: halve tokens=3: before timing: out:" in printed.out
    assert "0 measured, 1 WRONG BITS" in printed.out


def test_a_kernel_that_fails_is_a_row(run, project):
    fails = "raise OSError('no\\nway')\n    return (x.float() *"
    project.edit("ours/halve.py", "return (x.float() *", fails)
    status, printed = run()
    assert status == 1
    assert "error: halve tokens=3: OSError: no way" in printed.out


def test_strict_makes_unsupported_cases_fail(run):
    assert run(strict=True)[0] == 1
    assert run(strict=True, selection=bench.Selection(names=("halve",)))[0] == 0


def test_comparators(run):
    request = Request(EFFORT, against=("chain", "library", "absent"))
    status, printed = run(request)
    assert status == 0, "bits of a comparator are its own matter"
    lines = [line for line in printed.out.splitlines() if line.startswith("halve")][1:]
    assert ["the baseline's" in line for line in lines] == [True, False, False]
    assert "others in" in lines[1]
    assert "not installed (No module named 'liger_kernel')" in lines[2]


def test_a_ratio_between_events_is_marked(run, gpu):
    gpu.uncapturable = "it waits for the GPU"
    _, printed = run(Request(EFFORT, against=("chain",)))
    assert "1.00 (events)" in printed.out
    assert "no graph: halve tokens=3: it waits for the GPU" in printed.out


def test_launches_of_kernel_and_chain(run, gpu):
    gpu.traced = {"traceEvents": [{"cat": "kernel", "name": "k"}] * 2 * CALLS}
    _, printed = run(Request(EFFORT, launches=True))
    rows = [line.split() for line in printed.out.splitlines() if line.startswith("halve")][1:]
    assert [row[2:] for row in rows] == [
        ["kernel", "2", "3", "0", "0", "0"],
        ["chain", "2", "3", "0", "0", "0"],
    ]


def test_compare_shows_ratios_and_what_changed(run, gpu, project, tmp_path):
    file = tmp_path / "old.json"
    run(report=file)
    old = json.loads(file.read_text())
    (row,) = [row for row in old["cases"] if row["case"] == "halve"]
    row["graph"]["median_us"] = 4.0
    old["environment"]["packages"]["torch"] = "1.0"
    file.write_text(json.dumps(old))
    project.write("ours/halve.py", (project.root / "ours" / "halve.py").read_text() + "\n")
    status, printed = run(compare=file)
    assert status == 0
    line = printed.out.splitlines()[-3].split()
    assert line == ["halve", "tokens=3", "0.500", "1.000", "1.000", "1.000", "changed"]
    assert "before 1.0" in printed.err


def test_compare_refuses_another_gpu(run, tmp_path):
    file = tmp_path / "old.json"
    run(report=file)
    old = json.loads(file.read_text())
    file.write_text(json.dumps({**old, "device": "NVIDIA H100"}))
    with pytest.raises(bench.UsageError, match="NVIDIA H100, this is pretend GPU"):
        run(compare=file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("1" * 5_000, "cannot be read as JSON"),
        ("[]", "no report of exactness bench"),
        ('{"kind": "bench", "schema_version": 99}', "schema_version 99"),
        (None, "cannot be read"),
    ],
)
def test_compare_refuses_other_files(run, tmp_path, text, words):
    file = tmp_path / "old.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(bench.UsageError, match=words):
        run(compare=file)


HALVE = {
    "case": "halve",
    "shape": "tokens=3",
    "given": {},
    "source_hash": "0",
    "latency_ms": 1,
    "host": {"median_us": 1.0},
}


def row(**changed):
    """A report of one row with some fields replaced, those that are ... left out."""
    fields = {**HALVE, **changed}
    return {"cases": [{name: each for name, each in fields.items() if each is not ...}]}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"device": ...}, "'device' is missing"),
        ({"device": 3}, "device: damaged: not text"),
        ({"environment": ...}, "'environment' is missing"),
        ({"environment": []}, "environment: damaged: not an object"),
        ({"environment": {}}, "'packages' is missing"),
        ({"environment": {"packages": {"torch": 2}}}, "torch: damaged: not text"),
        ({"environment": {"packages": {}, "driver": 5}}, "driver: damaged: not text"),
        ({"cases": ...}, "'cases' is missing"),
        ({"cases": 3}, "cases: damaged: not a list"),
        ({"cases": [3]}, r"cases\[0\]: damaged: not an object"),
        ({"cases": [{"latency_ms": 1}]}, "'case' is missing"),
        (row(case=3), "case: damaged: not text"),
        (row(shape=...), "'shape' is missing"),
        (row(given=...), "'given' is missing"),
        (row(source_hash=...), "'source_hash' is missing"),
        (row(host=3), "host: damaged: not an object"),
        (row(host={}), "'median_us' is missing"),
        *((row(host={"median_us": time}), "host: median_us: damaged: not a finite number above 0")
          for time in (0, -1, float("inf"), float("nan"), 10**400, "1", True, [])),
    ],
)  # fmt: skip
def test_compare_refuses_a_damaged_file_before_measuring(run, gpu, tmp_path, changed, words):
    file = tmp_path / "old.json"
    sound = {
        "schema_version": 1,
        "kind": "bench",
        "device": gpu.name,
        "environment": {"packages": {}},
        **row(),
    }
    file.write_text(json.dumps(sound))
    assert run(compare=file)[0] == 0
    damaged = {name: each for name, each in {**sound, **changed}.items() if each is not ...}
    file.write_text(json.dumps(damaged))
    gpu.captured = 0
    with pytest.raises(bench.UsageError, match=f"old.json: .*{words}"):
        run(compare=file)
    assert not gpu.captured


def test_a_report_that_cannot_be_written_is_refused_before_measuring(run, gpu, tmp_path):
    with pytest.raises(bench.UsageError, match="cannot be written: it is a folder"):
        run(report=tmp_path)
    assert not gpu.captured


def test_what_was_measured_is_printed_even_if_the_report_is_lost(project, gpu, capsys, monkeypatch):
    def lost(report, path):
        raise bench.UsageError("the disk is full")

    monkeypatch.setattr(bench.BenchReport, "write", lost)
    options = bench.Options(request=Request(EFFORT), report=project.root / "new.json")
    with pytest.raises(bench.UsageError, match="the disk is full"):
        bench.run(options, project.root, gpu)
    assert "1 measured, 0 WRONG BITS" in capsys.readouterr().out


def test_the_report_holds_all_options_but_paths(run, tmp_path):
    file = tmp_path / "bench.json"
    run(Request(EFFORT, seed=7, launches=True), report=file, strict=True, peak_bf16_tflops=2.0)
    held = json.loads(file.read_text())["options"]
    options = {option.name for option in main.commands["bench"].params}
    assert held.keys() == options - {"project", "list_cases", "report", "compare"}
    assert (held["seed"], held["launches"], held["strict"]) == (7, True, True)
    assert held["peak_bf16_tflops"] == 2.0
    assert held["attention_impl"] == "triton"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu(project):
    one_line(invoke(), "no CUDA GPU was found", "--list-cases")


def test_list_cases_needs_no_gpu(project):
    result = invoke("--list-cases")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0] == ["case", "claim", "shape", "note"]
    assert lines[1][:1] == ["attention"]
    assert lines[2] == ["halve", "halve", "tokens=3"]


def test_list_cases_of_some_names(project):
    result = invoke("--list-cases", "--cases", "halve")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[1:] == [["halve", "halve", "tokens=3"]]
    one_line(invoke("--list-cases", "--cases", "foo"), "--cases: 'foo' is unknown")


def test_usage_errors(project):
    one_line(invoke("--cases", "nope"), "'nope'", "known are attention, halve")
    one_line(invoke("--cases", ","), "--cases: ',' is not accepted")
    one_line(invoke("--cases", ""), "--cases: '' is not accepted")
    one_line(invoke("--against", "chain,"), "--against: 'chain,' is not accepted")
    one_line(invoke("--tokens", "1,x"), "--tokens", "'1,x'")
    one_line(invoke("--attention-seq-lens", "0"), "--attention-seq-lens")
    one_line(invoke("--against", "nope"), "--against", "absent, chain, library, compile")
    one_line(invoke("--repeat", "0"), "--repeat 0")
    one_line(invoke("--warmup", "-1"), "--warmup -1")
    one_line(invoke("--seed", "-1"), "--seed -1")
    one_line(invoke("--peak-bandwidth-gbs", "0"), "--peak-bandwidth-gbs")
    one_line(invoke("--peak-bf16-tflops", "inf"), "--peak-bf16-tflops")
    one_line(invoke("--project", "/"), "[tool.exactness]")
