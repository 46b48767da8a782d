"""`exactness verify NAME --which FILE`: the table, the verdict, the report, the exit status."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from exactness.arithmetic import cast, dot
from exactness.arithmetic.hopper import Hopper
from exactness.arithmetic.mutants import Mutated, survey
from exactness.bits import Bits
from exactness.catalogue import Catalogue
from exactness.checks.base import bits_of
from exactness.checks.golden import GoldenCheck
from exactness.cli import main
from exactness.commands.which import mutation_in_words
from exactness.formats import f32, tf32
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


def test_parameters_that_the_kernel_refuses(ask, rows):
    norm = {**rows, "out": -rows["x"]}
    square = {"x": torch.randn(2, 4, 4), "out": torch.randn(2, 4, 4)}
    clamp = {"gate": rows["x"], "up": -rows["x"], "out": rows["x"].clone()}
    grams = {name: torch.arange(5) for name in ("ids", "g2", "g3")}
    hashed = {**grams, "out": torch.zeros(5, 4, dtype=torch.int64)}
    experts = {
        "scores": torch.randn(3, 128),
        "bias": torch.zeros(128),
        "ids": torch.zeros(3, 4, dtype=torch.int64),
    }
    for claim, tensors, setting, words in (
        ("swiglu_clamp", clamp, "limit=-3", "limit: -3.0 is not accepted; a number above 0 is"),
        ("sinkhorn", square, "iterations=0", "iterations: 0 is not accepted; 1 or more is"),
        ("sinkhorn", square, "eps=1e999", "eps: inf is not accepted"),
        ("oe_hash", hashed, "vocabularies=[0,1,2,3]", "vocabularies: 0 is not accepted; 1 to"),
        ("oe_hash", hashed, "token_vocabulary=0", "token_vocabulary: 0 is not accepted; 1 to"),
        ("expert_bias_topk", experts, "topk=0", "topk: 0 is not accepted; 1 to 32 is"),
        ("o_norm", norm, f"eps={10**400}", "eps: 10000"),
        ("o_norm", norm, f"eps={'1' * 5000}", "eps: '1111"),
    ):
        result, report = ask(claim, "--set", setting, **tensors)
        assert result.exit_code == 2, (setting, result.output)
        (line,) = result.stderr.splitlines()
        assert f"claim {claim}: {words}" in line
        assert len(line) < 300
        assert report is None


def test_any_eps_that_the_kernel_accepts_is_judged(ask, rows):
    for eps in ("NaN", "-1", "0.125"):
        result, _ = ask("o_norm", "--set", f"eps={eps}", **rows, out=-rows["x"])
        assert result.exit_code == 1, result.output


def test_a_kernel_that_does_not_name_a_parameter_is_none_the_wiser(small_project, tmp_path):
    """On empty tensors it fails, whatever the parameters are."""
    fault = "(x.float() / (0 if not x.numel() else 1) * torch"
    small_project.edit("ours/halve.py", "(x.float() * torch", fault)
    file = tmp_path / "given.safetensors"
    x = torch.randn(3, 5).bfloat16()
    save_file({"x": x, "out": (x.float() * 0.25).bfloat16() + 1.0}, file)
    arguments = ["verify", "halve", "--which", file, "--project", small_project.root]
    result = CliRunner().invoke(main, [*map(str, arguments), "--set", "scale=0.25"])
    assert result.exit_code == 0, result.output
    assert last_line(result).startswith("explained by")


def test_outputs_that_do_not_fit_name_what_decides(ask, rows):
    result, _ = ask("o_norm", **rows)
    assert result.exit_code == 2
    assert "claim o_norm: the file holds none of the outputs (out); it has weight, x" in (
        result.stderr
    )
    ids = torch.zeros(3, 4, dtype=torch.int64)
    result, _ = ask("expert_bias_topk", scores=torch.randn(3, 128), bias=torch.zeros(128), ids=ids)
    assert result.exit_code == 2
    words = "ids: shape [3, 4] in the file; the contract gives [3, 10] with topk=10 (the default)"
    assert words in result.stderr
    assert "--set" in result.stderr


def test_a_report_that_cannot_be_written_is_refused_first(ask, rows, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    for option in ("--report", "--distinguish"):
        result, _ = ask("o_norm", option, file / "new.safetensors", **rows, out=-rows["x"])
        assert result.exit_code == 2
        assert "cannot be written: Not a directory" in result.stderr
        assert result.stdout == ""
    assert file.read_text() == "kept"


def product(a, b, c):
    """With the mutations of tensor cores, those of tf32 among them."""
    return dot(cast(a, tf32), cast(b, tf32), cast(c, f32))


def surveyed():
    """The names of the mutations of all references, and of a product."""
    catalogue = Catalogue(Project.find(ROOT))
    ones = {"a": np.ones((2, 64)), "b": np.ones((64, 2)), "c": np.ones((2, 2))}
    found = [survey(product, [{name: each.astype(np.float32) for name, each in ones.items()}])]
    for claim in (entry.claim for entry in catalogue.entries):
        example = claim.inputs.example(claim.name, family="specials", **claim.cases[0])
        program = catalogue.reference(claim.reference)
        tensors = {name: Bits.of(draw.tensor("cpu")) for name, draw in example.tensors.items()}
        found.append(survey(program, [{**tensors, **example.parameters}]))
    mutants = [mutant for each in found for mutant in each.mutants()]
    return {mutant.mutation.name for mutant in mutants if mutant.mutation}


def test_every_mutation_has_a_phrase():
    names = surveyed() | {"boundary", "constant_rounded_twice", "contract_right"}
    assert {"toward_zero", "32_bits", "64_bits", "signed", "swapped_0_2", "fma_chain"} <= names
    assert {name for name in names if " " not in mutation_in_words(name)} == set()
    assert mutation_in_words("order=strided by 32") == "the sum in another order, strided by 32"
    assert mutation_in_words("step=4") == "steps of 4 products"


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
