"""`exactness verify NAME --which FILE`: the table, the verdict, the report, the exit status."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from exactness.arithmetic.hopper import Hopper
from exactness.arithmetic.mutants import Mutated, survey
from exactness.bits import Bits
from exactness.catalogue import Catalogue
from exactness.checks.base import bits_of
from exactness.checks.golden import GoldenCheck
from exactness.cli import main
from exactness.golden import GoldenStore
from exactness.project import Project
from exactness.which import Given, match

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference():
    """A reference of this project's catalogue, by its address."""
    return Catalogue(Project.find(ROOT)).reference


@pytest.fixture
def ask(tmp_path):
    """Save tensors and run the command on them; stdout, the report, the exit status."""

    def asked(name, *options, metadata=None, **tensors):
        file = tmp_path / "given.safetensors"
        save_file({key: each.contiguous() for key, each in tensors.items()}, file, metadata)
        arguments = ["verify", name, "--which", file, "--report", tmp_path, "--project", ROOT]
        result = CliRunner().invoke(main, [str(each) for each in (*arguments, *options)])
        report = tmp_path / "which.json"
        return result, json.loads(report.read_text()) if report.exists() else None

    return asked


@pytest.fixture
def rows():
    """bf16 rows of a width that is no power of two, and their weight."""
    torch.manual_seed(5)
    return {"x": torch.randn(12, 96).bfloat16(), "weight": torch.randn(96).bfloat16()}


def outputs(program, names, arithmetic=None, **arguments):
    """What a reference gives, as torch tensors by name."""
    results = (arithmetic or Hopper()).run(program, arguments)
    results = results if isinstance(results, tuple) else (results,)
    return {name: bits_of(each).torch() for name, each in zip(names, results, strict=True)}


def last_line(result):
    return [line for line in result.stdout.splitlines() if not line.startswith("report:")][-1]


def test_a_contract_is_named(ask, rows, reference):
    program = reference("rms_norm:rms_norm_cast_first")
    made = outputs(program, ("out", "out_f32"), eps=1e-6, **rows)
    result, report = ask("rms_norm", **rows, **made, metadata={"eps": "1e-6"})
    assert result.exit_code == 0, result.output
    assert last_line(result) == "explained by rms_norm_cast_first"
    assert "outputs compared: out, out_f32; eps=1e-06" in result.stdout
    assert "not compared: o_norm: does not name out_f32" in result.stdout
    assert report["explained_by"] == ["rms_norm_cast_first"]
    assert report["schema_version"] == 1
    compared = {each["contract"]: each for each in report["contracts"]}
    assert set(compared) == {"rms_norm", "rms_norm_cast_first", "rms_norm_weight_offset"}
    assert compared["rms_norm"]["mismatches"] > 0
    assert compared["rms_norm"]["outputs"]["out"]["verdict"] == "different"


def test_a_residual_brings_in_the_norms_that_add_one(ask, rows, reference):
    program = reference("rms_norm_residual:rms_norm_previous_precision")
    given = {**rows, "residual": torch.randn(12, 96)}
    made = outputs(program, ("out", "residual_out", "out_f32"), eps=1e-5, **given)
    result, report = ask("rms_norm", **given, **made, metadata={"eps": "1e-5"})
    assert result.exit_code == 0, result.output
    assert last_line(result) == "explained by rms_norm_previous_precision"
    assert "rms_norm_residual_rounded" in {each["contract"] for each in report["contracts"]}


def test_a_change_is_named_where_no_contract_fits(ask, rows, reference):
    program = reference("rms_norm:rms_norm")
    given = {**rows, "eps": 1e-5}
    (mutant,) = [
        mutant
        for mutant in survey(program, [given]).mutants()
        if mutant.name.endswith("mean_eps=fma(normal > normal) uncontracted")
    ]
    made = outputs(program, ("out", "out_f32"), Mutated(mutant), **given)
    result, report = ask("rms_norm", **rows, **made, metadata={"eps": "1e-5"})
    assert result.exit_code == 1, result.output
    assert last_line(result).startswith("explained by none; nearest is rms_norm: ")
    words = f"rms_norm with an fma taken apart into two roundings ({mutant.name})"
    assert words in result.stdout
    assert words in [each["text"] for each in report["single_changes"]["found"]]
    assert report["nearest"] == "rms_norm"
    assert report["apart"] is None


