"""`exactness reveal`: what it prints and writes, and its exit statuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from exactness.cli import main

ROOT = Path(__file__).resolve().parents[2]
PTX = ROOT / "tests" / "engine" / "reveal" / "data" / "sums.ptx"

FUNCTIONS = """
import numpy as np

calls = 0


def in_order(x):
    global calls
    calls += 1
    return np.add.accumulate(x)[-1]


def backwards(x):
    return in_order(x[::-1])
"""


@pytest.fixture
def run():
    """Run `exactness reveal`."""

    def invoke(*arguments):
        return CliRunner().invoke(main, ["reveal", *map(str, arguments)])

    return invoke


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """A module of one's own, with two sums that count their calls."""
    (tmp_path / "sums_of_a_user.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    yield "sums_of_a_user"
    sys.modules.pop("sums_of_a_user", None)


def one_line(result, *words):
    """The result is a usage error: one line on stderr that holds the words."""
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    for word in words:
        assert word in line


def test_a_tree_is_named_and_drawn(run):
    result = run("numpy.sum", "--n", 100, "--confirm", 5)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:3] == [
        "numpy.sum adds 100 f32 terms in the order numpy",
        "99 additions, depth 18; 236 calls",
        "confirmed on 5 random rows, added in f32",
    ]
    assert lines[3] == "+ …, then a96 … a99"
    assert lines[-1].endswith("└─+ a7 … a95 by 8")


def test_long_drawings_are_cut(run):
    result = run("numpy.sum", "--n", 100, "--lines", 3)
    assert result.output.splitlines()[-1] == (
        "… 13 more lines: --lines 0 shows all, --svg draws them"
    )
    assert "more lines" not in run("numpy.sum", "--n", 100, "--lines", 0).output


def test_callable_of_ones_own_is_called_as_often_as_published(run, functions):
    result = run(f"{functions}:in_order", "--n", 40, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "in the order sequential" in result.output
    assert sys.modules[functions].calls == 39
    run(f"{functions}.backwards", "--n", 40, "--device", "cpu")
    assert sys.modules[functions].calls == 39 + 40 * 39 // 2


def test_two_trees_are_compared(run, functions, tmp_path):
    cpu = ("--n", 8, "--device", "cpu")
    same = run(f"{functions}:in_order", *cpu, "--against", "sequential")
    assert same.exit_code == 0, same.output
    assert same.output.splitlines()[-1] == "the same tree as sequential"
    other = run("numpy.sum", *cpu, "--against", f"{functions}:backwards")
    assert other.exit_code == 1
    assert other.output.splitlines()[-3:] == [
        "they part at the sum of a0 … a7 (3 of 7 partial sums are the same):",
        "  numpy.sum: (a0 … a3) + (a4 … a7)",
        f"  {functions}:backwards: (a0) + (a1 … a7)",
    ]
    file = tmp_path / "tree.json"
    assert run("numpy.sum", "--n", 8, "--json", file).exit_code == 0
    assert run("numpy.sum", "--n", 8, "--against", file).exit_code == 0
    one_line(run("numpy.sum", "--n", 9, "--against", file), "has 8 terms, not 9")


def test_files(run, tmp_path):
    dot, svg, found = (tmp_path / f"out/tree.{ending}" for ending in ("dot", "svg", "json"))
    result = run("torch.sum", "--n", 12, "--dot", dot, "--svg", svg, "--json", found)
    assert result.exit_code == 0, result.output
    assert dot.read_text().startswith('digraph "torch.sum, 12 f32 terms"')
    assert svg.read_text().startswith("<svg")
    stored = json.loads(found.read_text())
    assert (stored["target"], stored["n"], len(stored["children"])) == ("torch.sum", 12, 11)
    assert stored["environment"]["packages"]["torch"]


def test_a_kernel_of_the_catalogue(run):
    result = run("qnorm", "--n", 96, "--size", "rows=40", "--against", "halving", "--project", ROOT)
    assert result.exit_code == 0, result.output
    assert "qnorm adds 96 bf16 terms in the order halving" in result.output


def test_an_entry_of_ptx(run):
    address = f"{PTX}:backwards"
    launch = ("--rows", 8, "--block", 1, "--args", "x,ones,out,n")
    result = run(address, "--n", 20, *launch, "--against", "reverse", "--confirm", 8)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1:] == [
        "19 additions, depth 19; 33 calls for 190 probes",
        "confirmed on 8 random rows, added in f32",
        "the same tree as reverse",
    ]
    one_line(run(address, "--n", 20), "LaunchError", "3 arguments")
    one_line(run(f"{PTX}:nope"), "backwards, norm")
    one_line(run("nope.ptx:k"), "cannot be read")


def test_products_and_formats(run):
    arguments = ("--n", 40, "--rows", 6, "--columns", 4, "--format", "bf16", "--confirm", 6)
    result = run("torch.nn.functional:linear", *arguments, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "linear adds 40 bf16 terms" in result.output
    assert "added in f32" in result.output


def test_usage_errors(run, tmp_path):
    one_line(run("math.fsum"), "no order of additions")
    one_line(run("numpy.max"), "numpy.max is no sum of 32 terms")
    one_line(run("nope", "--project", ROOT), "claim 'nope' is unknown")
    one_line(run("nope", "--project", "/"), "[tool.exactness]")
    one_line(run("sinkhorn", "--project", ROOT), "no sum that can be probed")
    one_line(run("qnorm", "--size", "rows", "--project", ROOT), "NAME=NUMBER")
    one_line(run("numpy.sum", "--format", "f8"), "format 'f8' is unknown")
    one_line(run("torch.sum", "--format", "e5m2"), "f64, f32, f16 and bf16 are")
    one_line(run("numpy.sum", "--format", "bf16"), "--format f32")
    one_line(run("numpy.sum", "--against", "strided:0"), "order 'strided:0' is unknown")
    one_line(run("numpy.sum", "--against", tmp_path / "no.json"), "cannot be read")
    one_line(run("numpy.sum", "--rows", 0), "rows: 0 is not accepted")
    assert run("numpy.sum", "--n", 0).exit_code == 2
    assert run("numpy.sum", "--kind", "nope").exit_code == 2
