"""rope_yarn_partial: its YaRN table, in place in slices, queries of their own, bad input."""

import hashlib
import importlib
import math

import pytest
import torch
from safetensors import safe_open

NAME = "rope_yarn_partial"
QUERIES = "rope_yarn_partial_query_positions"
SELECTED = "rope_yarn_partial_last_index"


@pytest.fixture(scope="module")
def yarn(catalogue):
    """The module that builds the table."""
    (entry,) = catalogue.select((NAME,))
    package = entry.claim.kernel.__module__.rpartition(".")[0]
    return importlib.import_module(f"{package}._yarn")


@pytest.fixture(scope="module")
def table(yarn):
    """WeLMv4's table of 262,144 positions."""
    try:
        return yarn.yarn_cos_sin()
    except RuntimeError as error:  # what it says where torch's cosine is another one
        pytest.skip(str(error))


def arguments(tokens=5, q_heads=6, k_heads=1, head_dim=256, rope_dim=64, rows=50, **given):
    generator = torch.Generator().manual_seed(tokens)
    return {
        "q": torch.randn(tokens, q_heads, head_dim, generator=generator).bfloat16(),
        "k": torch.randn(tokens, k_heads, head_dim, generator=generator).bfloat16(),
        "positions": torch.randint(0, rows, (tokens,), generator=generator),
        "cos_sin": torch.randn(rows, rope_dim, generator=generator),
        **given,
    }


@pytest.mark.parametrize(
    ("file", "case"), [("welm", "rope/11_rn"), ("welm", "rope/8_wide"), ("f32", "rope_f32/16")]
)
def test_the_table_has_the_recorded_rows(table, catalogue, file, case):
    path = catalogue.project.golden / f"{file}.safetensors"
    with safe_open(path, "pt") as recorded:
        rows = recorded.get_tensor(f"{case}/cos_sin")
        positions = recorded.get_tensor(f"{case}/positions")
    assert torch.equal(table[positions].view(torch.int32), rows.view(torch.int32))


def test_a_shorter_table_is_the_beginning_of_a_longer_one(yarn, table):
    assert torch.equal(yarn.yarn_cos_sin(1001), table[:1001])
    assert yarn.yarn_cos_sin(0).shape == (0, 64)
    assert yarn.yarn_cos_sin(3, 2).shape == (3, 2)
    assert torch.equal(table[0], torch.cat([torch.ones(32), torch.zeros(32)]))


def test_a_cpu_with_other_cosines_is_refused(yarn, monkeypatch):
    yarn._check_this_cpu.cache_clear()
    monkeypatch.setattr(yarn, "_SAMPLE_SHA256", hashlib.sha256().hexdigest())
    with pytest.raises(RuntimeError, match="gives other cosines and sines than those of the"):
        yarn.yarn_cos_sin(3)


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "positions": (-1, 2.5, True, 10**400),
        "rope_dim": (63, 0, 64.0),
        "theta": (1.0, 0, -3.0, math.nan, math.inf, 10**400),
        "scaling": (0.0, -8.0, 1e-320, math.nan, "8"),
        "original_positions": (0, 32_768.0, 10**400),
        "beta_fast": (0.0, 1e-308, 1e308),
        "beta_slow": (0, -1.0, math.inf),
    }.items(),
)
def test_arguments_of_a_table_are_refused_by_name(yarn, name, values):
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: .* accepted"):
            yarn.yarn_cos_sin(**{"positions": 3, name: value})


def test_the_whole_range_of_positions(equals_reference, table):
    positions = torch.tensor([0, 1, 4095, 131_071, 262_143])
    before = table[positions].clone()
    given = arguments() | {"positions": positions, "cos_sin": table}
    first = equals_reference(
        NAME, **{k: v.clone() for k, v in given.items() if k != "cos_sin"}, cos_sin=table
    )
    second = equals_reference(NAME, **given)
    assert torch.equal(first["q_out"], second["q_out"])
    assert torch.equal(table[positions], before)


@pytest.mark.parametrize("heads", [(6, 1), (1, 3), (20, 20), (0, 2), (3, 0)])
@pytest.mark.parametrize("dims", [(256, 64), (64, 64), (2, 2), (40, 38), (130, 66), (96, 32)])
def test_heads_and_dimensions(equals_reference, heads, dims):
    given = arguments(3, *heads, *dims)
    kept = given["q"][..., : dims[0] - dims[1]].clone()
    equals_reference(NAME, **given)
    assert torch.equal(given["q"][..., : dims[0] - dims[1]], kept)


def test_slices_of_one_projection(equals_reference):
    projected = torch.randn(4, 8 * 256).bfloat16()
    before = projected.clone()
    given = arguments(4) | {"q": projected[:, :1536], "k": projected[:, 1536:1792]}
    equals_reference(NAME, **given, head_dim=256)
    assert torch.equal(projected[:, 1792:], before[:, 1792:])
    assert not torch.equal(projected, before)


def test_strided_and_misaligned(equals_reference):
    given = arguments(4)
    wide = torch.randn(4, 300, 7).bfloat16()
    equals_reference(NAME, **given | {"q": wide.transpose(1, 2)[..., 3:259]})
    equals_reference(NAME, **given | {"k": torch.randn(4 * 256 + 1)[1:].bfloat16().view(4, 1, 256)})
    equals_reference(NAME, **given | {"cos_sin": torch.randn(50, 67)[:, 1:65]})
    equals_reference(
        NAME,
        **arguments(1)
        | {"q": torch.randn(256).bfloat16().as_strided((1, 1, 256), (2**31, 2**31, 1))},
    )


