"""The n-gram hash in front of WeLM's OE tables in one launch, all in 32-bit wrapping arithmetic.

r2 = id + g2 · V and r3 = r2 + g3 · V², V the vocabulary of tokens, g2 the token before and g3 the
one before that; bucket = (r · 2654435761) mod the vocabulary of the branch. Branches 0 and 1 use
r2, branches 2 and 3 use r3.

Baseline: WeLMv4's `welm_oe_hash_decode_from_prefixes_kernel` (`references/oe_hash.py`).
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import INTEGERS
from exactness.inputs import Inputs, IntegerTensor, Layout
from exactness.launching import Launch, launcher

from ._oe import BRANCHES, check_integer, check_integers, check_tokens, hashes
from ._start import options, start

_BLOCK = 128


@triton.jit(
    do_not_specialize=["tokens", "token_vocabulary"], do_not_specialize_on_alignment=["out_ptr"]
)
def _oe_hash_kernel(
    token_ptrs,
    strides,
    tokens,
    token_vocabulary,
    vocabularies,
    out_ptr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = number < tokens
    token = tl.load(token_ptrs[0] + number * strides[0], mask=mask, other=0)
    g2 = tl.load(token_ptrs[1] + number * strides[1], mask=mask, other=0)
    g3 = tl.load(token_ptrs[2] + number * strides[2], mask=mask, other=0)
    two, three = hashes(token, g2, g3, token_vocabulary)
    for branch in tl.static_range(4):
        bucket = (two if branch < 2 else three) % tl.cast(vocabularies[branch], tl.uint32)
        tl.store(out_ptr + number * 4 + branch, bucket.to(tl.int64), mask=mask)


@launcher
def oe_hash(
    ids: torch.Tensor,
    g2: torch.Tensor,
    g3: torch.Tensor,
    token_vocabulary: int,
    vocabularies: Sequence[int],
) -> Launch[torch.Tensor]:
    """Hash the n-grams that end in each token to rows of the four tables.

    Args:
        ids: int32 or int64 [tokens], any stride; only the low 32 bits of a token count.
        g2: the token before each, like `ids`.
        g3: the token before that, like `ids`. (For a text, shifted views of it.)
        token_vocabulary: 1 to 2^32 − 1.
        vocabularies: rows of the four tables, each 1 to 2^32 − 1.

    Returns:
        int64 [tokens, 4], contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape, device or vocabulary.
    """
    check_tokens("ids", ids)
    grams = (ids, check_tokens("g2", g2, ids), check_tokens("g3", g3, ids))
    check_integer("token_vocabulary", token_vocabulary, 1)
    rows = check_integers("vocabularies", vocabularies, 1)
    tokens = ids.shape[0]
    out = torch.empty((tokens, BRANCHES), dtype=torch.int64, device=ids.device)
    if not tokens:
        return Launch(out)
    programs = triton.cdiv(tokens, _BLOCK)
    return Launch(
        out,
        _oe_hash_kernel,
        (programs,),
        grams,
        tuple(x.stride(0) for x in grams),
        tokens,
        token_vocabulary,
        rows,
        out,
        BLOCK=_BLOCK,
        **options(programs, ids, _BLOCK // 32),
    )


def _tokens() -> IntegerTensor:
    return IntegerTensor(INTEGERS["i64"], ("tokens",), -(2**33), 2**33, tuple(Layout))


CLAIM = Claim(
    kernel=oe_hash,
    reference="oe_hash:oe_hash",
    inputs=Inputs(
        {"tokens": (0, 3000)},
        {"ids": _tokens(), "g2": _tokens(), "g3": _tokens()},
        {
            "token_vocabulary": (151936, 65536, 1, 2**31 + 11, 2**32 - 1),
            "vocabularies": (
                (16000008, 16000016, 16000024, 16000032),
                (1, 2, 3, 1000),
                (2**32 - 5, 2**31, 2**31 - 1, 65536),
            ),
        },
    ),
    cases=[{"tokens": 129}, {"tokens": 1000, "token_vocabulary": 2**32 - 1}],
    bench=[
        Bench(
            name="oe_hash",
            sizes={"tokens": "tokens"},
            bytes="tokens*7*8",
            against={"chain": "_torch_chains:oe_hash"},
        )
    ],
)
