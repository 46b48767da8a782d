"""oe_lookup_concat, the hash in front of it and both in one: oracles, splits, bad input."""

import pytest
import torch
import torch.nn.functional as F

LOOKUP, HASH, FUSED = "oe_lookup_concat", "oe_hash", "oe_hash_lookup_concat"
VOCABULARIES = (40, 44, 48, 52)
TOKENS = 151936


def tables(width=24, vocabularies=VOCABULARIES):
    generator = torch.Generator().manual_seed(width)
    return [torch.randn(rows, width, generator=generator).bfloat16() for rows in vocabularies]


def named(parts):
    return {f"table{branch}": table for branch, table in enumerate(parts)}


def ids_of(tokens, vocabularies=VOCABULARIES):
    generator = torch.Generator().manual_seed(tokens)
    return torch.stack([torch.randint(v, (tokens,), generator=generator) for v in vocabularies], 1)


def ngrams(tokens):
    """ids, g2 and g3 of a text: three views of one stream."""
    stream = torch.randint(TOKENS, (tokens + 2,), generator=torch.Generator().manual_seed(tokens))
    return {"ids": stream[2:], "g2": stream[1:-1], "g3": stream[:-2]}


def embedding(ids, parts, starts):
    """What torch gives: masked ids, `embedding`, zeros, `cat`."""
    found = []
    for branch, (part, start) in enumerate(zip(parts, starts, strict=True)):
        local = ids[:, branch].long() - start
        elsewhere = (local < 0) | (local >= part.shape[0])
        rows = F.embedding(local.masked_fill(elsewhere, 0), part)
        found.append(rows.masked_fill(elsewhere[:, None], 0))
    return torch.cat(found, dim=1)


def bucket(token, g2, g3, vocabulary, branch, rows):
    """The rule in unbounded integers, reduced at the end of each step."""
    number = token + g2 * vocabulary + (g3 * vocabulary**2 if branch > 1 else 0)
    return number % 2**32 * 2654435761 % 2**32 % rows


@pytest.mark.parametrize("width", [1, 8, 24, 129, 512, 513])
def test_equals_the_torch_expression(equals_reference, width):
    parts, ids = tables(width), ids_of(9) - 20
    for starts in [(0, 0, 0, 0), (3, 0, 7, 25)]:
        out = equals_reference(LOOKUP, ids=ids, **named(parts), starts=starts)
        assert torch.equal(out.view(torch.int16), embedding(ids, parts, starts).view(torch.int16))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_together_hold_every_row_once(equals_reference, ranks):
    whole, ids = tables(), ids_of(33)
    parts = zip(*(table.chunk(ranks) for table in whole), strict=True)
    total = torch.zeros(33, 96).bfloat16()
    for rank, part in enumerate(parts):
        starts = [rank * table.shape[0] for table in part]
        total += equals_reference(LOOKUP, ids=ids, **named(part), starts=starts)
    assert torch.equal(total, embedding(ids, whole, (0, 0, 0, 0)))


def test_any_split_and_empty_parts(equals_reference):
    parts, ids = tables(), ids_of(7)
    uneven = [parts[0][:0], parts[1][:1], parts[2][5:], parts[3]]
    out = equals_reference(LOOKUP, ids=ids, **named(uneven), starts=(0, 0, 5, 0))
    assert (out[:, :24].view(torch.int16) == 0).all()
    empty = {"ids": ids[:0], **named(parts)}
    assert equals_reference(LOOKUP, **empty).shape == (0, 96)
    assert equals_reference(FUSED, **fused(0)).shape == (0, 96)
    none = equals_reference(HASH, **ngrams(0), token_vocabulary=3, vocabularies=(1, 1, 1, 1))
    assert none.shape == (0, 4)
    thin = [table[:, :0] for table in parts]
    assert equals_reference(LOOKUP, ids=ids, **named(thin)).shape == (7, 0)


def test_ids_far_outside_give_zeros(equals_reference):
    ids = torch.tensor([2**63 - 1, -(2**63), 2**32, 2**32 + 3, 2**31, -(2**31), -1, 40, 39, 0])
    ids = ids[:, None].expand(10, 4)
    for starts in [(0, 0, 0, 0), (2**32 - 1, 2**31, 1, 0)]:
        out = equals_reference(LOOKUP, ids=ids, **named(tables(8)), starts=starts)
        assert (out[:6, 24:] == 0).all()
    assert (out[-2, 16:24] != 0).any()