def test_queries_of_their_own(equals_reference):
    given = arguments(7)
    for rows in (0, 1, 3, 9):
        q = torch.randn(rows, 6, 256).bfloat16()
        positions = torch.randint(0, 50, (rows,))
        equals_reference(QUERIES, **given | {"q": q.clone(), "query_positions": positions})
        equals_reference(SELECTED, **given | {"q": q, "last_index": positions % 7})


def test_selected_queries_take_the_position_of_their_token(kernel):
    given, whole = arguments(7), arguments(7)
    index = torch.tensor([6, 2])
    kernel(NAME)(**whole)
    q = arguments(7)["q"][index]
    kernel(NAME)(**given | {"q": q}, last_index=index)
    assert torch.equal(q, whole["q"][index])
    assert torch.equal(given["k"], whole["k"])


@pytest.mark.parametrize("position", [-1, 50, 2**32 + 3, 2**40, -(2**63)])
def test_a_position_without_a_row_gives_nan(equals_reference, position):
    given = arguments(3)
    given["positions"][1] = position
    equals_reference(NAME, **given)
    assert given["q"][1, :, 192:].isnan().all()
    assert given["q"][[0, 2]].isfinite().all()
    assert given["q"][1, :, :192].isfinite().all()


def test_a_token_that_does_not_exist_gives_nan(equals_reference):
    given = arguments(4)
    given["positions"][3] = 50
    index = torch.tensor([0, 4, -1, 3])
    equals_reference(SELECTED, **given, last_index=index)
    assert given["q"][1:, :, 192:].isnan().all()
    assert given["q"][0].isfinite().all()


def test_query_positions_without_a_row_give_nan(equals_reference):
    given = arguments(3) | {"query_positions": torch.tensor([49, 50, -1])}
    equals_reference(QUERIES, **given)
    assert given["q"][1:, :, 192:].isnan().all()
    assert given["q"][0].isfinite().all()


def test_a_table_with_fewer_rows_than_tokens(equals_reference):
    equals_reference(NAME, **arguments(9, rows=5))
    none = arguments(3) | {"cos_sin": torch.zeros(0, 64)}
    equals_reference(NAME, **none)
    assert none["k"][..., 192:].isnan().all()


def test_nothing_to_rotate(kernel):
    kernel(NAME)(**arguments(0))
    kernel(NAME)(**arguments(3, 0, 0))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": torch.ones(5, 6, 256).double()}, TypeError, "q: dtype torch.float64"),
        ({"k": torch.ones(5, 1, 256)}, TypeError, "k: dtype torch.float32 .* torch.bfloat16 is"),
        (
            {"q": torch.ones(5, 1536).bfloat16()},
            ValueError,
            r"q: shape \(5, 1536\) with head",
        ),
        ({"head_dim": 128}, ValueError, r"q: shape \(5, 6, 256\) with head_dim=128"),
        ({"head_dim": 0.5}, TypeError, "head_dim: got float; an int or None is accepted"),
        ({"k": torch.ones(5, 1, 128).bfloat16()}, ValueError, "k: head_dim 128 .* q has 256"),
        ({"k": torch.ones(4, 1, 256).bfloat16()}, ValueError, "positions: shape .* token of k, 4"),
        ({"cos_sin": torch.ones(50, 64).bfloat16()}, TypeError, "cos_sin: dtype torch.bfloat16"),
        ({"cos_sin": torch.ones(50, 63)}, ValueError, r"cos_sin: shape \(50, 63\) .* even"),
        ({"cos_sin": torch.ones(50, 300)}, ValueError, "rope_dim from 2 to head_dim=256"),
        ({"cos_sin": torch.ones(64, 50).T}, ValueError, r"cos_sin: strides \(1, 50\)"),
        ({"positions": torch.ones(5)}, TypeError, "positions: dtype torch.float32"),
        ({"positions": torch.ones(5).int()}, TypeError, "positions: dtype torch.int32"),
        ({"positions": torch.zeros(10).long()[::2]}, ValueError, "positions: .* with stride 2"),
        ({"positions": torch.ones(5).long().to("meta")}, ValueError, "positions: device meta"),
        ({"rows_by": "row"}, ValueError, "rows_by: 'row' .* 'position' and 'token' are"),
        ({"rows_by": "token", "cos_sin": torch.ones(4, 64)}, ValueError, "4 rows for 5 tokens"),
        ({"q": torch.ones(1, 1, 256).bfloat16().expand(5, 6, 256)}, ValueError, "not overlap"),
        (
            {"q": torch.ones(3, 6, 256).bfloat16()},
            ValueError,
            "q: 3 tokens .* k has 5, and",
        ),
        ({"query_positions": torch.ones(4).long()}, ValueError, "each token of q, 5"),
        (
            {"query_positions": torch.ones(5).long(), "last_index": torch.ones(5).long()},
            ValueError,
            "last_index: not accepted beside query_positions",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_named(kernel, change, error, message):
    with pytest.raises(error, match=message):
        kernel(NAME)(**(arguments() | change))


def test_memory_that_q_and_k_share_is_refused(kernel):
    buffer = torch.ones(5 * 7 * 256).bfloat16()
    x = buffer[: 5 * 6 * 256].view(5, 6, 256)
    for start in (0, 256, 5 * 6 * 256 - 1):
        k = buffer[start:].as_strided((5, 1, 256), (256, 256, 1), start)
        with pytest.raises(ValueError, match="k: memory of q, which is written in place"):
            kernel(NAME)(**arguments() | {"q": x, "k": k})


def test_heads_of_one_tensor_share_no_memory(equals_reference):
    heads = torch.randn(5, 7, 256).bfloat16()
    equals_reference(NAME, **arguments() | {"q": heads[:, :6], "k": heads[:, 6:]})
