"""The script that looks rows up in tables of their real size, on small ones."""

import importlib.util
import json
import sys

import pytest
import torch

from exactness.machines import choose


@pytest.fixture(scope="module")
def script(catalogue):
    path = catalogue.project.root / "scripts" / "check_oe_real_size.py"
    spec = importlib.util.spec_from_file_location("check_oe_real_size", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_small_tables(script, tmp_path, monkeypatch):
    result = tmp_path / "result.json"
    options = ["--rows", "30", "--width", "16", "--tokens", "1,20", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["check_oe_real_size.py", str(result), *options])
    assert script.main() == 0
    found = json.loads(result.read_text())
    assert found["kernels"] == "virtual Hopper (sm_90)"
    assert len(found["comparisons"]) == 12
    assert all(row["compared"] for row in found["comparisons"])
    assert sum(row["rows_here"] for row in found["comparisons"]) > 100


@pytest.mark.parametrize("row", [0, -1])
def test_a_wrong_row_is_seen(script, catalogue, row):
    setup = next(script.setups(30))
    checker = script.Checker(catalogue, choose("cpu"), setup, 16)
    checker._tables["table2"][row] = 3.0
    found = checker.lookups(20)
    assert found.kernel_differs == found.reference_differs > 0


def test_rows_a_power_of_two_apart_differ(script):

    rows = torch.tensor([0, *(1 << bit for bit in range(25))])
    made = script.pattern(0, rows, 512)
    assert (made[1:] != made[0]).sum(1).min() > 500
    assert made.view(torch.bfloat16).isfinite().all()
