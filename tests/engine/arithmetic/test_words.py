"""Words wrap, have sites and mutants; rows are taken by number or not at all."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.arithmetic import (
    Exact,
    Hopper,
    Value,
    Word,
    launch,
    side_by_side,
    take,
    where,
    words,
)
from exactness.arithmetic.mutants import Mutated, survey
from exactness.arithmetic.proofs import proved_equal
from exactness.formats import INTEGERS, f32

U32, I64, I32, U8 = (INTEGERS[name] for name in ("u32", "i64", "i32", "u8"))

INT64 = st.integers(-(2**63), 2**63 - 1)


def run(program, **arguments):
    return Hopper().run(program, arguments)


def in_format(number, fmt):
    """`number` modulo two to the width, in unbounded integers."""
    number %= 2**fmt.bits
    return number - 2**fmt.bits if fmt.signed and number >= 2 ** (fmt.bits - 1) else number


@given(x=st.lists(INT64, min_size=1), y=INT64, fmt=st.sampled_from([U32, I64, I32, U8]))
@settings(deadline=None)
def test_words_are_unbounded_integers_reduced_after_each_step(x, y, fmt):
    constant = in_format(y, fmt)

    def program(x, y):
        a, b = words(fmt, x, y)
        return a + b, a - b, a * b, a + constant, constant - a, a * constant

    found = run(program, x=np.array(x), y=np.array([y]))
    right = [in_format(number, fmt) for number in x]
    b = constant
    expected = [
        [in_format(result, fmt) for result in results]
        for results in zip(
            *((a + b, a - b, a * b, a + b, b - a, a * b) for a in right), strict=True
        )
    ]
    assert [result.tolist() for result in found] == expected


@given(x=st.lists(st.integers(0, 2**32 - 1), min_size=1), y=st.integers(1, 2**32 - 1))
@settings(deadline=None)
def test_quotients_remainders_and_comparisons(x, y):
    def program(x):
        a = words(U32, x)[0]
        return a % y, a // y, a < y, a <= y, a > y, a >= y

    found = [result.tolist() for result in run(program, x=np.array(x, np.uint32))]
    assert found[:2] == [[a % y for a in x], [a // y for a in x]]
    assert found[2:4] == [[a < y for a in x], [a <= y for a in x]]
    assert found[4:] == [[a > y for a in x], [a >= y for a in x]]


def test_words_of_words_and_columns():
    def program(x):
        narrow = words(U8, x)[0]
        wide = words(I64, narrow)[0]
        return side_by_side([wide[:2], wide[1:] + 300])

    assert run(program, x=torch.tensor([1, -1, 256])).tolist() == [[1, 555], [255, 300]]
    assert Exact().run(program, {"x": np.array([1, -1, 256])}).tolist() == [[1, 555], [255, 300]]


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (lambda x: words(U32, x)[0] + 2**32, ValueError, "4294967296 is not in the range of u32"),
        (lambda x: words(U32, x)[0] * -1, ValueError, "-1 is not in the range of u32"),
        (lambda x: words(I64, x)[0] - 2**63, ValueError, "is not in the range of i64"),
        (lambda x: words(U32, x)[0] + 0.5, TypeError, "0.5 is neither a Word nor an integer"),
        (lambda x: words(U32, x)[0] + x, TypeError, "is neither a Word nor an integer"),
        (lambda x: words(U32, x)[0] + words(I64, x)[0], TypeError, "u32 and i64 mixed"),
        (lambda x: words(I64, x)[0] % 3, TypeError, "mod: operands are i64; unsigned"),
        (lambda x: words(U32, x)[0] == 3, TypeError, "Word == and != are not defined"),
        (lambda x: words(INTEGERS["u64"], x), TypeError, "words of u64 are not supported"),
        (lambda x: words(U32, x * 0.5), TypeError, "float64 is no integer of a word"),
        (lambda x: words(U32, x.astype("uint64")), TypeError, "uint64 is no integer of a word"),
        (lambda x: words(U32, [1]), TypeError, "list is no integer of a word"),
    ],
)
def test_what_is_no_word_is_refused(program, error, message):
    with pytest.raises(error, match=message):
        run(program, x=np.arange(3))


@launch
def hashed(ids):
    token = words(U32, ids)[0]
    number = token * 2654435761
    return number % 1000


def test_integers_alone_make_a_launch():
    def program(ids):
        first = hashed(ids)
        return hashed(first)

    arithmetic = Hopper()
    result = arithmetic.run(program, {"ids": np.arange(5)})
    assert [made.label for made in arithmetic.launches] == ["first", "hashed"]
    assert arithmetic.launches[1].results[0].tolist() == result.tolist()
    with pytest.raises(TypeError, match="launch hashed: no argument is a Value, and no arithmetic"):
        hashed(np.arange(5))


TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("arithmetic", [Hopper, Exact])
def test_rows_are_taken_by_number(arithmetic):
    def masked(x, index):
        row = words(I64, index)[0]
        return take(x, row, mask=(row >= 0) & (row < x.shape[0]))

    def plain(x, index):
        return take(x, index)

    index = np.array([[3, 0], [-1, 2**40]])
    found = arithmetic().run(masked, {"x": TABLE, "index": index}).payload
    assert found.tolist() == [[[9, 10, 11], [0, 1, 2]], [[0] * 3] * 2]
    assert not np.signbit(found).any()
    found = arithmetic().run(plain, {"x": TABLE, "index": index[0]}).payload
    assert found.tolist() == [[9, 10, 11], [0, 1, 2]]
    empty = arithmetic().run(masked, {"x": TABLE[:0], "index": index}).payload
    assert empty.tolist() == [[[0] * 3] * 2] * 2


@pytest.mark.parametrize("index", [[4], [-1], [0, 2**33]])
def test_a_row_that_does_not_exist_is_an_error(index):
    with pytest.raises(IndexError, match="a row outside of the 4 of the table, not masked"):
        run(take, x=TABLE, index=np.array(index))


def judged(program, **arguments):
    """Name of each mutant, less its site's function, to (whether it differs, its proof)."""
    surveyed = survey(program, [arguments])
    right = run(program, **arguments)
    found = {}
    for mutant in surveyed.mutants():
        mutated = Mutated(mutant)
        wrong = mutated.run(program, arguments)
        assert mutated.hits
        differs = not np.array_equal(*(getattr(x, "payload", x) for x in (wrong, right)))
        found[mutant.name.partition(":")[2]] = (differs, proved_equal(surveyed, mutant))
    return found