def test_parts_around_the_limits_of_32_bits(equals_reference):
    """Neither the end of a part nor the distance to its first row wraps."""
    starts = (2**31 - 4, 2**31 - 40, 2**32 - 1, 2**32 - 5)
    rows = torch.tensor(starts) + torch.arange(-1, 53)[:, None]
    out = equals_reference(LOOKUP, ids=rows, **named(tables(8)), starts=starts)
    for branch, vocabulary in enumerate(VOCABULARIES):
        found = (out[:, 8 * branch : 8 * branch + 8] != 0).any(dim=1)
        assert found.tolist() == [0 <= row < vocabulary for row in range(-1, 53)]


@pytest.fixture
def far_apart(tmp_path):
    """Make a tensor whose elements lie far apart, in a file that has only the pages in use."""

    def make(values, strides):
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        path.touch()
        last = sum((size - 1) * step for size, step in zip(values.shape, strides, strict=True))
        spread = torch.from_file(str(path), shared=True, size=last + 1, dtype=values.dtype)
        return spread.as_strided(values.shape, strides).copy_(values)

    return make


@pytest.mark.parametrize("strides", [(2**31 + 64, 1), (1, 2**31 + 64), (2**30, 1)])
def test_tables_of_more_than_2_31_elements(equals_reference, far_apart, strides):
    parts = tables(3, (4, 4, 4, 4))
    parts[2] = far_apart(parts[2], strides)
    ids = torch.tensor([0, 1, 2, 3, 4])[:, None].expand(5, 4)
    out = equals_reference(LOOKUP, ids=ids, **named(parts))
    assert (out[:4] != 0).all()
    equals_reference(FUSED, **fused(9, **named(parts)))


@pytest.mark.parametrize("strides", [(2**31 + 64, 1), (1, 2**30)])
def test_ids_that_lie_far_apart(equals_reference, far_apart, strides):
    equals_reference(LOOKUP, ids=far_apart(ids_of(2), strides), **named(tables()))


def test_the_bits_of_special_values_are_copied(kernel):
    patterns = torch.tensor([0x8000, 0x7F80, 0xFF80, 0x0001, 0x807F, 0x7F7F]).to(torch.int16)
    part = patterns.view(torch.bfloat16)[None]
    out = kernel(LOOKUP)(ids=torch.zeros(1, 4, dtype=torch.int64), **named([part] * 4))
    assert torch.equal(out.view(torch.int16), patterns.repeat(4)[None])


def test_layouts(equals_reference):
    parts, ids = tables(), ids_of(9)
    equals_reference(LOOKUP, ids=ids.t().contiguous().t(), **named(parts))
    equals_reference(LOOKUP, ids=ids.int(), **named(parts))
    equals_reference(LOOKUP, ids=ids[::2], **named([part[:, 1::2] for part in parts]))
    equals_reference(LOOKUP, ids=ids[:1].expand(9, 4), **named([part[1:, 3:] for part in parts]))
    columns = [part.t().contiguous().t() for part in parts]
    equals_reference(LOOKUP, ids=ids, **named(columns))
    equals_reference(LOOKUP, ids=ids, **named([parts[0], columns[1], parts[2][::2], parts[3]]))
    equals_reference(LOOKUP, ids=ids, **named([part[:1].expand(9, 24) for part in parts]))


@pytest.mark.parametrize("vocabulary", [1, 65536, TOKENS, 2**31 - 1, 2**31, 2**32 - 1])
def test_the_hash_is_the_rule_in_unbounded_integers(equals_reference, vocabulary):
    grams = ngrams(50)
    grams["g2"] = grams["g2"] - 100
    rows = (16000008, 1, 2**32 - 1, 2**31)
    out = equals_reference(HASH, **grams, token_vocabulary=vocabulary, vocabularies=rows)
    for row, token, g2, g3 in zip(out.tolist(), *(x.tolist() for x in grams.values()), strict=True):
        assert row == [bucket(token, g2, g3, vocabulary, b, rows[b]) for b in range(4)]


def test_known_buckets(kernel):
    """By hand: 1 + 2 · 10 = 21 and 21 + 3 · 100 = 321, times 2654435761 modulo 2^32."""
    token = {"ids": torch.tensor([1]), "g2": torch.tensor([2]), "g3": torch.tensor([3])}
    out = kernel(HASH)(**token, token_vocabulary=10, vocabularies=(2**32 - 1, 1000, 2**32 - 1, 7))
    assert out.tolist() == [[4203543429, 429, 1670354673, 1]]


def test_only_32_bits_of_a_token_count(equals_reference):
    same = []
    for shift in (0, 2**32, -(2**32)):
        grams = {name: tokens + shift for name, tokens in ngrams(5).items()}
        same.append(equals_reference(HASH, **grams, token_vocabulary=7, vocabularies=VOCABULARIES))
    assert torch.equal(same[0], same[1])
    assert torch.equal(same[0], same[2])
    narrow = {name: tokens.int() for name, tokens in ngrams(5).items()}
    out = equals_reference(HASH, **narrow, token_vocabulary=7, vocabularies=VOCABULARIES)
    assert torch.equal(same[0], out)


