"""`verify --which` takes every dump that kernel and reference take."""

import pytest
import torch
from safetensors.torch import save_file

from exactness.arithmetic.hopper import Hopper
from exactness.checks.base import bits_of
from exactness.which import Given, match


@pytest.fixture
def explained(catalogue, kernel, tmp_path):
    """The contracts that explain what a kernel gives for arguments, which it must take."""

    def explaining(name, settings=(), **arguments):
        (entry,) = catalogue.select((name,))
        claim = entry.claim
        tensors = {k: v for k, v in arguments.items() if isinstance(v, torch.Tensor)}
        results = Hopper().run(catalogue.reference(claim.reference), arguments)
        results = results if isinstance(results, tuple) else (results,)
        made = {k: bits_of(v).torch() for k, v in zip(claim.output_names, results, strict=True)}
        path = tmp_path / "dump.safetensors"
        save_file({**tensors, **made}, path)
        kernel(name)(**arguments)
        found = match(catalogue, name, Given.read(path, settings))
        return [each.contract.name for each in found.explaining]

    return explaining


def heads(tokens, count, dim, dtype=torch.bfloat16):
    return torch.randn(tokens, count, dim).to(dtype)


@pytest.mark.parametrize("rows", [(5, 6, 7, 8), (8, 0, 3, 3), (2, 2, 2, 2)])
def test_any_split_of_the_tables(explained, rows):
    tables = {f"table{b}": torch.randn(n, 8).bfloat16() for b, n in enumerate(rows)}
    ids = torch.arange(-1, 8)[:, None].repeat(1, 4)
    assert explained("oe_lookup_concat", ids=ids, **tables) == ["oe_lookup_concat"]
    tokens = {name: torch.arange(9) * 7 + 1 for name in ("ids", "g2", "g3")}
    hashed = {"token_vocabulary": 65536, "vocabularies": (9, 11, 13, 15)}
    settings = ["token_vocabulary=65536", "vocabularies=[9,11,13,15]"]
    found = explained("oe_hash_lookup_concat", settings, **tokens, **tables, **hashed)
    assert found == ["oe_hash_lookup_concat"]


@pytest.mark.parametrize("positions", [[0, 1, 2, 3, 4, 4, 3, 2, 1], [0, 1, 2, -1, -1, 5, 3, 2, 1]])
def test_a_table_shorter_than_the_batch_and_a_padded_batch(explained, positions):
    given = {"q": heads(9, 2, 64), "k": heads(9, 1, 64), "positions": torch.tensor(positions)}
    table = torch.randn(5, 32)
    assert explained("rope_yarn_partial", **given, cos_sin=table) == ["rope_yarn_partial"]
    own = {"query_positions": given["positions"].flip(0)}
    name = "rope_yarn_partial_query_positions"
    assert name in explained(name, **given, **own, cos_sin=table)
    own = {"last_index": torch.tensor([0, 8, 9, -1, 1, 2, 3, 4, 5])}
    name = "rope_yarn_partial_last_index"
    assert name in explained(name, **given, **own, cos_sin=table)


@pytest.mark.parametrize(("head_dim", "rope_dim"), [(64, 12), (64, 64), (16, 2), (256, 62)])
def test_any_rope_dim_up_to_head_dim(explained, head_dim, rope_dim):
    positions = torch.tensor([0, 4, -1, 5, 2, 2])
    given = {"q": heads(6, 3, head_dim), "k": heads(6, 2, head_dim), "positions": positions}
    given |= {"weight": torch.randn(head_dim), "cos_sin": torch.randn(5, rope_dim), "eps": 1e-5}
    assert explained("k_rms_norm_rope", **given) == ["k_rms_norm_rope"]