TOKENS = np.arange(2**40, 2**40 + 99) * 12345678


def test_a_hash_is_wrong_in_every_way():
    def program(ids, before):
        token, last = words(U32, ids, before)
        number = token + last * 151936
        mixed = number * 2654435761
        return mixed % 997

    found = judged(program, ids=TOKENS, before=TOKENS[::-1])
    reason = "the result only goes to sums, differences and products, which wrap it again"
    assert found == {
        "token, last=words 64_bits": (False, reason),
        "token, last=words swapped_0_1": (True, None),
        "number=mul 64_bits": (False, reason),
        "number=mul constant_plus_one": (True, None),
        "number=add 64_bits": (False, reason),
        "number=add left_dropped": (True, None),
        "number=add right_dropped": (True, None),
        "mixed=mul 64_bits": (True, None),
        "mixed=mul constant_plus_one": (True, None),
        "mod signed": (True, None),
        "mod constant_plus_one": (True, None),
    }


def test_a_lookup_is_wrong_in_every_way():
    def program(x, ids):
        row = words(I64, ids)[0]
        local = row - 1
        return take(x, local, mask=(local >= 0) & (local < 4))

    found = judged(program, x=TABLE + 1, ids=np.array([0, 1, 2, 4, 5, 2**32 + 1]))
    assert all(differs and proof is None for differs, proof in found.values())
    assert set(found) == {
        "row=words 32_bits",
        "local=sub left_dropped",
        "local=sub right_dropped",
        "local=sub constant_plus_one",
        "ge boundary",
        "lt boundary",
        "take index_plus_one",
        "take index_minus_one",
    }


def test_a_wrong_program_reads_nothing_of_an_empty_table():
    def program(x, ids):
        row = words(I64, ids)[0]
        return take(x, row, mask=(row >= 0) & (row < x.shape[0]))

    found = judged(program, x=TABLE[:0], ids=np.array([0, 1]))
    assert not any(differs for differs, _ in found.values())


@pytest.mark.parametrize(
    "use",
    [
        lambda word, x: word % 7,
        lambda word, x: word.plain(),
        lambda word, x: where(word < 2**31, x, -x),
        lambda word, x: words(I64, word)[0] + 1,
        lambda word, x: (word + 1, word),
    ],
    ids=["remainder", "plain", "comparison", "wider", "output"],
)
def test_what_does_not_wrap_again_proves_nothing(use):
    def program(x, ids):
        word = words(U32, ids)[0]
        return use(word, x)

    surveyed = survey(program, [{"x": TABLE[0], "ids": np.array([1, 2, 2**32])}])
    (wider,) = [m for m in surveyed.mutants() if m.name == "program:word=words 64_bits"]
    assert proved_equal(surveyed, wider) is None


def test_a_signed_remainder_is_that_of_c():
    def program(ids):
        word = words(U32, ids)[0]
        return word % 7

    ids = np.array([5, 2**31, 2**32 - 1, 2**32 - 9])
    (signed,) = [m for m in survey(program, [{"ids": ids}]).mutants() if m.name.endswith("signed")]
    assert Mutated(signed).run(program, {"ids": ids}).tolist() == [5, -2, -1, -2]


def test_words_show_what_they_are():
    assert repr(Word(Hopper(), np.array([1]), U32)) == "Word(u32, array([1]))"


def test_widths_are_got_wrong_only_where_something_does_not_fit():
    def program(ids):
        word = words(U32, ids)[0]
        total = word + 5
        return total % 7

    found = judged(program, ids=np.array([0, 3, 8]))
    assert set(found) == {
        "total=add left_dropped",
        "total=add right_dropped",
        "total=add constant_plus_one",
        "mod constant_plus_one",
    }


def test_torch_gives_the_same_words_as_numpy():
    """CPU tensors in the place of CUDA's, which no machine without a GPU has."""

    def hashed(ids):
        mixed = words(U32, ids)[0] * 2654435761
        return mixed % 997, mixed // 3, mixed < 2**31

    def row_of(ids, table):
        row = words(I64, ids)[0] - 1
        return take(table, row, mask=(row >= 0) & (row < 4)).payload

    found = run(lambda: hashed(torch.from_numpy(TOKENS)))
    expected = run(hashed, ids=TOKENS)
    assert [x.tolist() for x in found] == [x.tolist() for x in expected]
    assert found[0].dtype == torch.int64
    ids = np.array([-(2**63), 0, 1, 4, 5, 2**32 + 1])
    values = Hopper(), torch.from_numpy(TABLE), f32
    found = run(lambda: row_of(torch.from_numpy(ids), Value(*values)))
    assert found.tolist() == run(row_of, ids=ids, table=TABLE).tolist()
    assert found.dtype == torch.float32