def fused(tokens, **given):
    sizes = {"token_vocabulary": TOKENS, "vocabularies": VOCABULARIES}
    return {**ngrams(tokens), **named(tables()), **sizes, **given}


def test_one_launch_equals_two(kernel, equals_reference):
    given = fused(65, starts=(0, 20, 3, 0))
    one = equals_reference(FUSED, **given)
    grams = {name: given[name] for name in ("ids", "g2", "g3", "token_vocabulary", "vocabularies")}
    buckets = kernel(HASH)(**grams)
    two = kernel(LOOKUP)(ids=buckets, **named(tables()), starts=(0, 20, 3, 0))
    assert torch.equal(one.view(torch.int16), two.view(torch.int16))
    assert (one != 0).any(dim=1).all()


def test_fused_layouts(equals_reference):
    every_second = {name: x[::2] for name, x in ngrams(20).items()}
    equals_reference(FUSED, **fused(0, **every_second))
    one = {"g2": torch.tensor([5]).expand(9), "g3": torch.zeros(9, dtype=torch.int32)}
    equals_reference(FUSED, **fused(9, **one))
    equals_reference(FUSED, **fused(9, **named([table[:, ::3] for table in tables()])))


BAD_TABLES = [
    ({"table1": None}, TypeError, "table1: got NoneType; a torch.Tensor is accepted"),
    ({"table2": torch.ones(9, 24)}, TypeError, "table2: dtype torch.float32 .* torch.bfloat16 is"),
    ({"table0": tables()[0][0]}, ValueError, r"table0: shape \(24,\) .* rank 2 is"),
    ({"table3": tables(8)[3]}, ValueError, r"table3: shape \(52, 8\) .* \[rows, 24\] is"),
    ({"table1": tables()[1].to("meta")}, ValueError, "table1: device meta .* ids is on cpu"),
    ({"starts": (0, 0, 0)}, ValueError, "starts: 3 values are not accepted; 4 are"),
    ({"starts": (0, 0, 0, -1)}, ValueError, "starts: -1 is not accepted; 0 to"),
    ({"starts": (0, 2**32, 0, 0)}, ValueError, "starts: 4294967296"),
    ({"starts": (0, 0, 0, 0.0)}, TypeError, "starts: got float; an int is accepted"),
    ({"starts": 0}, TypeError, "starts: got int; 4 integers are accepted"),
]
BAD_TOKENS = [
    ({"ids": [1]}, TypeError, "ids: got list"),
    ({"g2": torch.ones(9)}, TypeError, "g2: dtype torch.float32 .* torch.int32, torch.int64 are"),
    ({"g3": torch.ones(8).long()}, ValueError, r"g3: shape \(8,\) .* \(9,\) is"),
    ({"ids": torch.ones(3, 3).long()}, ValueError, r"ids: shape \(3, 3\) .* \[tokens\] is"),
    ({"g3": torch.ones(9).long().to("meta")}, ValueError, "g3: device meta .* ids is on cpu"),
    ({"token_vocabulary": 0}, ValueError, "token_vocabulary: 0 is not accepted; 1 to"),
    ({"token_vocabulary": 2**32}, ValueError, "token_vocabulary: 4294967296"),
    ({"token_vocabulary": True}, TypeError, "token_vocabulary: got bool"),
    ({"vocabularies": (1, 2, 3, 0)}, ValueError, "vocabularies: 0 is not accepted"),
    ({"vocabularies": "1234"}, TypeError, "vocabularies: got str; 4 integers are accepted"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_TABLES + BAD_TOKENS)
def test_bad_input_of_the_fused_kernel_is_named(kernel, change, error, message):
    with pytest.raises(error, match=message):
        kernel(FUSED)(**fused(9, **change))


@pytest.mark.parametrize(("change", "error", "message"), BAD_TOKENS)
def test_bad_input_of_the_hash_is_named(kernel, change, error, message):
    good = {**ngrams(9), "token_vocabulary": TOKENS, "vocabularies": VOCABULARIES}
    with pytest.raises(error, match=message):
        kernel(HASH)(**(good | change))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        *BAD_TABLES,
        ({"ids": ids_of(9).short()}, TypeError, "ids: dtype torch.int16"),
        ({"ids": ids_of(9)[:, :3]}, ValueError, r"ids: shape \(9, 3\) .* \[tokens, 4\] is"),
        ({"ids": ids_of(9)[:, 0]}, ValueError, r"ids: shape \(9,\)"),
    ],
)
def test_bad_input_of_the_lookup_is_named(kernel, change, error, message):
    good = {"ids": ids_of(9), **named(tables())}
    with pytest.raises(error, match=message):
        kernel(LOOKUP)(**(good | change))