def test_a_wrong_parameter_is_named(ask, rows, reference):
    made = outputs(reference("rms_norm:o_norm"), ("out",), eps=1.0 + 2**-24 + 2**-50, **rows)
    result, _ = ask("o_norm", **rows, **made)
    assert result.exit_code == 1
    assert "eps=1e-05 (the default)" in result.stdout
    assert "o_norm with eps=1.0000000596046457" in result.stdout


def test_several_contracts_and_inputs_that_tell_them_apart(ask, rows, reference, tmp_path):
    """Rows of 1 and −1 have a root mean square of almost 1: nothing is left to round."""
    program = reference("rms_norm:rms_norm_cast_first")
    given = {"x": torch.ones(4, 64).bfloat16(), "weight": rows["weight"][:64]}
    made = outputs(program, ("out", "out_f32"), eps=0.0, **given)["out"]
    drawn = tmp_path / "drawn.safetensors"
    result, report = ask("rms_norm", "--set", "eps=0", "--distinguish", drawn, **given, out=made)
    assert result.exit_code == 0, result.output
    assert "these inputs do not tell them apart" in result.stdout
    assert {"rms_norm", "rms_norm_cast_first"} <= set(report["explained_by"])
    groups = report["apart"]["groups"]
    assert ["rms_norm", "o_norm"] in groups["names"]
    assert "rms_norm_cast_first differs from rms_norm = o_norm in" in result.stdout
    anew = load_file(drawn)
    again = outputs(program, ("out", "out_f32"), eps=0.0, **anew)
    result, _ = ask("rms_norm", "--set", "eps=0", **anew, **again)
    assert last_line(result) == "explained by rms_norm_cast_first"
    result, _ = ask("rms_norm", "--set", "eps=0", "--distinguish", drawn, **given, out=made)
    assert result.exit_code == 2
    assert "exists" in result.stderr


def test_one_contract_under_two_names(ask, rows, reference):
    made = outputs(reference("rms_norm:o_norm"), ("out",), eps=1e-5, **rows)
    result, report = ask("o_norm", **rows, **made)
    assert result.exit_code == 0
    assert "(for such inputs they may be one contract)" in last_line(result)
    assert report["apart"]["family"] is None
    assert report["apart"]["elements"] == report["apart"]["examples"] * 12 * 96


def test_wrong_shapes_name_the_tensor(ask, rows):
    result, report = ask("rms_norm", x=rows["x"], weight=rows["weight"][:95], out=-rows["x"])
    assert result.exit_code == 2
    assert report is None
    assert "claim rms_norm: weight: shape [95] does not fit; [n] is, with" in result.stderr
    assert "n = 96" in result.stderr


def test_usage_errors(ask, rows):
    given = {**rows, "out": -rows["x"]}
    for options, words in {
        ("--examples", "3"): "--examples does not go with --which",
        ("-k", "golden"): "-k does not go with --which",
        ("--set", "epsilon=1"): "--set epsilon: no such parameter; rms_norm has eps",
    }.items():
        result, _ = ask("rms_norm", *options, **given)
        assert result.exit_code == 2
        assert words in result.stderr
    result, _ = ask("rms_nrom", **given)
    assert "claim 'rms_nrom' is unknown" in result.stderr
    result, _ = ask("rms_norm_residual", **given)
    assert "needs 'residual'; the file has" in result.stderr


def test_recordings_are_explained_by_their_claims(tmp_path):
    """One recorded case of each claim; another contract may explain it as well."""
    project = Project.find(ROOT)
    catalogue = Catalogue(project)
    store = GoldenStore.of_folder(project.golden)
    recorded = [
        (entry, case)
        for entry in catalogue.entries
        for case in store.cases(tuple(entry.claim.golden))[:1]
    ]
    assert len(recorded) > 8
    for entry, case in recorded:
        tensors = case.load()
        arguments = GoldenCheck(entry, case).arguments(tensors)
        tensors |= {name: each for name, each in arguments.items() if isinstance(each, Bits)}
        said = [f"{name}={each}" for name, each in arguments.items() if name not in tensors]
        path = tmp_path / f"{entry.claim.name}.safetensors"
        save_file({name: bits.torch() for name, bits in tensors.items()}, path)
        found = match(catalogue, entry.claim.name, Given.read(path, said))
        assert entry.claim.name in [each.contract.name for each in found.explaining], case.key


def test_options_that_need_a_file():
    result = CliRunner().invoke(main, ["verify", "rms_norm", "--set", "eps=1"])
    assert result.exit_code == 2
    assert "--set and --distinguish need --which" in result.stderr
